import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { WhisperShape } from "../../model-import/whisper-config.ts";
import {
  type MadeTensor,
  type MadeType,
  makeAddedTokens,
  makeWords,
  valueBytes,
} from "./checkpoint-makers.ts";

/** Makes folders as CTranslate2's converter writes them, of the tensors of `makeTensors`. */

/** The types of its option `--quantization` that are made here. */
export type MadeQuantization = "float32" | "float16" | "bfloat16" | "int8" | "int8_float16" | "int16";

/** A variable of `model.bin`. Tests may spoil it. */
export type Ct2Variable = { name: string; shape: number[]; type: number; bytes: Buffer };

const TYPES: Record<MadeType, number> = { F32: 0, F16: 4, BF16: 5 };
const [INT8, INT16] = [1, 2];

export type MadeCt2 = {
  shape: WhisperShape;
  tensors: readonly MadeTensor[];
  quantization?: MadeQuantization;
  /** `vocab.json` of the same model. */
  words?: Record<string, number>;
  change?: (variables: Ct2Variable[]) => Ct2Variable[];
};

/** Writes a folder and returns its path. */
export function writeCt2Folder(path: string, made: MadeCt2): string {
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "config.json"), JSON.stringify({ suppress_ids: [], lang_ids: [] }));
  writeFileSync(join(path, "vocabulary.txt"), `${listTokens(made).join("\n")}\n`);
  writeFileSync(join(path, "model.bin"), makeCt2File(made));
  return path;
}

/** Lists all tokens in the order of their numbers. */
export function listTokens({ shape, words }: Pick<MadeCt2, "shape" | "words">): string[] {
  const tokens = Array.from({ length: shape.vocab }, (_, id) => `<|${id}|>`);
  for (const [token, id] of Object.entries({
    ...(words ?? makeWords(shape.vocab)),
    ...makeAddedTokens(shape.vocab),
  }))
    tokens[id] = token;
  return tokens;
}

