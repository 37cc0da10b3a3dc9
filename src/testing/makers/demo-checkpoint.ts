import { readFileSync } from "node:fs";
import { join } from "node:path";
import { whisperTensors } from "../../model-import/tensor-list.ts";
import type { WhisperShape } from "../../model-import/whisper-config.ts";
import type { MadeTensor } from "./checkpoint-makers.ts";

const F32 = 0;
const F16 = 1;
const Q5_1 = 7;
const BLOCK_VALUES = 32;
const BLOCK_BYTES = 24;

/** The demonstration model as tensors of transformers, and the bytes of its words. */
export function demoTensors(): { shape: WhisperShape; tensors: MadeTensor[]; words: Uint8Array[] } {
  const file = readFileSync(join(import.meta.dir, "../../../models/demo.bin"));
  let at = 0;
  const int = () => {
    at += 4;
    return file.readInt32LE(at - 4);
  };
  const [
    ,
    vocab = 0,
    ,
    state = 0,
    audioHeads = 0,
    audioLayers = 0,
    ,
    ,
    textHeads = 0,
    textLayers = 0,
    mels = 0,
  ] = Array.from({ length: 12 }, int);
  const shape = { vocab, state, audioHeads, audioLayers, textHeads, textLayers, mels };
  at += 8 + 4 * mels * 201;
  const words = Array.from({ length: int() }, () => {
    const length = int();
    at += length;
    return new Uint8Array(file.subarray(at - length, at));
  });
  const found = new Map<string, Float32Array<ArrayBuffer>>();
  while (at < file.length) {
    const [dimensions, nameBytes, type] = [int(), int(), int()];
    const elements = Array.from({ length: dimensions }, int).reduce((product, size) => product * size, 1);
    const name = file.toString("utf8", at, at + nameBytes);
    at += nameBytes;
    const bytes =
      type === F32 ? 4 * elements : type === F16 ? 2 * elements : (elements / BLOCK_VALUES) * BLOCK_BYTES;
    found.set(name, valuesOf(new Uint8Array(file.subarray(at, at + bytes)), type, elements));
    at += bytes;
  }
  const tensors = whisperTensors(shape).map(({ sourceName, ggmlName, sourceShape }) => ({
    name: `model.${sourceName}`,
    shape: sourceShape,
    values: found.get(ggmlName) ?? new Float32Array(),
  }));
  return { shape, tensors, words };
}

function valuesOf(bytes: Uint8Array<ArrayBuffer>, type: number, elements: number): Float32Array<ArrayBuffer> {
  if (type === F32) return new Float32Array(bytes.buffer);
  if (type === F16) return Float32Array.from(new Float16Array(bytes.buffer));
  if (type !== Q5_1) throw new Error(`weights of type ${type}`);
  const values = new Float32Array(elements);
  const view = new DataView(bytes.buffer);
  for (let from = 0, at = 0; from < elements; from += BLOCK_VALUES, at += BLOCK_BYTES) {
    const [scale, low, high] = [
      view.getFloat16(at, true),
      view.getFloat16(at + 2, true),
      view.getUint32(at + 4, true),
    ];
    for (let j = 0; j < 16; j++) {
      const packed = bytes[at + 8 + j] ?? 0;
      values[from + j] = ((packed & 15) | (((high >>> j) & 1) << 4)) * scale + low;
      values[from + j + 16] = ((packed >> 4) | (((high >>> (j + 16)) & 1) << 4)) * scale + low;
    }
  }
  return values;
}
