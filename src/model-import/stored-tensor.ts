import { ImportError } from "./import-error.ts";
import type { SourceFile } from "./source-file.ts";

/** Types of values that weights are stored in, with their bytes. */
export const VALUE_BYTES = { F64: 8, F32: 4, F16: 2, BF16: 2 } as const;
export type ValueType = keyof typeof VALUE_BYTES;

/** Types of whole numbers that CTranslate2 keeps weights in, with their bytes. The weight is the number divided by its row's scale. */
export const SCALED_BYTES = { I8: 1, I16: 2 } as const;
export type ScaledType = keyof typeof SCALED_BYTES;

/** Scales of rows: one for each, or one for all. */
export type Scales = { values: Float32Array; valuesPerRow: number };

/** Returns the bytes of one value. */
export function widthOf(type: ValueType | ScaledType): number {
  return type === "I8" || type === "I16" ? SCALED_BYTES[type] : VALUE_BYTES[type];
}

/** Where the values of a tensor are: row by row, without gaps, little-endian. */
export type StoredTensor = {
  file: SourceFile;
  type: ValueType | ScaledType;
  /** Scales of the types of whole numbers. */
  scales?: Scales;
  /** The name in the file, for messages, where it is not that of transformers. */
  label?: string;
  /** The last dimension varies fastest. */
  shape: number[];
  /** Position of the first value in the file, bytes. */
  position: number;
  /** Number of values. */
  elements: number;
};

const MAX_DIMENSIONS = 4;
/** More than any Whisper tensor has. Products of sizes stay exact numbers below this. */
const MAX_ELEMENTS = 2 ** 32;

/**
 * Counts the values of a shape.
 *
 * @throws ImportError for sizes that are not whole numbers, or too many of them
 */
export function countElements(file: string, name: string, shape: readonly unknown[]): number {
  let elements = 1;
  for (const size of shape) {
    if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0) {
      throw new ImportError(file, `the tensor ${name} has an impossible shape`);
    }
    elements *= size;
    if (elements > MAX_ELEMENTS) throw new ImportError(file, `the tensor ${name} is too large`);
  }
  if (shape.length > MAX_DIMENSIONS)
    throw new ImportError(file, `the tensor ${name} has too many dimensions`);
  return elements;
}
