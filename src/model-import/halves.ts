import { ImportError } from "./import-error.ts";
import { type Scales, type StoredTensor, VALUE_BYTES, widthOf } from "./stored-tensor.ts";

/** Values that are read and converted at once: memory does not grow with a tensor. */
export const SLICE_VALUES = 1024 * 1024;
/** The largest finite number of 16 bits. */
const MAX_HALF = 65_504;

/** Reads a tensor's values in slices, rounded to 16 bits as whisper.cpp's own converter does. Arrays are used again. */
export type HalfReader = {
  /**
   * Yields the values in order, up to `SLICE_VALUES` at once. An array is valid until the next one comes.
   *
   * @param label the name for messages
   * @throws ImportError for values that are not finite or do not fit into 16 bits
   */
  slices(tensor: StoredTensor, label: string): Generator<Float16Array<ArrayBuffer>>;
};

export function createHalfReader(): HalfReader {
  const raw = new ArrayBuffer(SLICE_VALUES * VALUE_BYTES.F64);
  const halves = new Float16Array(SLICE_VALUES);
  const wide = new Uint32Array(SLICE_VALUES);

  /** @param first position of the first value in its tensor */
  function convert(
    { type, scales }: Pick<StoredTensor, "type" | "scales">,
    first: number,
    count: number,
  ): Float16Array<ArrayBuffer> {
    const into = halves.subarray(0, count);
    switch (type) {
      case "F64":
        into.set(new Float64Array(raw, 0, count));
        break;
      case "F32":
        into.set(new Float32Array(raw, 0, count));
        break;
      case "F16":
        into.set(new Float16Array(raw, 0, count));
        break;
      case "BF16": {
        const upper = new Uint16Array(raw, 0, count);
        for (let i = 0; i < count; i++) wide[i] = (upper[i] as number) << 16;
        into.set(new Float32Array(wide.buffer, 0, count));
        break;
      }
      case "I8":
        divide(new Int8Array(raw, 0, count), first, scales, into);
        break;
      case "I16":
        divide(new Int16Array(raw, 0, count), first, scales, into);
    }
    return into;
  }

  return {
    *slices(tensor, label) {
      const { file, position, elements } = tensor;
      const width = widthOf(tensor.type);
      for (let done = 0; done < elements; done += SLICE_VALUES) {
        const count = Math.min(SLICE_VALUES, elements - done);
        file.fill(new Uint8Array(raw, 0, count * width), position + done * width);
        const into = convert(tensor, done, count);
        const index = firstBad(into);
        if (index !== -1) throw unusable(file.name, label, into[index] as number);
        yield into;
      }
    },
  };
}

/** Turns whole numbers into weights: each is divided by the scale of its row. */
function divide(
  numbers: Int8Array | Int16Array,
  first: number,
  scales: Scales | undefined,
  into: Float16Array,
): void {
  const { values = new Float32Array(), valuesPerRow = 1 } = scales ?? {};
  const last = values.length - 1;
  for (let i = 0; i < numbers.length; i++) {
    const row = Math.min(Math.floor((first + i) / valuesPerRow), last);
    into[i] = Math.fround((numbers[i] as number) / (values[row] as number));
  }
}

/** Returns the position of the first value that is infinite or NaN; −1: there is none. Their exponents are all ones. */
function firstBad(halves: Float16Array<ArrayBuffer>): number {
  const bits = new Uint16Array(halves.buffer, halves.byteOffset, halves.length);
  for (let i = 0; i < bits.length; i++) if (((bits[i] as number) & 0x7c00) === 0x7c00) return i;
  return -1;
}

function unusable(file: string, label: string, value: number): ImportError {
  const what = Number.isNaN(value)
    ? "holds a value that is not a number (NaN)"
    : `holds a value beyond ±${MAX_HALF}, which 16 bits cannot hold`;
  return new ImportError(file, `the tensor ${label} ${what}`);
}
