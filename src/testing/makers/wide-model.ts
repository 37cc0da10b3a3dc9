import { dlopen, ptr } from "bun:ffi";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expectedTensors, FILE_TYPES } from "../../families/whisper/model-file.ts";

/** A tensor with its values as numbers. The shape is that of the file, with the row's length first. */
type Tensor = { shape: number[]; values: Float32Array<ArrayBuffer> };
type Model = { head: Int32Array; betweenHeadAndTensors: Uint8Array; tensors: Map<string, Tensor> };

const HEAD_INTEGERS = 12;
const STATE = [3, 7] as const;
const HEADS = [4, 8] as const;
const VOCAB = 1;
const AUDIO_LAYERS = 5;
const TEXT_LAYERS = 9;
const MELS = 10;
const FILE_TYPE = 11;
const Q5_1 = 7;

/**
 * Writes models that are twice as wide as the demonstration model and recognize the same: every entry of a state occurs
 * twice, and each reader of both takes half of each. This gives a model with real text for those types of
 * weights whose blocks of 256 values do not fit into the demonstration model's width of 128.
 *
 * @param nativeDir folder of libggml-base.so, which rounds the weights
 * @returns writes a file whose weights are of a type of `FILE_TYPES`, such as `q4_k`
 */
export function openWideModel(demoPath: string, nativeDir: string): (path: string, type: string) => void {
  const demo = readModel(demoPath);
  const wide = new Map([...demo.tensors].map(([name, tensor]) => [name, widen(name, tensor)]));
  const { symbols } = dlopen(join(nativeDir, "libggml-base.so"), {
    ggml_quantize_chunk: { args: ["int", "ptr", "ptr", "i64", "i64", "i64", "ptr"], returns: "u64" },
    ggml_quantize_init: { args: ["int"] },
  });
  return (path, type) => {
    const [fileType, weights] = [...FILE_TYPES].find(([, { name }]) => name === type) ?? [];
    if (fileType === undefined || weights === undefined) throw new Error(`no weights are of type ${type}`);
    const head = Int32Array.from(demo.head);
    for (const at of [...STATE, ...HEADS]) head[at] = 2 * (head[at] ?? 0);
    head[FILE_TYPE] = fileType;
    const at = (index: number) => head[index] ?? 0;
    const sizes = {
      vocab: at(VOCAB),
      state: at(STATE[0]),
      audioLayers: at(AUDIO_LAYERS),
      textLayers: at(TEXT_LAYERS),
      mels: at(MELS),
      weights,
    };
    const parts: Uint8Array[] = [new Uint8Array(head.buffer), demo.betweenHeadAndTensors];
    symbols.ggml_quantize_init(weights.type);
    for (const [name, { shape, weights: stored }] of expectedTensors(sizes)) {
      const values = wide.get(name)?.values ?? new Float32Array();
      const nameBytes = new TextEncoder().encode(name);
      parts.push(
        new Uint8Array(Int32Array.of(shape.length, nameBytes.length, stored.type, ...shape).buffer),
        nameBytes,
      );
      if (stored.type === 0) {
        parts.push(new Uint8Array(values.buffer));
        continue;
      }
      const [rowLength = 1] = shape;
      const rowBytes = (rowLength / stored.blockElements) * stored.blockBytes;
      const bytes = rounded(values, rowLength, rowBytes, (row, into) =>
        symbols.ggml_quantize_chunk(stored.type, ptr(row), ptr(into), 0, 1, rowLength, null),
      );
      parts.push(bytes);
    }
    writeFileSync(path, Buffer.concat(parts));
  };
}

/** Rounds a matrix row by row. Most rows of the tokens' embedding belong to no word and are equal. */
function rounded(
  values: Float32Array<ArrayBuffer>,
  rowLength: number,
  rowBytes: number,
  round: (row: Float32Array, into: Uint8Array) => void,
): Uint8Array {
  const rows = values.length / rowLength;
  const bytes = new Uint8Array(rows * rowBytes);
  const floats = Buffer.from(values.buffer);
  const rowOf = (row: number) => floats.subarray(4 * row * rowLength, 4 * (row + 1) * rowLength);
  for (let row = 0; row < rows; row++) {
    const into = bytes.subarray(row * rowBytes, (row + 1) * rowBytes);
    if (row > 0 && rowOf(row).equals(rowOf(row - 1)))
      into.set(bytes.subarray((row - 1) * rowBytes, row * rowBytes));
    else round(values.subarray(row * rowLength, (row + 1) * rowLength), into);
  }
  return bytes;
}

