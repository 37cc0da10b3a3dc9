import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { type BuildInput, cachedBuild } from "./cache.ts";
import { findRuntime } from "./cpp-runtime.ts";
import { run } from "./run.ts";
import { partName, type Toolchain } from "./toolchain.ts";

const SOURCES = join(import.meta.dirname, "../cpp-runtime");

/**
 * Collects the ONNX runtime and the C++ run time that it needs. The runtime is a file of sherpa-onnx's npm package, which
 * has it for all platforms of a release, without code for GPUs. The package's own library contains parts under the
 * GPL, and is left out.
 *
 * @returns the folder that holds them, all flat
 */
export async function collectOnnxRuntime(toolchain: Toolchain): Promise<string> {
  const name = `libonnxruntime.${toolchain.platform === "darwin" ? "dylib" : "so"}`;
  const platform = `${toolchain.platform}-${toolchain.arch}`;
  const library = join(toolchain.packages, `sherpa-onnx-${platform}`, name);
  if (!existsSync(library)) throw new Error(`there is no package with an ONNX runtime for ${platform}`);
  const runtime = await findRuntime(toolchain);
  const inputs: BuildInput[] = [
    { literal: toolchain.identity },
    { path: import.meta.path },
    { path: SOURCES },
    { path: library },
    ...runtime.files.map((path) => ({ path })),
  ];
  return cachedBuild(partName(toolchain, "onnxruntime"), inputs, async (outDir) => {
    const copy = join(outDir, name);
    copyFileSync(library, copy);
    // This machine's `strip` knows its own processor only.
    if (toolchain.platform === "linux" && toolchain.arch === process.arch)
      await run(["strip", "--strip-unneeded", copy]);
    await runtime.carry(outDir);
  });
}
