import { join } from "node:path";
import { type BuildInput, cachedBuild } from "./cache.ts";
import { nodeHeaders } from "./node-headers.ts";
import { run } from "./run.ts";
import { partName, type Toolchain } from "./toolchain.ts";

const SOURCES = join(import.meta.dirname, "ctc");
const FLAGS = [
  ...["-std=gnu11", "-O3", "-Wall", "-Wextra"],
  ...["-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-shared"],
];

/**
 * Builds the addon for CTC models (ctc/). It loads the ONNX runtime that sherpa-onnx's packages carry when it is used.
 * Its functions are called by their positions in the runtime's table, so no header of the runtime is needed.
 *
 * @returns the folder with `ctc.addon`
 */
export async function buildCtc(toolchain: Toolchain): Promise<string> {
  const { cc, env, mapFlags, platform } = toolchain;
  const inputs: BuildInput[] = [
    { literal: toolchain.identity },
    { path: import.meta.path },
    { path: SOURCES },
  ];
  return cachedBuild(partName(toolchain, "ctc"), inputs, async (outDir) => {
    const sources = ["features.c", "runtime.c", "addon.c"].map((name) => join(SOURCES, name));
    // The functions of Node's interface are those of the process that loads the addon.
    const linking = platform === "darwin" ? ["-undefined", "dynamic_lookup"] : ["-Wl,-s"];
    const files = [`-I${nodeHeaders()}`, "-o", join(outDir, "ctc.addon"), ...sources];
    await run([cc, ...FLAGS, ...mapFlags, ...files, ...linking, "-lm", "-ldl", "-lpthread"], { env });
  });
}