/** Reads a model whose weights are q5_1, f16 and f32 (whisper.cpp's `whisper_model_load`). */
function readModel(path: string): Model {
  const bytes = readFileSync(path);
  let position = 4 * HEAD_INTEGERS;
  const int32 = () => {
    position += 4;
    return bytes.readInt32LE(position - 4);
  };
  const head = Int32Array.from({ length: HEAD_INTEGERS }, (_, i) => bytes.readInt32LE(4 * i));
  const skip = (count: number) => {
    position += count;
  };
  const start = position;
  skip(int32() * int32() * 4);
  for (let tokens = int32(); tokens > 0; tokens--) skip(int32());
  const betweenHeadAndTensors = new Uint8Array(bytes.subarray(start, position));
  const tensors = new Map<string, Tensor>();
  while (position < bytes.length) {
    const dimensions = int32();
    const nameLength = int32();
    const type = int32();
    const shape = Array.from({ length: dimensions }, int32);
    const name = bytes.toString("latin1", position, position + nameLength);
    position += nameLength;
    const count = shape.reduce((product, size) => product * size, 1);
    const bits = { 0: 32, 1: 16, [Q5_1]: 6 }[type];
    if (bits === undefined) throw new Error(`${path}: ${name} has type ${type}`);
    const raw = bytes.buffer.slice(
      bytes.byteOffset + position,
      bytes.byteOffset + position + (count * bits) / 8,
    );
    position += (count * bits) / 8;
    tensors.set(name, { shape, values: toNumbers(type, raw) });
  }
  return { head, betweenHeadAndTensors, tensors };
}

function toNumbers(type: number, raw: ArrayBuffer): Float32Array<ArrayBuffer> {
  if (type === Q5_1) return fromQ5(new DataView(raw));
  return type === 0 ? new Float32Array(raw) : Float32Array.from(new Float16Array(raw));
}

/** Reads blocks of 32 values: scale and least value as f16, the fifth bits, the lower bits of two values in each byte. */
function fromQ5(view: DataView): Float32Array<ArrayBuffer> {
  const blocks = view.byteLength / 24;
  const values = new Float32Array(32 * blocks);
  for (let block = 0; block < blocks; block++) {
    const start = 24 * block;
    const scale = view.getFloat16(start, true);
    const least = view.getFloat16(start + 2, true);
    const fifths = view.getUint32(start + 4, true);
    for (let i = 0; i < 16; i++) {
      const byte = view.getUint8(start + 8 + i);
      const low = (byte & 15) | (((fifths >>> i) & 1) << 4);
      const high = (byte >>> 4) | (((fifths >>> (i + 16)) & 1) << 4);
      values[32 * block + i] = low * scale + least;
      values[32 * block + 16 + i] = high * scale + least;
    }
  }
  return values;
}

/** Doubles the dimensions of a tensor that run along states or values of that width, and scales its values. */
function widen(name: string, { shape, values }: Tensor): Tensor {
  if (name.endsWith("_embedding") || name === "decoder.token_embedding.weight")
    return doubled(shape, values, [0], 1);
  // The tokens' embedding also gives the probabilities, so it reads both halves.
  if (name.startsWith("decoder.ln.")) return doubled(shape, values, [0], 0.5);
  if (name === "encoder.conv1.weight") return doubled(shape, values, [2], 1);
  if (name === "encoder.conv2.weight") return doubled(shape, values, [1, 2], 0.5);
  if (/conv\d\.bias$/.test(name)) return doubled(shape, values, [1], 1);
  if (shape.length === 1) return doubled(shape, values, [0], 1);
  return doubled(shape, values, [0, 1], 0.5);
}

function doubled(shape: number[], values: Float32Array, along: number[], factor: number): Tensor {
  const wide = shape.map((size, dimension) => (along.includes(dimension) ? 2 * size : size));
  const [width = 1, height = 1, depth = 1] = wide;
  const [narrowWidth = 1, narrowHeight = 1] = shape;
  const result = new Float32Array(width * height * depth);
  const [, , narrowDepth = 1] = shape;
  for (let z = 0, i = 0; z < depth; z++) {
    for (let y = 0; y < height; y++) {
      const row = ((z % narrowDepth) * narrowHeight + (y % narrowHeight)) * narrowWidth;
      for (let x = 0; x < width; x++) result[i++] = (values[row + (x % narrowWidth)] ?? 0) * factor;
    }
  }
  return { shape: wide, values: result };
}
