import { hasCheckpoint } from "./checkpoint.ts";
import { type Ct2File, readCt2File } from "./ctranslate2-file.ts";
import { createHalfReader } from "./halves.ts";
import { ImportError } from "./import-error.ts";
import type { OpenModel } from "./open-model.ts";
import { type CheckpointFolder, hasFile, openSource, readJsonFile, type SourceFile } from "./source-file.ts";
import { type StoredTensor, widthOf } from "./stored-tensor.ts";
import { OUTPUT_LAYER } from "./tensor-list.ts";
import { readListedVocabulary } from "./vocabulary.ts";
import { checkShape, type WhisperShape } from "./whisper-config.ts";

const WEIGHTS = "model.bin";
const CONFIG = "config.json";
const MAX_CONFIG_BYTES = 1024 * 1024;
const EMBEDDING = "decoder/embeddings/weight";
const PROJECTION = "decoder/projection/weight";

/** Reports whether a folder holds a model of CTranslate2 (faster-whisper), and none of transformers. */
export function isCt2Folder(folder: CheckpointFolder): boolean {
  return hasFile(folder, WEIGHTS) && !hasCheckpoint(folder);
}

/**
 * Opens a folder of CTranslate2 with a Whisper model: weights of 16 or 32 bits, or of 8 or 16 bits with scales.
 * CTranslate2 keeps the same tensors as transformers, and those of query, key and value one below the other in one.
 *
 * @throws ImportError when the folder is damaged or holds something else
 */
export function openCt2Folder(folder: CheckpointFolder): OpenModel {
  const file = openSource(folder, WEIGHTS);
  try {
    // Its values are hints for decoding. A damaged one is a sign of a damaged folder.
    readJsonFile(folder, CONFIG, MAX_CONFIG_BYTES);
    const read = readCt2File(file);
    if (read.spec !== "WhisperSpec") {
      throw new ImportError(WEIGHTS, `it is a model of the kind ${read.spec}, not WhisperSpec`);
    }
    const shape = shapeOf(read, file);
    checkComputation(read, file);
    const tensors = toTransformers(read, shape, file);
    const tokens = readListedVocabulary(folder, shape.vocab);
    return { shape, sizesFrom: "the token embedding", tokens, tensors, files: [file], close: file.close };
  } catch (error) {
    file.close();
    throw error;
  }
}

