import { existsSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { PartList } from "../src/executable/parts.ts";
import { buildAssets } from "../src/native/build/assets.ts";
import { PROCESSOR_CHOICES, type ProcessorChoice } from "../src/native/build/processor-code.ts";
import { run } from "../src/native/build/run.ts";
import {
  hostToolchain,
  releaseToolchain,
  TARGETS,
  type Target,
  type Toolchain,
} from "../src/native/build/toolchain.ts";
import { buildConsole } from "./console.ts";
import { buildCarriedModels, carriedWhisperBase } from "./models/carried.ts";
import { writeParts } from "./release/parts.ts";
import { seal } from "./release/seal.ts";

const ROOT = join(import.meta.dirname, "..");

/**
 * Builds everything into one executable: the native parts (cached between builds), then the program with all of them
 * embedded.
 *
 * @param entry module that the program starts with
 * @param output path of the executable
 * @param target platform of a release, built with the pinned compilers; undefined: this machine, with its own
 * @param choice the processors that a build for this machine is made for; a release is made for all
 * @returns the parts that it is made of
 */
export async function buildExecutable(
  entry: string,
  output: string,
  target?: Target,
  choice: ProcessorChoice = "machine",
): Promise<PartList> {
  const toolchain = target === undefined ? await hostToolchain() : await releaseToolchain(target);
  const native = await buildAssets(toolchain, target === undefined ? choice : "all");
  await buildConsole();
  await buildCarriedModels();
  mkdirSync(join(output, ".."), { recursive: true });
  const parts = await writeParts({
    path: partsPath(target),
    native,
    platform: `${toolchain.platform}-${toolchain.arch}`,
    entries: [entry, ...THREADS],
    flags: target === undefined ? [] : [`--conditions=${conditionOf(target)}`],
  });
  // The executable contains its first name, so that one is always the same. Source maps are written beside it.
  const unfinished = `${output}.${process.pid}.unfinished`;
  const executable = join(unfinished, "shruti");
  mkdirSync(unfinished, { recursive: true });
  try {
    const flags = [...BUILD_FLAGS, ...targetFlags(toolchain), `--outfile=${executable}`];
    await run([process.execPath, "build", ...flags, entry, ...THREADS], { cwd: ROOT });
    await seal(executable);
    renameSync(executable, output);
    return parts;
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
}

/** Selects the native parts of a target (package.json, `imports`), and the Bun that the executable begins with. */
function targetFlags({ target, runtime }: Toolchain): string[] {
  if (target === undefined) return [];
  const flags = [`--target=bun-${target}`, `--conditions=${conditionOf(target)}`];
  return runtime === undefined ? flags : [...flags, `--compile-executable-path=${runtime}`];
}

/** Returns the path of the list of parts; package.json (`imports`) knows these names. */
function partsPath(target: Target | undefined): string {
  return join(ROOT, target === undefined ? "build/parts" : `build/parts-${target}`, "shruti.parts");
}

function conditionOf(target: Target): string {
  return `shruti-${target}`;
}

/** Entry modules of threads. */
const THREADS = [join(ROOT, "src/store/file-hash-worker.ts")];

const BUILD_FLAGS = [
  "--compile",
  "--minify",
  "--bytecode",
  // Byte code needs the older module format, which has no top-level await.
  "--format=esm",
  "--sourcemap",
  // Modules in the older format otherwise contain the folder of the build, and no two builds are equal.
  ...["--define", '__dirname="/"', "--define", '__filename="/"'],
  // The executable must not read settings from the folder in which it is started.
  "--no-compile-autoload-dotenv",
  "--no-compile-autoload-bunfig",
];

function usage(): never {
  console.error(
    `usage: bun scripts/build.ts [--target ${TARGETS.join("|")}] [--processors ${PROCESSOR_CHOICES.join("|")}] [--output FILE]`,
  );
  process.exit(2);
}

type Command = { target: Target | undefined; choice: ProcessorChoice; output: string };

function parseCommand(): Command {
  const options = {
    target: { type: "string" },
    processors: { type: "string" },
    output: { type: "string" },
  } as const;
  let values: { target?: string; processors?: string; output?: string };
  try {
    ({ values } = parseArgs({ options }));
  } catch {
    return usage();
  }
  const target = TARGETS.find((name) => name === values.target);
  if (values.target !== undefined && target === undefined) return usage();
  const { processors = target === undefined ? "machine" : "all" } = values;
  const choice = PROCESSOR_CHOICES.find((name) => name === processors);
  // A release is used on machines with other processors.
  if (choice === undefined || (target !== undefined && choice !== "all")) return usage();
  const output = values.output ?? join(ROOT, "dist", target === undefined ? "shruti" : `shruti-${target}`);
  return { target, choice, output: resolve(output) };
}

if (import.meta.main) {
  const { target, choice, output } = parseCommand();
  const entry = join(ROOT, "src/main.ts");
  if (!existsSync(entry)) throw new Error(`${relative(ROOT, entry)} does not exist`);
  const startedMs = performance.now();
  const { build } = await buildExecutable(entry, output, target, choice);
  const megabytes = (statSync(output).size / 1e6).toFixed(0);
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  console.log(`${relative(process.cwd(), output)}: ${megabytes} MB, built in ${seconds} s`);
  const { names, complete } = build.processor_code;
  if (!complete) {
    console.log(`It is for this machine's processor (${names.join(", ")}). --processors all is for all.`);
  }
  if (!carriedWhisperBase()) {
    console.log(
      "It carries the demonstration model alone, because the weights of Whisper base could not be had (above).",
    );
  }
}