/** Makes the bytes of `model.bin`. */
export function makeCt2File({
  shape,
  tensors,
  quantization = "float16",
  change = (all) => all,
}: MadeCt2): Buffer {
  const variables = change([
    ...numbersOf(shape),
    ...joinTensors(shape, tensors).flatMap(storedAs(quantization)),
  ]);
  const hasScales = variables.some(({ name }) => name === "decoder/embeddings/weight_scale");
  const aliases = ["weight", ...(hasScales ? ["weight_scale"] : [])];
  return Buffer.concat([
    u32(6),
    text("WhisperSpec"),
    u32(3),
    u32(variables.length),
    ...variables.flatMap(({ name, shape: sizes, type, bytes }) => [
      text(name),
      Buffer.from([sizes.length]),
      ...sizes.map(u32),
      Buffer.from([type]),
      u32(bytes.length),
      bytes,
    ]),
    u32(aliases.length),
    ...aliases.flatMap((part) => [text(`decoder/projection/${part}`), text(`decoder/embeddings/${part}`)]),
  ]);
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function text(value: string): Buffer {
  const bytes = Buffer.from(`${value}\0`);
  return Buffer.concat([Buffer.from([bytes.length & 255, bytes.length >> 8]), bytes]);
}

function numbersOf({ audioHeads, textHeads }: WhisperShape): Ct2Variable[] {
  const number = (name: string, value: number, type = INT8): Ct2Variable => {
    const bytes = Buffer.alloc(type === INT8 ? 1 : 2);
    bytes.writeIntLE(value, 0, bytes.length);
    return { name, shape: [], type, bytes };
  };
  return [
    number("encoder/num_heads", audioHeads, INT16),
    number("decoder/num_heads", textHeads, INT16),
    number("decoder/activation", 3),
    number("decoder/alibi", 0),
    number("decoder/alignment_heads", 1, INT16),
    number("decoder/alignment_layer", -1, INT16),
    number("decoder/pre_norm", 1),
    number("decoder/scale_embeddings", 0),
  ];
}

/** Names the tensors as CTranslate2 does, with query, key and value in one. */
function joinTensors(
  { audioLayers, textLayers, state }: WhisperShape,
  tensors: readonly MadeTensor[],
): MadeTensor[] {
  const byName = new Map(tensors.map((tensor) => [tensor.name.slice("model.".length), tensor]));
  const get = (name: string) => {
    const found = byName.get(name);
    if (found) return found;
    return { name, shape: [state], values: new Float32Array(state) };
  };
  const joined: MadeTensor[] = [];
  const put = (name: string, ...names: string[]) => {
    const parts = names.map(get);
    const values = new Float32Array(parts.flatMap((part) => [...part.values]));
    const [rows = 0, ...rest] = parts[0]?.shape ?? [];
    joined.push({ name, shape: [rows * parts.length, ...rest], values });
  };
  const pair = (to: string, names: string[], [weight, bias] = ["weight", "bias"]) => {
    put(`${to}/${weight}`, ...names.map((name) => `${name}.weight`));
    put(`${to}/${bias}`, ...names.map((name) => `${name}.bias`));
  };
  const norm = (to: string, name: string) => pair(`${to}/layer_norm`, [name], ["gamma", "beta"]);
  pair("encoder/conv1", ["encoder.conv1"]);
  pair("encoder/conv2", ["encoder.conv2"]);
  put("decoder/embeddings/weight", "decoder.embed_tokens.weight");
  for (const [side, layers] of [
    ["encoder", audioLayers],
    ["decoder", textLayers],
  ] as const) {
    put(`${side}/position_encodings/encodings`, `${side}.embed_positions.weight`);
    norm(side, `${side}.layer_norm`);
    for (let n = 0; n < layers; n++) {
      const [to, from] = [`${side}/layer_${n}`, `${side}.layers.${n}`];
      const projections = (kind: string, names: string[]) => names.map((name) => `${from}.${kind}.${name}`);
      norm(`${to}/self_attention`, `${from}.self_attn_layer_norm`);
      pair(`${to}/self_attention/linear_0`, projections("self_attn", ["q_proj", "k_proj", "v_proj"]));
      pair(`${to}/self_attention/linear_1`, projections("self_attn", ["out_proj"]));
      if (side === "decoder") {
        norm(`${to}/attention`, `${from}.encoder_attn_layer_norm`);
        pair(`${to}/attention/linear_0`, projections("encoder_attn", ["q_proj"]));
        pair(`${to}/attention/linear_1`, projections("encoder_attn", ["k_proj", "v_proj"]));
        pair(`${to}/attention/linear_2`, projections("encoder_attn", ["out_proj"]));
      }
      norm(`${to}/ffn`, `${from}.final_layer_norm`);
      pair(`${to}/ffn/linear_0`, [`${from}.fc1`]);
      pair(`${to}/ffn/linear_1`, [`${from}.fc2`]);
    }
  }
  return joined;
}

const PLAIN: Record<MadeQuantization, MadeType> = {
  ...{ float32: "F32", float16: "F16", bfloat16: "BF16" },
  ...{ int8: "F32", int8_float16: "F16", int16: "F32" },
};

/** Stores a tensor in the types of a quantization: matrices of weights as whole numbers with scales, where it asks for them. */
function storedAs(quantization: MadeQuantization): (tensor: MadeTensor) => Ct2Variable[] {
  const plain = PLAIN[quantization];
  return ({ name, shape, values }) => {
    const isWeight = /\/weight$/.test(name) && shape.length > 1;
    if (!isWeight || !quantization.startsWith("int"))
      return [{ name, shape, type: TYPES[plain], bytes: valueBytes(values, plain) }];
    const rows = quantization === "int16" ? 1 : (shape[0] ?? 1);
    const { numbers, scales } = roundRows(values, rows, quantization === "int16" ? 1024 : 127);
    const bytes =
      quantization === "int16"
        ? Buffer.from(Int16Array.from(numbers).buffer)
        : Buffer.from(Int8Array.from(numbers).buffer);
    return [
      { name, shape, type: quantization === "int16" ? INT16 : INT8, bytes },
      {
        ...{ name: `${name}_scale`, shape: quantization === "int16" ? [] : [rows], type: TYPES.F32 },
        bytes: Buffer.from(scales.buffer),
      },
    ];
  };
}

/** There is no negative zero among whole numbers. */
function wholeOf(value: number, scale: number): number {
  return Math.round(Math.fround(value * scale)) + 0;
}

/** Rounds rows to whole numbers of at most `top`, as CTranslate2's converter does. */
function roundRows(values: Float32Array, rows: number, top: number) {
  const size = values.length / rows;
  const scales = new Float32Array(rows);
  const numbers: number[] = [];
  for (let row = 0; row < rows; row++) {
    const part = values.subarray(row * size, (row + 1) * size);
    const most = part.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
    const scale = Math.fround(top / (most === 0 ? top : most));
    scales[row] = scale;
    for (const value of part) numbers.push(wholeOf(value, scale));
  }
  return { numbers, scales };
}

/** Returns the tensors as they are after rounding: what a folder of whole numbers means. */
export function roundedTensors(
  shape: WhisperShape,
  tensors: readonly MadeTensor[],
  quantization: "int8" | "int8_float16" | "int16",
): MadeTensor[] {
  const isWhole = quantization === "int16";
  // In one scale for all, the rows of query, key and value share it.
  const joinedScales = new Map<string, number>();
  if (isWhole)
    for (const { name, values, shape: sizes } of joinTensors(shape, tensors))
      if (sizes.length > 1 && name.endsWith("/weight")) joinedScales.set(name, mostOf(values));
  return tensors.map((tensor) => {
    const name = tensor.name.slice("model.".length);
    if (tensor.shape.length < 2 || /embed_positions/.test(name)) return tensor;
    const rows = isWhole ? 1 : (tensor.shape[0] ?? 1);
    if (!isWhole)
      return { ...tensor, values: meant(tensor.values, rows, roundRows(tensor.values, rows, 127)) };
    const most = joinedScales.get(ct2NameOf(name)) ?? mostOf(tensor.values);
    const scale = Math.fround(1024 / (most === 0 ? 1024 : most));
    const values = tensor.values.map((value) => Math.fround(wholeOf(value, scale) / scale));
    return { ...tensor, values };
  });
}

function mostOf(values: Float32Array): number {
  return values.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
}

function meant(values: Float32Array, rows: number, { numbers, scales }: ReturnType<typeof roundRows>) {
  const size = values.length / rows;
  return Float32Array.from(numbers, (number, at) => number / (scales[Math.floor(at / size)] as number));
}

/** Returns the name of the tensor of CTranslate2 that a weight of transformers is in. */
function ct2NameOf(name: string): string {
  const [, side, layer, part] = /^(encoder|decoder)\.layers\.(\d+)\.(.*)\.weight$/.exec(name) ?? [];
  const parts: Record<string, string> = {
    ...{ "self_attn.q_proj": "self_attention/linear_0", "self_attn.k_proj": "self_attention/linear_0" },
    ...{ "self_attn.v_proj": "self_attention/linear_0", "self_attn.out_proj": "self_attention/linear_1" },
    ...{ "encoder_attn.q_proj": "attention/linear_0", "encoder_attn.k_proj": "attention/linear_1" },
    ...{ "encoder_attn.v_proj": "attention/linear_1", "encoder_attn.out_proj": "attention/linear_2" },
    ...{ fc1: "ffn/linear_0", fc2: "ffn/linear_1" },
  };
  return part === undefined ? "" : `${side}/layer_${layer}/${parts[part]}/weight`;
}