/** Finds the sizes of the model in its tensors. */
function shapeOf({ tensors, numbers }: Ct2File, file: SourceFile): WhisperShape {
  const sizeOf = (name: string, dimension: number) => {
    const size = tensors.get(name)?.shape[dimension];
    if (size === undefined) throw new ImportError(file.name, `the tensor ${name} is missing`);
    return size;
  };
  const layersOf = (side: string) => {
    const names = [...tensors.keys()].filter((name) => name.startsWith(`${side}/layer_`));
    return new Set(names.map((name) => /^[a-z]+\/layer_(\d+)\//.exec(name)?.[1]).filter(Boolean)).size;
  };
  const shape: WhisperShape = {
    vocab: sizeOf(EMBEDDING, 0),
    state: sizeOf(EMBEDDING, 1),
    audioHeads: numbers.get("encoder/num_heads") ?? 0,
    audioLayers: layersOf("encoder"),
    textHeads: numbers.get("decoder/num_heads") ?? 0,
    textLayers: layersOf("decoder"),
    mels: sizeOf("encoder/conv1/weight", 1),
  };
  checkShape(file.name, shape);
  return shape;
}

/** Single numbers of a model that whisper.cpp computes. Other numbers must be 0: they ask for other computations. */
const NUMBERS: Readonly<Record<string, number | "any">> = {
  "encoder/num_heads": "any",
  "decoder/num_heads": "any",
  "encoder/activation": 3,
  "decoder/activation": 3,
  "encoder/pre_norm": 1,
  "decoder/pre_norm": 1,
  "decoder/alignment_heads": "any",
  "decoder/alignment_layer": "any",
};

function checkComputation({ numbers }: Ct2File, file: SourceFile): void {
  for (const [name, value] of numbers) {
    const expected = Object.hasOwn(NUMBERS, name) ? NUMBERS[name] : 0;
    if (expected !== "any" && value !== expected) {
      throw new ImportError(file.name, `${name} is ${value}; whisper.cpp computes with ${expected}`);
    }
  }
}

/** Names the tensors as transformers does, with query, key and value apart. */
function toTransformers(read: Ct2File, shape: WhisperShape, file: SourceFile): Map<string, StoredTensor> {
  const left = withScales(read, file);
  const tensors = new Map<string, StoredTensor>();
  const take = (name: string): StoredTensor => {
    const tensor = left.get(name);
    if (!tensor) throw new ImportError(file.name, `the tensor ${name} is missing`);
    left.delete(name);
    return tensor;
  };
  const moves = { take, put: (name: string, tensor: StoredTensor) => void tensors.set(name, tensor) };
  const pair = (from: string, to: string, names: readonly [string, string] = ["weight", "bias"]) => {
    for (const [index, name] of ["weight", "bias"].entries())
      moves.put(`${to}.${name}`, take(`${from}/${names[index]}`));
  };
  const norm = (from: string, to: string) => pair(`${from}/layer_norm`, to, ["gamma", "beta"]);
  pair("encoder/conv1", "encoder.conv1");
  pair("encoder/conv2", "encoder.conv2");
  for (const [side, layers] of [
    ["encoder", shape.audioLayers],
    ["decoder", shape.textLayers],
  ] as const) {
    moves.put(`${side}.embed_positions.weight`, take(`${side}/position_encodings/encodings`));
    norm(side, `${side}.layer_norm`);
    for (let n = 0; n < layers; n++) {
      const [from, to] = [`${side}/layer_${n}`, `${side}.layers.${n}`];
      const self = `${from}/self_attention`;
      norm(self, `${to}.self_attn_layer_norm`);
      fused(moves, `${self}/linear_0`, `${to}.self_attn`, ["q_proj", "k_proj", "v_proj"]);
      pair(`${self}/linear_1`, `${to}.self_attn.out_proj`);
      if (side === "decoder") {
        norm(`${from}/attention`, `${to}.encoder_attn_layer_norm`);
        pair(`${from}/attention/linear_0`, `${to}.encoder_attn.q_proj`);
        fused(moves, `${from}/attention/linear_1`, `${to}.encoder_attn`, ["k_proj", "v_proj"]);
        pair(`${from}/attention/linear_2`, `${to}.encoder_attn.out_proj`);
      }
      norm(`${from}/ffn`, `${to}.final_layer_norm`);
      pair(`${from}/ffn/linear_0`, `${to}.fc1`);
      pair(`${from}/ffn/linear_1`, `${to}.fc2`);
    }
  }
  moves.put("decoder.embed_tokens.weight", take(EMBEDDING));
  if (left.has(PROJECTION)) moves.put(OUTPUT_LAYER, take(PROJECTION));
  // What is left belongs to no Whisper model. The conversion refuses it by its name.
  for (const [name, tensor] of left) tensors.set(name, tensor);
  return tensors;
}

/** How a conversion takes tensors out of a folder, and puts those that it makes. */
type TensorMoves = {
  take: (name: string) => StoredTensor;
  put: (name: string, tensor: StoredTensor) => void;
};

/** Takes a tensor apart into equal parts of its rows. Whisper's keys have no bias, so theirs must be zeros. */
function fused({ take, put }: TensorMoves, from: string, to: string, names: readonly string[]): void {
  const weight = take(`${from}/weight`);
  const bias = take(`${from}/bias`);
  for (const [index, name] of names.entries()) {
    put(`${to}.${name}.weight`, partOf(weight, index, names.length));
    const part = partOf(bias, index, names.length);
    if (name === "k_proj") requireZeros(part);
    else put(`${to}.${name}.bias`, part);
  }
}

function partOf(tensor: StoredTensor, index: number, count: number): StoredTensor {
  const { file, label, shape, elements, position, type, scales } = tensor;
  const [rows = 0, ...rest] = shape;
  if (rows % count !== 0 || rows === 0) {
    throw new ImportError(
      file.name,
      `the tensor ${label} has ${rows} rows, which are not ${count} equal parts`,
    );
  }
  const size = elements / count;
  const [from, to] = [(index * rows) / count, ((index + 1) * rows) / count];
  return {
    ...tensor,
    shape: [rows / count, ...rest],
    elements: size,
    position: position + index * size * widthOf(type),
    ...(scales && scales.values.length > 1
      ? { scales: { ...scales, values: scales.values.subarray(from, to) } }
      : {}),
  };
}

function requireZeros(tensor: StoredTensor): void {
  for (const values of createHalfReader().slices(tensor, tensor.label ?? "")) {
    if (values.some((value) => value !== 0)) {
      throw new ImportError(
        tensor.file.name,
        `the tensor ${tensor.label} has a bias of keys, which Whisper has not`,
      );
    }
  }
}

/** Joins tensors of whole numbers and their scales. @returns a new map without the scales */
function withScales({ tensors, aliases }: Ct2File, file: SourceFile): Map<string, StoredTensor> {
  const joined = new Map<string, StoredTensor>();
  for (const [name, tensor] of tensors) {
    if (name.endsWith("_scale")) continue;
    const target = aliases.get(name) ?? name;
    const scale = tensors.get(`${target}_scale`);
    const isScaled = tensor.type === "I8" || tensor.type === "I16";
    if (isScaled !== (scale !== undefined)) {
      throw new ImportError(
        file.name,
        `the tensor ${name} has ${scale ? "scales, but needs none" : "no scales"}`,
      );
    }
    joined.set(name, scale ? { ...tensor, scales: scalesOf(tensor, scale) } : tensor);
  }
  for (const name of tensors.keys()) {
    if (name.endsWith("_scale") && !tensors.has(name.slice(0, -"_scale".length)))
      throw new ImportError(file.name, `the scales ${name} belong to no tensor`);
  }
  return joined;
}

function scalesOf(tensor: StoredTensor, scale: StoredTensor): NonNullable<StoredTensor["scales"]> {
  const refuse = (reason: string) => new ImportError(scale.file.name, `the scales ${scale.label} ${reason}`);
  const rows = tensor.shape[0] ?? 0;
  if (scale.type !== "F32") throw refuse("are not 32-bit numbers");
  if (scale.elements !== rows && scale.elements !== 1) {
    throw refuse(`are ${scale.elements}, and the tensor has ${rows} rows`);
  }
  const bytes = new Uint8Array(scale.elements * 4);
  scale.file.fill(bytes, scale.position);
  const values = new Float32Array(bytes.buffer);
  if (values.some((value) => !Number.isFinite(value) || value <= 0)) throw refuse("are not all above zero");
  return { values, valuesPerRow: Math.max(1, tensor.elements / Math.max(1, rows)) };
}
