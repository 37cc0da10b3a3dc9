import { closeSync, openSync, writeSync } from "node:fs";
import { ggufAligned } from "../../../src/lib/gguf-file.ts";
import { type TdtShape, type TdtTensor, tdtTensors } from "../../../src/lib/tdt-file.ts";
import { encode } from "../../../src/model-import/convert.ts";
import { ggufHead } from "../../../src/model-import/gguf-head.ts";
import { SLICE_VALUES } from "../../../src/model-import/halves.ts";
import { headValues, storedType } from "../../../src/model-import/nemo/convert.ts";
import type { WeightType } from "../../../src/model-import/quantise.ts";
import { seededRandom } from "../../../src/testing/makers/audio-makers.ts";

const TOKENS = 8_192;

/** Shapes of FastConformers by their number of weights: layers and their width. 600m is Parakeet's and IndicConformer-600M's. */
export const NEMO_SHAPES = {
  "120m": { layers: 17, width: 512 },
  "430m": { layers: 17, width: 1024 },
  "600m": { layers: 24, width: 1024 },
} as const;

export type NemoShape = keyof typeof NEMO_SHAPES;

/** Returns a TDT model with as many layers of a width, and otherwise Parakeet's sizes. */
export function tdtShape({ layers, width }: { layers: number; width: number }): TdtShape {
  return {
    ...{ mels: 128, subsampling: "dw_striding", factor: 8, channels: 256, width, inner: 4 * width, heads: 8 },
    ...{ layers, kernel: 9, hasBiases: false, scalesInput: false, reflectsEnds: false, tokens: TOKENS },
    ...{ predictionWidth: 640, predictionLayers: 2, jointWidth: 640, mostSymbols: 10 },
    durations: [0, 1, 2, 3, 4],
  };
}

/** Frames of the encoder in a second. */
const FRAMES = 12.5;

/** Returns the floating-point operations of the encoder's products for a second of sound. */
export function encoderOperations(shape: TdtShape): number {
  const weights = tdtTensors(shape)
    .filter(({ name }) => name.startsWith("layers."))
    .reduce((sum, { shape: sizes }) => sum + sizes.reduce((product, size) => product * size, 1), 0);
  return 2 * FRAMES * weights;
}

const random = seededRandom(1);
/**
 * Random values of deviation 1, from which all weights are taken: to make each again would take longer than to run. They are the
 * same each time, so models of several types of weights differ by their rounding alone.
 */
const BLOCK = Float32Array.from({ length: SLICE_VALUES }, () => (random() + random() - 1) * 2.4);

/**
 * How large weights are. The token before decides, and clearly, so that Shruti trusts the text and finds no loops, and each token
 * takes three frames, so that no speech is without text: otherwise Shruti recognizes speech again, and other programs do not.
 * With smaller weights of the second layer of the prediction net the same token follows itself.
 */
const SHARPNESS: ReadonlyMap<string, number> = new Map([
  ["joint.encoder.weight", 3],
  ["joint.out.weight", 10],
  ["joint.prediction.weight", 12],
  ["prediction.embedding", 25],
  ["prediction.1.input", 25],
  ["att.out.weight", 0.3],
]);

/** Returns the values of a tensor. */
function valuesOf({ name, shape: sizes }: TdtTensor): Float32Array<ArrayBuffer> {
  const count = sizes.reduce((product, size) => product * size, 1);
  const all = new Float32Array(count);
  if (name === "features.window") return all.map((_, n) => 0.5 - 0.5 * Math.cos((2 * Math.PI * n) / 399));
  if (name === "features.filters")
    return all.map((_, n) => (Math.abs((n % 257) - 2 * Math.floor(n / 257)) < 3 ? 1 : 0));
  if (/norm_.*\.weight$/.test(name)) return all.fill(1);
  if (name === "joint.out.bias") {
    // More than any other duration has.
    all[TOKENS + 1 + 3] = 100;
    return all;
  }
  if (name.endsWith("bias")) return all;
  const scale =
    (SHARPNESS.get(name.replace(/^layers\.\d+\./, "")) ?? 1) / Math.sqrt(count / (sizes.at(-1) ?? 1));
  let from = (name.length * 7_919 + name.charCodeAt(7) * 104_729) % SLICE_VALUES;
  for (let n = 0; n < count; n++) {
    all[n] = (BLOCK[from] ?? 0) * scale;
    if (++from === SLICE_VALUES) from = 0;
  }
  return all;
}

function bytesOf(data: Float32Array<ArrayBuffer>, stored: WeightType | "f32"): Buffer {
  if (stored === "f32") return Buffer.from(data.buffer);
  const parts: Buffer[] = [];
  for (let at = 0; at < data.length; at += SLICE_VALUES)
    parts.push(Buffer.from(encode(new Float16Array(data.subarray(at, at + SLICE_VALUES)), stored)));
  return Buffer.concat(parts);
}

/** Writes a TDT model with random weights in the engine's form. */
export function writeTdtModel(path: string, shape: TdtShape, type: WeightType): void {
  const planned = tdtTensors(shape).map((tensor) => ({ ...tensor, type: storedType(tensor, type) }));
  const tokens = Array.from({ length: TOKENS }, (_, n) => `▁t${n}`);
  const file = openSync(path, "w");
  writeSync(file, ggufHead(headValues(shape, { tokens, languages: [] }, type), planned));
  for (const tensor of planned) {
    const bytes = bytesOf(valuesOf(tensor), tensor.type);
    writeSync(file, bytes);
    writeSync(file, new Uint8Array(ggufAligned(bytes.length) - bytes.length));
  }
  closeSync(file);
}

