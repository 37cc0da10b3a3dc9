import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { type BuildInput, cachedBuild } from "./cache.ts";
import { findRuntime } from "./cpp-runtime.ts";
import { nodeHeaders } from "./node-headers.ts";
import { run } from "./run.ts";
import { partName, type Toolchain } from "./toolchain.ts";

const SOURCES = join(import.meta.dirname, "sherpa");
const ADDON_FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-shared"];

/**
 * Collects the files for diarization with installed weights: sherpa-onnx's libraries from npm, our addon over their C
 * interface, and the C++ run time.
 *
 * @returns the folder that holds them, all flat
 */
export async function collectSherpa(toolchain: Toolchain): Promise<string> {
  const published = join(toolchain.packages, `sherpa-onnx-${toolchain.platform}-${toolchain.arch}`);
  const suffix = toolchain.platform === "darwin" ? "dylib" : "so";
  const libraries = [`libonnxruntime.${suffix}`, `libsherpa-onnx-c-api.${suffix}`];
  if (!libraries.every((name) => existsSync(join(published, name)))) {
    throw new Error(`sherpa-onnx has no package for ${toolchain.platform}-${toolchain.arch}`);
  }
  const runtime = await findRuntime(toolchain);
  const inputs: BuildInput[] = [
    { literal: toolchain.identity },
    { path: import.meta.path },
    { path: SOURCES },
    ...libraries.map((name) => ({ path: join(published, name) })),
    ...runtime.files.map((path) => ({ path })),
  ];
  return cachedBuild(partName(toolchain, "sherpa"), inputs, async (outDir) => {
    for (const name of libraries) {
      copyFileSync(join(published, name), join(outDir, name));
      if (toolchain.platform === "linux") await stripForeign(toolchain, join(outDir, name));
    }
    await compileAddon(toolchain, outDir, join(outDir, libraries[1] ?? ""));
    await runtime.carry(outDir);
  });
}

async function compileAddon(toolchain: Toolchain, outDir: string, library: string): Promise<void> {
  const { cc, env } = toolchain;
  const linking =
    toolchain.platform === "darwin"
      ? ["-undefined", "dynamic_lookup", "-Wl,-rpath,@loader_path"]
      : ["-Wl,-rpath,$ORIGIN", "-Wl,-s"];
  const files = [
    `-I${nodeHeaders()}`,
    join(SOURCES, "addon.c"),
    library,
    "-o",
    join(outDir, "sherpa-onnx.node"),
  ];
  await run([cc, ...ADDON_FLAGS, ...toolchain.mapFlags, ...files, ...linking], { env });
}

/** Strips a library from npm, if this machine's `strip` knows its processor. */
async function stripForeign(toolchain: Toolchain, path: string): Promise<void> {
  if (toolchain.arch === process.arch) await run(["strip", "--strip-unneeded", path]);
}
