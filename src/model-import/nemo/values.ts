import { ImportError } from "../import-error.ts";
import type { StoredTensor } from "../stored-tensor.ts";
import { widthOf } from "../stored-tensor.ts";

/** Tensors whose values are kept as they are, such as biases, are small. */
const MAX_ELEMENTS = 16 * 1024 * 1024;

/**
 * Reads all values of a tensor, as numbers of 32 bits.
 *
 * @throws ImportError for a tensor that is too large, and for values that are not finite
 */
export function valuesOf(tensor: StoredTensor, name: string): Float32Array<ArrayBuffer> {
  const { file, type, elements, position } = tensor;
  if (elements > MAX_ELEMENTS) throw new ImportError(file.name, `the tensor ${name} is too large`);
  const raw = file.read(position, elements * widthOf(type));
  const bytes = new Uint8Array(raw).buffer;
  const values = decoded(type, bytes);
  if (!values) throw new ImportError(file.name, `the tensor ${name} has values of type ${type}`);
  if (!values.every(Number.isFinite))
    throw new ImportError(file.name, `the tensor ${name} holds a value that is not a finite number`);
  return values;
}

function decoded(type: StoredTensor["type"], bytes: ArrayBuffer): Float32Array<ArrayBuffer> | undefined {
  switch (type) {
    case "F64":
      return Float32Array.from(new Float64Array(bytes));
    case "F32":
      return new Float32Array(bytes);
    case "F16":
      return Float32Array.from(new Float16Array(bytes));
    case "BF16":
      return new Float32Array(Uint32Array.from(new Uint16Array(bytes), (upper) => upper << 16).buffer);
    default:
      return undefined;
  }
}
