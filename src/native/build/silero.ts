import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "protobufjs";
import { type BuildInput, cachedBuild } from "./cache.ts";
import { run } from "./run.ts";
import { partName, type Toolchain } from "./toolchain.ts";

const SOURCES = join(import.meta.dirname, "../silero");
const HEADERS = join(import.meta.dirname, "../headers");
const PROCESSOR = join(import.meta.dirname, "../onnx/processor.h");
/** Version 6. It has the same shape as v5, and missed a seventh to a third less speech on labelled meetings. */
export const SILERO_ONNX = join(
  import.meta.dirname,
  "../../../node_modules/@ricky0123/vad-web/dist/silero_vad_v6.onnx",
);
const FLAGS = [
  ...["-O3", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden"],
  // Square roots without `errno` and traps, which no code uses.
  ...["-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"],
];
/** A build of the net for a kind of processors; `vector`: floats in a vector register. */
type Variant = { name: string; vector: number; flags: string[] };

/** Returns the builds of the net for processors of a kind (`process.arch`), the slowest first. */
export function sileroVariants(arch: string): Variant[] {
  const plain = { name: "run_plain", vector: 4, flags: [] };
  if (arch !== "x64") return [plain];
  return [
    plain,
    { name: "run_avx2", vector: 8, flags: ["-mavx2", "-mfma"] },
    { name: "run_avx512", vector: 16, flags: ["-mavx512f", "-mfma", "-mprefer-vector-width=512"] },
  ];
}

/**
 * Builds the speech detector: its net for blocks of windows (silero/net.cpp), and its weights in the order in which the
 * net reads them.
 *
 * @returns the folder with `silero.<so|dylib>` and `silero.weights`
 */
export async function buildSilero(toolchain: Toolchain): Promise<string> {
  const suffix = toolchain.platform === "darwin" ? "dylib" : "so";
  const inputs: BuildInput[] = [
    { literal: toolchain.identity },
    { path: import.meta.path },
    { path: SOURCES },
    { path: HEADERS },
    { path: PROCESSOR },
    { path: SILERO_ONNX },
  ];
  return cachedBuild(partName(toolchain, "silero"), inputs, async (outDir) => {
    const weights = sileroWeights(new Uint8Array(readFileSync(SILERO_ONNX)));
    writeFileSync(join(outDir, "silero.weights"), new Uint8Array(weights.buffer));
    await compileLibrary(toolchain, join(outDir, `silero.${suffix}`));
  });
}

async function compileLibrary(toolchain: Toolchain, library: string): Promise<void> {
  const { cc, cxx, env, mapFlags } = toolchain;
  const compiler = [cc, "-std=gnu11", ...FLAGS, ...mapFlags];
  // Nothing of the language's library: the C compiler links it all.
  const netCompiler = [cxx, "-std=gnu++17", "-fno-exceptions", "-fno-rtti", ...FLAGS, ...mapFlags];
  const objects = mkdtempSync(join(tmpdir(), "shruti-silero-"));
  try {
    const compiled: string[] = [];
    for (const { name, vector, flags } of sileroVariants(toolchain.arch)) {
      const object = join(objects, `${name}.o`);
      const defined = [`-DRUN_NET=${name}`, `-DVECTOR=${vector}`];
      await run([...netCompiler, ...flags, ...defined, "-c", join(SOURCES, "net.cpp"), "-o", object], {
        env,
      });
      compiled.push(object);
    }
    const linking = toolchain.target === undefined ? [] : ["-Wl,-s"];
    const files = [join(SOURCES, "silero.c"), ...compiled];
    await run([...compiler, "-shared", ...linking, "-o", library, ...files], { env });
    await toolchain.strip(library);
  } finally {
    rmSync(objects, { recursive: true });
  }
}

/** The parts of ONNX's format that contain a net's constants (onnx.proto, with its field numbers). */
const ONNX = `
  syntax = "proto3";
  message Model { Graph graph = 7; }
  message Graph { repeated Node node = 1; }
  message Node { repeated string output = 2; string op_type = 4; repeated Attribute attribute = 5; }
  message Attribute { string name = 1; Tensor t = 5; Graph g = 6; }
  message Tensor { repeated int64 dims = 1; bytes raw_data = 9; }
`;

type Tensor = { rawData: Uint8Array };
type Node = { output: string[]; opType: string; attribute: { name: string; t?: Tensor; g?: Graph }[] };
type Graph = { node: Node[] };

const FRAME = 256;
const BINS = FRAME / 2 + 1;
const CELLS = 128;
const GATES = 4 * CELLS;
/** Gates whose recurrent weights are together; as in silero/silero.h. */
const STRETCH = 64;
/** Channels of the convolutions, from the spectrum to the recurrent layer. */
const CHANNELS = [BINS, 128, 64, 64, CELLS] as const;
const TAPS = 3;
/** By which the file's numbers may differ from those of the transform. */
const MOST_ROUNDING = 1e-6;
/** How the taps of the first convolution become its six matrices; the rest of Winograd's F(4, 3) is in net.cpp. */
const PRODUCTS = [
  [1 / 4, 0, 0],
  [-1 / 6, -1 / 6, -1 / 6],
  [-1 / 6, 1 / 6, -1 / 6],
  [1 / 24, 1 / 12, 1 / 6],
  [1 / 24, -1 / 12, 1 / 6],
  [0, 0, 1],
] as const;

/**
 * Extracts the weights of a Silero net for 16 kHz.
 *
 * @param onnx a Silero detector, v5 or v6
 * @returns the weights in the order in which net.cpp reads them
 * @throws Error when one is missing, or the transform is not a Fourier transform
 */
export function sileroWeights(onnx: Uint8Array): Float32Array {
  const constant = constantsOf(onnx);
  const basis = constant("stft.forward_basis_buffer", 2 * BINS * FRAME);
  refuseOtherTransform(basis);
  const angles = Array.from({ length: FRAME }, (_, n) => (2 * Math.PI * n) / FRAME);
  // The cosines of the lowest frequency are all 1.
  const shape = basis.subarray(0, FRAME);
  const parts: ArrayLike<number>[] = [angles.map(Math.cos), angles.map(Math.sin), shape];
  for (let n = 0; n < CHANNELS.length - 1; n++) {
    const [inputs = 0, outputs = 0] = CHANNELS.slice(n);
    const kernel = constant(`encoder.${n}.reparam_conv.weight`, outputs * inputs * TAPS);
    const matrices = n === 0 ? PRODUCTS : [[1, 0, 0] as const, [0, 1, 0] as const, [0, 0, 1] as const];
    for (const ofTaps of matrices) {
      const sum = (row: number, column: number) => {
        const at = (row * inputs + column) * TAPS;
        return ofTaps.reduce((total, factor, tap) => total + factor * (kernel[at + tap] ?? 0), 0);
      };
      parts.push(rowsOfFour(outputs, inputs, sum));
    }
    parts.push(constant(`encoder.${n}.reparam_conv.bias`, outputs));
  }
  const input = constant("decoder.rnn.weight_ih", GATES * CELLS);
  const recurrent = constant("decoder.rnn.weight_hh", GATES * CELLS);
  const biases = constant("decoder.rnn.bias_ih", GATES);
  const moreBiases = constant("decoder.rnn.bias_hh", GATES);
  parts.push(
    rowsOfFour(GATES, CELLS, (row, column) => input[row * CELLS + column] ?? 0),
    biases.map((bias, n) => bias + (moreBiases[n] ?? 0)),
    inStretches(recurrent),
    constant("decoder.decoder.2.weight", CELLS),
    constant("decoder.decoder.2.bias", 1),
  );
  return Float32Array.from(parts.flatMap((part) => Array.from(part)));
}

/** Returns a function that finds constants in the branch for 16 kHz by the end of their names. */
function constantsOf(onnx: Uint8Array): (name: string, count: number) => Float32Array {
  const Model = parse(ONNX).root.lookupType("Model");
  const model = Model.toObject(Model.decode(onnx), { arrays: true }) as { graph?: Graph };
  const choice = model.graph?.node.find(({ opType }) => opType === "If");
  const branch = choice?.attribute.find(({ name }) => name === "then_branch")?.g;
  return (name, count) => {
    const node = branch?.node.find(
      ({ opType, output }) => opType === "Constant" && output[0]?.endsWith(`__${name}`),
    );
    const bytes = node?.attribute[0]?.t?.rawData;
    if (bytes?.length !== count * Float32Array.BYTES_PER_ELEMENT) {
      throw new Error(`the Silero file has no ${name} of ${count} numbers`);
    }
    return new Float32Array(bytes.slice().buffer);
  };
}

/** Returns a matrix in groups of four rows, with the four numbers of each column together. */
function rowsOfFour(
  rows: number,
  columns: number,
  at: (row: number, column: number) => number,
): Float32Array {
  const packed: number[] = [];
  for (let first = 0; first < rows; first += 4) {
    for (let column = 0; column < columns; column++) {
      for (let row = first; row < first + 4; row++) packed.push(at(row, column));
    }
  }
  return Float32Array.from(packed);
}

/** Returns the recurrent weights: for each 64 gates, those of each cell together. */
function inStretches(recurrent: Float32Array): Float32Array {
  return recurrent.map((_, n) => {
    const gate = Math.floor(n / (STRETCH * CELLS)) * STRETCH + (n % STRETCH);
    const cell = Math.floor(n / STRETCH) % CELLS;
    return recurrent[gate * CELLS + cell] ?? 0;
  });
}

/** @throws Error unless the file's transform is Fourier's, of frames that are multiplied by a shape: net.cpp computes that */
function refuseOtherTransform(basis: Float32Array): void {
  for (let bin = 0; bin < BINS; bin++) {
    for (let n = 0; n < FRAME; n++) {
      const shape = basis[n] ?? 0;
      const angle = (2 * Math.PI * bin * n) / FRAME;
      const cosine = (basis[bin * FRAME + n] ?? 0) - shape * Math.cos(angle);
      const sine = (basis[(BINS + bin) * FRAME + n] ?? 0) + shape * Math.sin(angle);
      if (Math.max(Math.abs(cosine), Math.abs(sine)) > MOST_ROUNDING) {
        throw new Error("the Silero file's transform is not a Fourier transform");
      }
    }
  }
}
