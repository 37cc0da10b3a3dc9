import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { basename, join, relative } from "node:path";
import { type BuildInput, cachedBuild, finishedBuild } from "./cache.ts";
import { newestGlibc } from "./glibc.ts";
import { nodeHeaders } from "./node-headers.ts";
import { chosenProcessorCode, type ProcessorChoice } from "./processor-code.ts";
import { run } from "./run.ts";
import { hostToolchain, partName, processorOf, type Toolchain } from "./toolchain.ts";

const ROOT = join(import.meta.dirname, "../../..");
/**
 * The npm package `nodejs-whisper` carries the whole source of whisper.cpp 1.9.1. All that is built of it has
 * `patches/nodejs-whisper@0.3.1.patch`, applied by `bun install`, which fails where the source no longer fits.
 */
const WHISPER_SOURCE = join(ROOT, "node_modules/nodejs-whisper/cpp/whisper.cpp");
/** smart-whisper with `patches/smart-whisper@0.8.1.patch`, applied by `bun install`. `../whisper/addon.cmake` names what is used. */
const BINDING_SOURCE = join(ROOT, "node_modules/smart-whisper");
const NODE_ADDON_API = join(ROOT, "node_modules/node-addon-api");
const PROJECT = join(import.meta.dirname, "../whisper");
const LIBRARY_SETTINGS = ["ggml-libraries.cmake", "ggml-libraries.map"].map((name) =>
  join(import.meta.dirname, "..", name),
);
/** Headers that the kernels and the speech detector share. */
const HEADERS = join(import.meta.dirname, "../headers");
/** What the addon has besides for TDT models. */
const TDT_SOURCES = ["tdt", "onnx/spectrum.c", "onnx/spectrum.h"].map((name) =>
  join(import.meta.dirname, "..", name),
);
const PEERS_PROJECT = join(import.meta.dirname, "../../../scripts/bench/whisper-peers");
const PEERS = ["whisper-cli", "whisper-server", "whisper-quantize", "parakeet-cli"];

/** Without git ggml's build does not put the commit of this repository into its libraries. */
const CMAKE_FLAGS = ["-DCMAKE_BUILD_TYPE=Release", "-DGIT_EXE=/bin/false"];

/**
 * Builds whisper's native part: `smart-whisper.addon` (with whisper.cpp inside), `libggml.so`, `libggml-base.so` and
 * one `libggml-cpu-*.so` for each chosen family of processors. They find each other when they lie in one folder, and need
 * nothing of the host but glibc.
 *
 * Needs cmake, a C++17 compiler, make or ninja, and Node's headers.
 *
 * @param choice the families of processors
 * @returns a folder with these files alone
 */
export async function buildWhisper(toolchain: Toolchain, choice: ProcessorChoice): Promise<string> {
  requirePatches();
  // One after the other: each of them uses all processors.
  const addon = await buildAddon(toolchain);
  const libraries = await buildLibraries(toolchain, choice);
  const inputs = [{ literal: [addon, libraries].map((folder) => basename(folder)).join("\n") }];
  return cachedBuild(partName(toolchain, "whisper"), inputs, async (outDir) => {
    for (const folder of [addon, libraries])
      for (const name of readdirSync(folder)) copyFileSync(join(folder, name), join(outDir, name));
  });
}

/** @returns a folder with `smart-whisper.addon`, `libggml.so` and `libggml-base.so`, which are the same for all processors */
function buildAddon(toolchain: Toolchain): Promise<string> {
  const inputs: BuildInput[] = [
    { literal: [toolchain.identity, ...CMAKE_FLAGS].join("\n") },
    ...sourceInputs(),
    ...projectInputs(["CMakeLists.txt", "addon.cmake", "relax.h"], ADDON_FOLDERS),
    ...[...LIBRARY_SETTINGS, HEADERS].map((path) => ({ path })),
    ...TDT_SOURCES.map((path) => ({ path })),
    { path: join(BINDING_SOURCE, "src/binding") },
    { path: join(NODE_ADDON_API, "package.json") },
  ];
  return cachedBuild(partName(toolchain, "whisper-addon"), inputs, async (outDir) => {
    const includes = `${nodeHeaders()};${NODE_ADDON_API}`;
    const flags = [`-DBINDING_SOURCE=${BINDING_SOURCE}`, `-DNODE_INCLUDES=${includes}`];
    await buildInto(toolchain, outDir, PROJECT, flags, ["smart-whisper"], /\.(addon|so)$/);
  });
}

