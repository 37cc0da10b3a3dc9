import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { variantName } from "../cpu-variants.ts";
import { runtimeName } from "./cpp-runtime.ts";
import { buildDecoder } from "./decoder.ts";
import { isNewerVersion, newestGlibc } from "./glibc.ts";
import { buildOnnx } from "./onnx.ts";
import { collectOnnxRuntime } from "./onnxruntime.ts";
import { missingProcessorCode, type ProcessorChoice } from "./processor-code.ts";
import { buildSilero } from "./silero.ts";
import { RELEASE_GLIBC, type Target, type Toolchain } from "./toolchain.ts";
import { buildWhisper } from "./whisper.ts";

const BUILD = join(import.meta.dirname, "../../../build");
const STAMP = "stamp";
/** Ending of the compressed files, which are embedded. */
const PACKED = ".zst";
/** Higher levels take ten times as long and save a tenth. */
const LEVEL = 9;

/**
 * Returns the folder of the carried native files and of the generated module that imports them; git-ignored.
 * package.json (`imports`) knows these names.
 *
 * @param target platform of a release; undefined: this machine
 */
function assetsFolder(target: Target | undefined): string {
  return join(BUILD, target === undefined ? "native" : `native-${target}`);
}

/**
 * Builds all native parts and copies them into one flat folder, with a module (`assets.ts`) that imports a compressed copy
 * of each file, so that `bun build --compile` embeds these. If nothing has changed, it only compares a stamp.
 *
 * @param choice the families of processors for which whisper's code is compiled
 * @returns the folder
 * @throws Error when a part of a release needs a newer glibc than `RELEASE_GLIBC`, or misses code for processors
 */
export async function buildAssets(toolchain: Toolchain, choice: ProcessorChoice): Promise<string> {
  const folders = await allOf([
    buildDecoder(toolchain),
    buildWhisper(toolchain, choice),
    collectOnnxRuntime(toolchain),
    buildOnnx(toolchain),
    buildSilero(toolchain),
  ]);
  const dir = assetsFolder(toolchain.target);
  const stamp = `${generatorHash()}\n${toolchain.identity}\n${folders.join("\n")}\n`;
  if (!isCurrent(dir, stamp)) layOut(dir, folders, toolchain, stamp);
  return dir;
}

/**
 * Waits for builds that run side by side: the configuration of one, which uses one processor, passes while another compiles.
 *
 * @throws the first error, when all builds have ended: none continues behind the message
 */
async function allOf<T>(builds: Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(builds);
  return Promise.all(builds);
}

/** What `shruti version` and a release's list of parts say of the native parts. */
export type NativeBuild = {
  target: string;
  compiler: string;
  glibc: string;
  runtime: string;
  processorCode: ProcessorCode;
};

/** `names` of whisper's code for processors in the build, and whether that is all that there is. */
type ProcessorCode = { names: string[]; complete: boolean };

/**
 * Describes the native files of a folder.
 *
 * @throws Error for a release that needs too new a glibc, or misses code for processors
 */
export function describeBuild(dir: string, toolchain: Toolchain): NativeBuild {
  const glibc = newestGlibc(dir) ?? "";
  if (toolchain.target !== undefined && isNewerVersion(glibc, RELEASE_GLIBC)) {
    throw new Error(`a native part needs glibc ${glibc}; a release needs ${RELEASE_GLIBC} at most`);
  }
  const names = readdirSync(dir).flatMap((file) => variantName(file) ?? []);
  const missing = missingProcessorCode(toolchain.arch, names);
  if (toolchain.target !== undefined && missing.length > 0) {
    throw new Error(`whisper's code for some processors is missing in a release: ${missing.join(", ")}`);
  }
  const target = toolchain.target ?? `${toolchain.platform}-${toolchain.arch}`;
  const processorCode = { names: names.sort(), complete: missing.length === 0 };
  return { target, compiler: toolchain.compiler, glibc, runtime: runtimeName(toolchain), processorCode };
}

/** Returns the hash of this file, so that a change of this script writes the folder again. */
function generatorHash(): string {
  return createHash("sha256")
    .update(readFileSync(import.meta.path))
    .digest("hex");
}

function isCurrent(dir: string, stamp: string): boolean {
  const path = join(dir, STAMP);
  return existsSync(path) && readFileSync(path, "utf8") === stamp;
}

function layOut(dir: string, folders: string[], toolchain: Toolchain, stamp: string): void {
  const unfinished = `${dir}.${process.pid}`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  const names: string[] = [];
  for (const folder of folders) {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const name = embeddable(entry.name);
      if (names.includes(name)) throw new Error(`two native builds have a file named ${name}`);
      copyFileSync(join(folder, entry.name), join(unfinished, name));
      const packed = Bun.zstdCompressSync(readFileSync(join(folder, entry.name)), { level: LEVEL });
      writeFileSync(join(unfinished, `${name}${PACKED}`), packed);
      names.push(name);
    }
  }
  const build = describeBuild(unfinished, toolchain);
  writeFileSync(join(unfinished, "toolchain.json"), `${JSON.stringify(build, null, 2)}\n`);
  writeFileSync(join(unfinished, "assets.ts"), assetsModule(unfinished, names.sort()));
  writeFileSync(join(unfinished, STAMP), stamp);
  rmSync(dir, { recursive: true, force: true });
  renameSync(unfinished, dir);
}

/** Returns a name that Bun can import: it refuses `.node` files, while `process.dlopen` accepts any name. */
function embeddable(name: string): string {
  return name.replace(/\.node$/, ".addon");
}

function assetsModule(folder: string, names: string[]): string {
  const files = names.map((name) => {
    const path = join(folder, name);
    const sha256 = createHash("sha256").update(readFileSync(path)).digest("hex");
    return { name, bytes: statSync(path).size, sha256, executable: isProgram(path) };
  });
  const all = createHash("sha256");
  for (const file of files) all.update(`${file.name} ${file.sha256} ${file.executable}\n`);
  const lines = [
    "// @ts-nocheck",
    "// Written by src/native/build/assets.ts. Imports of type file have no declarations, hence the line above.",
    ...names.map((name, index) => `import file${index} from "./${name}${PACKED}" with { type: "file" };`),
    "",
    "export const NATIVE_HASH: string =",
    `  "${all.digest("hex")}";`,
    "",
    "export const NATIVE_FILES: {",
    "  name: string; packed: string; bytes: number; sha256: string; executable: boolean",
    "}[] = [",
    ...files.map(
      (file, index) =>
        `  { name: "${file.name}", packed: file${index}, bytes: ${file.bytes}, sha256: "${file.sha256}", executable: ${file.executable} },`,
    ),
    "];",
    "",
  ];
  return lines.join("\n");
}

/** Reports whether a file is a program, which needs its execute bit. Libraries are only mapped. */
function isProgram(path: string): boolean {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return !name.includes(".") && (statSync(path).mode & 0o111) !== 0;
}