/** Names of parts, of the engine's file and of parakeet.cpp's. */
const NAMES: readonly [RegExp, string][] = [
  [/^layers\./, "encoder.layers."],
  [/norm_ff(\d)/, "norm_feed_forward$1"],
  [/\bff(\d)\.up/, "feed_forward$1.linear1"],
  [/\bff(\d)\.down/, "feed_forward$1.linear2"],
  [/norm_att/, "norm_self_att"],
  [/att\.bias_/, "self_attn.pos_bias_"],
  [/att\.position$/, "self_attn.linear_pos.weight"],
  [/att\.(query|key|value)/, "self_attn.linear_$1"],
  [/linear_(q|k|v)(?:uery|ey|alue)/, "linear_$1"],
  [/att\.out/, "self_attn.linear_out"],
  [/conv\.in/, "conv.pointwise_conv1"],
  [/conv\.depth/, "conv.depthwise_conv"],
  [/conv\.out/, "conv.pointwise_conv2"],
  [/^prediction\.embedding$/, "decoder.prediction.embed.weight"],
  [/^prediction\.(\d)\.input$/, "decoder.prediction.dec_rnn.lstm.weight_ih_l$1"],
  [/^prediction\.(\d)\.hidden$/, "decoder.prediction.dec_rnn.lstm.weight_hh_l$1"],
  [/^prediction\.(\d)\.bias$/, "decoder.prediction.dec_rnn.lstm.bias_h_l$1"],
  [/^joint\.prediction/, "joint.pred"],
  [/^joint\.encoder/, "joint.enc"],
  [/^joint\.out/, "joint.joint_net.2"],
  [/^subsampling\.out/, "encoder.pre_encode.out"],
];
const STEPS = [0, 2, 3, 5, 6];

function peerName(name: string): string {
  const step = /^subsampling\.(\d)\.(.*)$/.exec(name);
  if (step) return `encoder.pre_encode.conv.${STEPS[Number(step[1])]}.${step[2]}`;
  return NAMES.reduce((text, [pattern, to]) => text.replace(pattern, to), name);
}

/** Writes the same weights in parakeet.cpp's form, which its `convert-parakeet-to-ggml.py` defines. */
export function writePeerModel(path: string, shape: TdtShape, type: WeightType): void {
  const { width } = shape;
  const file = openSync(path, "w");
  const ints = (...numbers: number[]) =>
    void writeSync(file, new Uint8Array(Int32Array.from(numbers).buffer));
  const codes = { f32: [0, 0], f16: [1, 1], q8_0: [2007, 8], q5_0: [2008, 6], q5_1: [2009, 7] } as const;
  ints(0x67676d6c, TOKENS, 5_000, width, shape.heads, shape.layers, 128, codes[type][0], 512, 8, 256, 9);
  ints(640, 2, 5, 10);
  const [filters, window, ...tensors] = tdtTensors(shape);
  if (!filters || !window) throw new Error("there are no features");
  ints(128, 257);
  writeSync(file, bytesOf(valuesOf(filters), "f32"));
  ints(400);
  writeSync(file, bytesOf(valuesOf(window), "f32"));
  ints(...shape.durations, TOKENS);
  for (let n = 0; n < TOKENS; n++) {
    const token = Buffer.from(`▁t${n}`);
    ints(token.length);
    writeSync(file, token);
  }
  const write = (name: string, sizes: readonly number[], bytes: Uint8Array, code: number) => {
    ints(sizes.length, Buffer.byteLength(name), code, ...sizes);
    writeSync(file, Buffer.concat([Buffer.from(name), bytes]));
  };
  for (const tensor of tensors) {
    if (tensor.name.endsWith("depth.bias")) continue;
    const stored = tensor.stored === "weights" ? type : "f32";
    const isStepBias = /^subsampling\.\d\.bias$/.test(tensor.name);
    const sizes = isStepBias ? [1, 1, ...tensor.shape, 1] : tensor.shape;
    write(peerName(tensor.name), sizes, bytesOf(peerValues(tensor), stored), codes[stored][1]);
  }
  for (let layer = 0; layer < shape.layers; layer++) {
    const of = `encoder.layers.${layer}.conv.batch_norm.`;
    const ones = bytesOf(new Float32Array(width).fill(1), "f32");
    const zeros = new Uint8Array(4 * width);
    for (const [part, bytes] of Object.entries({
      weight: ones,
      bias: zeros,
      running_mean: zeros,
      running_var: ones,
    }))
      write(of + part, [width], bytes, 0);
    write(`${of}num_batches_tracked`, [1], new Uint8Array(4), 26);
  }
  closeSync(file);
}

/** parakeet.cpp has the gates of the LSTM in another order: the cell is the last one. */
function peerValues(tensor: TdtTensor): Float32Array<ArrayBuffer> {
  const data = valuesOf(tensor);
  if (!/^prediction\.\d/.test(tensor.name)) return data;
  const quarter = data.length / 4;
  const gate = (n: number) => [...data.subarray(n * quarter, (n + 1) * quarter)];
  return Float32Array.from([...gate(0), ...gate(1), ...gate(3), ...gate(2)]);
}