/**
 * Builds ggml's libraries with code for processors. All of them take minutes, and few changes need it: what is compiled into
 * the addon does not belong to the inputs. Where all of them are in the cache, some are taken from there.
 *
 * @returns a folder with `libggml-cpu-*.so`; when all are built, with `libggml.so` and `libggml-base.so`, too
 */
async function buildLibraries(toolchain: Toolchain, choice: ProcessorChoice): Promise<string> {
  const part = partName(toolchain, "whisper-ggml");
  const everything = libraryInputs(toolchain, []);
  if (choice === "all") {
    return cachedBuild(part, everything, (outDir) =>
      buildInto(toolchain, outDir, PROJECT, [], ["ggml"], /\.so$/),
    );
  }
  const targets = chosenProcessorCode(toolchain.arch, choice).map((name) => `ggml-cpu-${name}`);
  return cachedBuild(part, libraryInputs(toolchain, targets), async (outDir) => {
    const finished = finishedBuild(part, everything);
    if (finished === undefined) {
      await buildInto(toolchain, outDir, PROJECT, [], targets, /^libggml-cpu-.*\.so$/);
      return;
    }
    for (const name of targets.map((target) => `lib${target}.so`))
      copyFileSync(join(finished, name), join(outDir, name));
  });
}

/** @param targets those of CMake's project that are built; none for all */
function libraryInputs(toolchain: Toolchain, targets: string[]): BuildInput[] {
  return [
    { literal: [toolchain.identity, ...CMAKE_FLAGS, ...targets].join("\n") },
    ...sourceInputs(GGML),
    ...projectInputs(["CMakeLists.txt", "relax.h"], ["kernels"]),
    ...[...LIBRARY_SETTINGS, HEADERS].map((path) => ({ path })),
  ];
}

/**
 * Builds whisper.cpp's own `whisper-cli`, `whisper-server`, `whisper-quantize` and `parakeet-cli` from the same source, static and
 * for this machine's processor: what the benchmarks compare with. No part of what ships.
 *
 * @returns a folder with the four programs
 */
export async function buildWhisperPeers(): Promise<string> {
  requirePatches();
  const toolchain = await hostToolchain();
  const inputs: BuildInput[] = [
    { literal: [toolchain.identity, ...CMAKE_FLAGS].join("\n") },
    ...sourceInputs(),
    { path: join(WHISPER_SOURCE, "examples") },
    { path: PEERS_PROJECT },
  ];
  return cachedBuild("whisper-peers", inputs, (outDir) =>
    buildInto(
      toolchain,
      outDir,
      PEERS_PROJECT,
      [],
      PEERS,
      /^(?:whisper-(?:cli|server|quantize)|parakeet-cli)$/,
    ),
  );
}

/** A file of each patched package, and what only the patch puts there. */
const PATCHED = [
  [join(BINDING_SOURCE, "src/binding/binding.cc"), "AddShruti"],
  [join(WHISPER_SOURCE, "ggml/src/ggml-cpu/amx/mmq.cpp"), "shruti: "],
  [join(WHISPER_SOURCE, "ggml/src/ggml-cpu/ggml-cpu.c"), "SHRUTI_KERNELS"],
  [join(WHISPER_SOURCE, "src/whisper.cpp"), "whisper_attempt attempt"],
] as const;

function requirePatches(): void {
  for (const [path, mark] of PATCHED) {
    if (existsSync(path) && readFileSync(path, "utf8").includes(mark)) continue;
    throw new Error(`${relative(ROOT, path)} is not patched: run \`bun install --ignore-scripts\``);
  }
}

/** Files of the project, and those in some of its folders without those for readers: a change of these builds nothing again. */
function projectInputs(files: readonly string[], folders: readonly string[]): BuildInput[] {
  return folders
    .flatMap((folder) => readdirSync(join(PROJECT, folder)).map((name) => join(folder, name)))
    .filter((name) => !name.endsWith(".md"))
    .concat(files)
    .sort()
    .flatMap((name) => [{ literal: name }, { path: join(PROJECT, name) }]);
}

