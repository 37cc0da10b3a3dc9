import { join } from "node:path";
import { type BuildInput, cachedBuild } from "./cache.ts";
import { nodeHeaders } from "./node-headers.ts";
import { run } from "./run.ts";
import { partName, type Toolchain } from "./toolchain.ts";

const SOURCES = join(import.meta.dirname, "../onnx");
const FILES = [
  "spectrum.c",
  "ctc-features.c",
  "speaker-features.c",
  "runtime.c",
  "addon.c",
  "ngram.c",
  "ctc-beam.c",
];
const FLAGS = [
  ...["-std=gnu11", "-O3", "-Wall", "-Wextra"],
  ...["-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-shared"],
];

/**
 * Builds the addon for ONNX models (onnx/). It loads the ONNX runtime when it is used. The runtime's functions are called
 * by their positions in its table, so no header of the runtime is needed.
 *
 * @returns the folder with `onnx.addon`
 */
export async function buildOnnx(toolchain: Toolchain): Promise<string> {
  const { cc, env, mapFlags, platform } = toolchain;
  const inputs: BuildInput[] = [
    { literal: toolchain.identity },
    { path: import.meta.path },
    { path: SOURCES },
  ];
  return cachedBuild(partName(toolchain, "onnx"), inputs, async (outDir) => {
    const sources = FILES.map((name) => join(SOURCES, name));
    // The functions of Node's interface are those of the process that loads the addon.
    const linking = platform === "darwin" ? ["-undefined", "dynamic_lookup"] : ["-Wl,-s"];
    const files = [`-I${nodeHeaders()}`, "-o", join(outDir, "onnx.addon"), ...sources];
    await run([cc, ...FLAGS, ...mapFlags, ...files, ...linking, "-lm", "-ldl", "-lpthread"], { env });
  });
}
