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

const BUILD_FLAGS = [
  ...["-std=gnu++17", "-O3", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden"],
  // Nothing of the language's library: the C compiler links it all.
  ...["-fno-exceptions", "-fno-rtti", "-fno-math-errno", "-fno-trapping-math"],
];
/** Builds of a source, of which each has a name of its own in `symbol`; `vector`: floats in a vector register. */
type Build = { source: string; symbol: string; name: string; vector: number; flags: string[] };
const layers = (name: string, vector: number, flags: string[] = []): Build => ({
  ...{ source: "layers.cpp", symbol: "LAYERS", name: `layers_${name}`, vector },
  flags: ["-ffp-contract=fast", ...flags],
});
/** Their floats are those of onnxruntime's operations, so nothing is rounded once where those round twice. */
const products = (name: string, vector: number, flags: string[] = []): Build => ({
  ...{ source: "products.cpp", symbol: "PRODUCTS", name: `products_${name}`, vector },
  flags: ["-ffp-contract=off", ...flags],
});
const AVX2 = ["-mavx2", "-mfma"];
const AVX512 = ["-mavx512f", "-mfma", "-mprefer-vector-width=512"];
const PLAIN_BUILDS = [layers("plain", 4), products("plain", 4)];
const X64_BUILDS = [
  ...PLAIN_BUILDS,
  ...[layers("avx2", 8, AVX2), layers("avx512", 16, AVX512)],
  ...[products("avx2", 8, AVX2), products("avx_vnni", 8, [...AVX2, "-mavxvnni"])],
  products("avx512_vnni", 16, [...AVX512, "-mavx512vnni"]),
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
    const objects = await compileBuilds(toolchain, outDir);
    const sources = [...FILES.map((name) => join(SOURCES, name)), ...objects];
    // The functions of Node's interface are those of the process that loads the addon.
    const linking = platform === "darwin" ? ["-undefined", "dynamic_lookup"] : ["-Wl,-s"];
    const files = [`-I${nodeHeaders()}`, "-o", join(outDir, "onnx.addon"), ...sources];
    await run([cc, ...FLAGS, ...mapFlags, ...files, ...linking, "-lm", "-ldl", "-lpthread"], { env });
    for (const object of objects) rmSync(object);
  });
}

/** Compiles what has code for each kind of processor. @returns the paths of the objects */
async function compileBuilds({ arch, cxx, env, mapFlags }: Toolchain, outDir: string): Promise<string[]> {
  const compiled: string[] = [];
  for (const { source, symbol, name, vector, flags } of arch === "x64" ? X64_BUILDS : PLAIN_BUILDS) {
    const object = join(outDir, `${name}.o`);
    const defined = [`-D${symbol}=${name}`, `-DVECTOR=${vector}`];
    const files = ["-c", join(SOURCES, source), "-o", object];
    await run([cxx, ...BUILD_FLAGS, ...flags, ...mapFlags, ...defined, ...files], { env });
    compiled.push(object);
  }
  return compiled;
}