/** Folders of the project that are compiled into the addon, and the kernels' headers, which it reads. */
const ADDON_FOLDERS = ["alignment", "binding", "decoding", "drafting", "kernels", "steps"];
const GGML = [
  "ggml/CMakeLists.txt",
  "ggml/cmake",
  "ggml/include",
  "ggml/src/CMakeLists.txt",
  "ggml/src/ggml-cpu",
];
const WHISPER_AND_GGML = ["CMakeLists.txt", "include", "src", ...GGML];

/** The parts of whisper.cpp's tree that are compiled; hashing all 5,000 files would take longer. */
function sourceInputs(parts: readonly string[] = WHISPER_AND_GGML): BuildInput[] {
  return [...parts]
    .concat(
      readdirSync(join(WHISPER_SOURCE, "ggml/src"))
        .filter(isSource)
        .sort()
        .map((name) => `ggml/src/${name}`),
    )
    .map((path) => ({ path: join(WHISPER_SOURCE, path) }));
}

/** What a GPU backend is compiled from: ggml without its code for processors, and the settings of both builds. */
export function backendSourceInputs(backend: string): BuildInput[] {
  const processors = join(WHISPER_SOURCE, "ggml/src/ggml-cpu");
  return [
    ...sourceInputs().filter((input) => !("path" in input && input.path === processors)),
    { path: join(WHISPER_SOURCE, `ggml/src/ggml-${backend}`) },
    { path: join(import.meta.dirname, "../whisper-backend") },
    ...LIBRARY_SETTINGS.map((path) => ({ path })),
  ];
}

function isSource(name: string): boolean {
  return /\.(c|cpp|h)$/.test(name);
}

async function buildInto(
  toolchain: Toolchain,
  outDir: string,
  project: string,
  flags: string[],
  targets: string[],
  wanted: RegExp,
): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), "shruti-whisper-"));
  try {
    const generator = Bun.which("ninja") === null ? [] : ["-G", "Ninja"];
    const env = {
      ...toolchain.env,
      ...(toolchain.target && { ZIG_LOCAL_CACHE_DIR: join(work, "zig-cache") }),
    };
    await run(
      [
        "cmake",
        "-S",
        project,
        "-B",
        work,
        ...generator,
        ...CMAKE_FLAGS,
        ...crossFlags(toolchain),
        `-DWHISPER_SOURCE=${WHISPER_SOURCE}`,
        ...flags,
      ],
      { env },
    );
    const jobs = String(availableParallelism());
    await run(["nice", "cmake", "--build", work, "--parallel", jobs, "--target", ...targets], { env });
    mkdirSync(outDir, { recursive: true });
    for (const name of readdirSync(join(work, "bin")).filter((entry) => wanted.test(entry))) {
      copyFileSync(join(work, "bin", name), join(outDir, name));
      await toolchain.strip(join(outDir, name));
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** What CMake does not find out by itself when it builds for a release. */
function crossFlags(toolchain: Toolchain): string[] {
  const { target, cc, cxx, ar, ranlib, env, mapFlags } = toolchain;
  if (target === undefined) return [];
  const path = (program: string) => Bun.which(program, { PATH: env.PATH ?? "" }) ?? program;
  const flags = mapFlags.join(" ");
  return [
    "-DCMAKE_SYSTEM_NAME=Linux",
    `-DCMAKE_SYSTEM_PROCESSOR=${processorOf(target)}`,
    `-DCMAKE_C_COMPILER=${path(cc)}`,
    `-DCMAKE_CXX_COMPILER=${path(cxx)}`,
    `-DCMAKE_AR=${path(ar)}`,
    `-DCMAKE_RANLIB=${path(ranlib)}`,
    `-DCMAKE_C_FLAGS=${flags}`,
    `-DCMAKE_CXX_FLAGS=${flags}`,
    "-DSHRUTI_RELEASE=ON",
  ];
}

if (import.meta.main) {
  const folder = process.argv.includes("--peers")
    ? await buildWhisperPeers()
    : await buildWhisper(await hostToolchain(), process.argv.includes("--all") ? "all" : "machine");
  console.log(folder);
  console.log(`newest glibc needed: ${newestGlibc(folder)}`);
}
