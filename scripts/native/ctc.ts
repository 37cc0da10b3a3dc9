import { join } from "node:path";
import { type BuildInput, cachedBuild } from "./cache.ts";
import { run } from "./run.ts";
import { nodeHeaders } from "./whisper.ts";

const SOURCES = join(import.meta.dirname, "ctc");
const FLAGS = [
  ...["-std=gnu11", "-O3", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-shared"],
  // The functions of Node's interface are those of the process that loads the addon.
  ...(process.platform === "darwin" ? ["-undefined", "dynamic_lookup"] : []),
];

/**
 * Builds the addon for CTC models (ctc/). It loads the ONNX runtime that sherpa-onnx's packages carry when it is used.
 * Its functions are called by their positions in the runtime's table, so no header of the runtime is needed.
 *
 * @returns the folder with `ctc.addon`
 */
export async function buildCtc(): Promise<string> {
  const inputs: BuildInput[] = [{ path: import.meta.path }, { path: SOURCES }];
  return cachedBuild("ctc", inputs, async (outDir) => {
    const addon = join(outDir, "ctc.addon");
    const sources = ["features.c", "runtime.c", "addon.c"].map((name) => join(SOURCES, name));
    await run(["cc", ...FLAGS, `-I${nodeHeaders()}`, "-o", addon, ...sources, "-lm", "-ldl", "-lpthread"]);
    if (process.platform === "linux") await run(["strip", "--strip-unneeded", addon]);
  });
}
