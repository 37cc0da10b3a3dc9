import { rmSync } from "node:fs";
import { join } from "node:path";
import { type BuildInput, cachedBuild } from "./cache.ts";
import { nodeHeaders } from "./node-headers.ts";
import { run } from "./run.ts";
import { partName, type Toolchain } from "./toolchain.ts";

const SOURCES = join(import.meta.dirname, "../onnx");
const HEADERS = join(import.meta.dirname, "../headers");
const FILES = [
  "spectrum.c",
  "ctc-features.c",
  "speaker-features.c",
  "runtime.c",
  "operations.c",
  "addon.c",
  "ngram.c",
  "ctc-beam.c",
];
const FLAGS = [
  ...["-std=gnu11", "-O3", "-Wall", "-Wextra"],
  ...["-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-shared"],
];

const LAYER_FLAGS = [
  ...["-std=gnu++17", "-O3", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden"],
  // Nothing of the language's library: the C compiler links it all.
  ...["-fno-exceptions", "-fno-rtti", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"],
];
/** Builds of the layers; `vector`: floats in a vector register. */
const PLAIN_LAYERS = { name: "layers_plain", vector: 4, flags: [] as string[] };
const X64_LAYERS = [
  PLAIN_LAYERS,
  { name: "layers_avx2", vector: 8, flags: ["-mavx2", "-mfma"] },
  { name: "layers_avx512", vector: 16, flags: ["-mavx512f", "-mfma", "-mprefer-vector-width=512"] },
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
    { path: HEADERS },
  ];
  return cachedBuild(partName(toolchain, "onnx"), inputs, async (outDir) => {
    const layers = await compileLayers(toolchain, outDir);
    const sources = [...FILES.map((name) => join(SOURCES, name)), ...layers];
    // The functions of Node's interface are those of the process that loads the addon.
    const linking = platform === "darwin" ? ["-undefined", "dynamic_lookup"] : ["-Wl,-s"];
    const files = [`-I${nodeHeaders()}`, "-o", join(outDir, "onnx.addon"), ...sources];
    await run([cc, ...FLAGS, ...mapFlags, ...files, ...linking, "-lm", "-ldl", "-lpthread"], { env });
    for (const object of layers) rmSync(object);
  });
}

/** Compiles the layers once for each kind of processor. @returns the paths of the objects */
async function compileLayers({ arch, cxx, env, mapFlags }: Toolchain, outDir: string): Promise<string[]> {
  const compiled: string[] = [];
  for (const { name, vector, flags } of arch === "x64" ? X64_LAYERS : [PLAIN_LAYERS]) {
    const object = join(outDir, `${name}.o`);
    const defined = [`-DLAYERS=${name}`, `-DVECTOR=${vector}`];
    const source = join(SOURCES, "layers.cpp");
    await run([cxx, ...LAYER_FLAGS, ...flags, ...mapFlags, ...defined, "-c", source, "-o", object], { env });
    compiled.push(object);
  }
  return compiled;
}
