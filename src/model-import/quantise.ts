/** Types that imported weights can have. */
export const WEIGHT_TYPES = ["f16", "q8_0", "q5_0", "q5_1"] as const;
export type WeightType = (typeof WEIGHT_TYPES)[number];
export type QuantisedType = Exclude<WeightType, "f16">;

/** Numbers in the head of a file and of a tensor (ggml.h), and bytes of a block of 32 values. */
export const WEIGHT_CODES: Readonly<
  Record<WeightType, { file: number; tensor: number; blockBytes: number }>
> = {
  f16: { file: 1, tensor: 1, blockBytes: 64 },
  q8_0: { file: 2007, tensor: 8, blockBytes: 34 },
  q5_0: { file: 2008, tensor: 6, blockBytes: 22 },
  q5_1: { file: 2009, tensor: 7, blockBytes: 24 },
};
export const BLOCK_VALUES = 32;

const QUANTISERS: Readonly<Record<QuantisedType, BlockQuantiser>> = {
  q8_0: blockQ8,
  q5_0: blockQ50,
  q5_1: blockQ51,
};
type BlockQuantiser = (values: Float32Array, from: number, out: Uint8Array, at: number) => void;

/** Bytes of that many values, which are whole blocks. */
export function weightBytes(type: WeightType, values: number): number {
  return (values / BLOCK_VALUES) * WEIGHT_CODES[type].blockBytes;
}

/**
 * Rounds values to blocks of 32, as ggml's reference functions do (ggml-quants.c, `quantize_row_q*_ref`): with the same
 * steps in 32-bit arithmetic, so that the bytes are the same.
 *
 * @param values finite, a multiple of 32
 * @param out receives `weightBytes(type, values.length)` bytes
 */
export function quantise(values: Float32Array, type: QuantisedType, out: Uint8Array): void {
  const block = QUANTISERS[type];
  const size = WEIGHT_CODES[type].blockBytes;
  for (let from = 0, at = 0; from < values.length; from += BLOCK_VALUES, at += size)
    block(values, from, out, at);
}

const half = new Float16Array(1);
const halfBytes = new Uint8Array(half.buffer);

function putHalf(value: number, out: Uint8Array, at: number): void {
  half[0] = value;
  out[at] = halfBytes[0] as number;
  out[at + 1] = halfBytes[1] as number;
}

function blockQ8(values: Float32Array, from: number, out: Uint8Array, at: number): void {
  let top = 0;
  for (let j = 0; j < BLOCK_VALUES; j++) {
    const size = Math.abs(values[from + j] as number);
    if (size > top) top = size;
  }
  const scale = Math.fround(top / 127);
  const inverse = scale === 0 ? 0 : Math.fround(1 / scale);
  putHalf(scale, out, at);
  for (let j = 0; j < BLOCK_VALUES; j++) {
    const value = Math.fround((values[from + j] as number) * inverse);
    // C's roundf: halves go away from zero.
    out[at + 2 + j] = value < 0 ? -Math.floor(0.5 - value) : Math.floor(value + 0.5);
  }
}

function blockQ50(values: Float32Array, from: number, out: Uint8Array, at: number): void {
  let top = 0;
  let extreme = 0;
  for (let j = 0; j < BLOCK_VALUES; j++) {
    const value = values[from + j] as number;
    if (Math.abs(value) > top) {
      top = Math.abs(value);
      extreme = value;
    }
  }
  const scale = Math.fround(extreme / -16);
  putHalf(scale, out, at);
  putLevels(values, from, { scale, low: 0, offset: 16.5 }, out, at + 2);
}

function blockQ51(values: Float32Array, from: number, out: Uint8Array, at: number): void {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (let j = 0; j < BLOCK_VALUES; j++) {
    const value = values[from + j] as number;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  const scale = Math.fround(Math.fround(high - low) / 31);
  putHalf(scale, out, at);
  putHalf(low, out, at + 2);
  putLevels(values, from, { scale, low, offset: 0.5 }, out, at + 4);
}

type Grid = { scale: number; low: number; offset: number };

/** Writes 32 numbers from 0 to 31: four bytes with their fifth bits, then the other four bits of each. */
function putLevels(
  values: Float32Array,
  from: number,
  { scale, low, offset }: Grid,
  out: Uint8Array,
  at: number,
): void {
  const inverse = scale === 0 ? 0 : Math.fround(1 / scale);
  let fifthBits = 0;
  for (let j = 0; j < 16; j++) {
    const first = levelOf(values[from + j] as number, inverse, low, offset);
    const second = levelOf(values[from + j + 16] as number, inverse, low, offset);
    out[at + 4 + j] = (first & 15) | ((second & 15) << 4);
    fifthBits |= ((first >> 4) << j) | ((second >> 4) << (j + 16));
  }
  for (let byte = 0; byte < 4; byte++) out[at + byte] = fifthBits >>> (8 * byte);
}

function levelOf(value: number, inverse: number, low: number, offset: number): number {
  const scaled = Math.fround(Math.fround(Math.fround(value - low) * inverse) + offset);
  return Math.min(31, Math.trunc(scaled));
}
