import { ImportError } from "./import-error.ts";
import { isJsonObject, parseJsonObject, type SourceFile } from "./source-file.ts";
import { countElements, type StoredTensor, VALUE_BYTES, type ValueType, widthOf } from "./stored-tensor.ts";

/** Whisper's largest header is some 200 KB. The format itself allows 100 MB. */
const MAX_HEADER_BYTES = 16 * 1024 * 1024;
const LENGTH_BYTES = 8;

/**
 * Lists the tensors of a safetensors file: eight bytes with the length of a JSON header, the header, the values. The
 * values must follow each other without gaps and overlaps up to the end of the file, as the format demands.
 *
 * @throws ImportError
 */
export function readSafetensors(file: SourceFile): Map<string, StoredTensor> {
  const refuse = (reason: string) => new ImportError(file.name, reason);
  if (file.bytes < LENGTH_BYTES) throw refuse("it is not a safetensors file");
  const headerBytes = Number(file.read(0, LENGTH_BYTES).readBigUInt64LE());
  if (headerBytes > MAX_HEADER_BYTES || LENGTH_BYTES + headerBytes > file.bytes) {
    throw refuse(`it is not a safetensors file: its header claims ${headerBytes} bytes`);
  }
  const header = parseJsonObject(file.name, file.read(LENGTH_BYTES, headerBytes));
  const start = LENGTH_BYTES + headerBytes;
  const tensors = new Map<string, StoredTensor>();
  for (const [name, entry] of Object.entries(header)) {
    if (name !== "__metadata__") tensors.set(name, readEntry(file, name, entry, start));
  }
  checkTiling(file, start, [...tensors]);
  return tensors;
}

function readEntry(file: SourceFile, name: string, entry: unknown, start: number): StoredTensor {
  const refuse = (reason: string) => new ImportError(file.name, `the tensor ${name} ${reason}`);
  if (!isJsonObject(entry)) throw refuse("has no description");
  const { dtype, shape, data_offsets: offsets } = entry;
  if (typeof dtype !== "string" || !Object.hasOwn(VALUE_BYTES, dtype)) {
    throw refuse(`has values of type ${String(dtype)}, which cannot be imported`);
  }
  const type = dtype as ValueType;
  if (!Array.isArray(shape)) throw refuse("has no shape");
  const elements = countElements(file.name, name, shape);
  const [from, to] = Array.isArray(offsets) ? (offsets as unknown[]) : [];
  if (!Number.isSafeInteger(from) || !Number.isSafeInteger(to)) throw refuse("has no offsets");
  const bytes = (to as number) - (from as number);
  if ((from as number) < 0 || bytes !== elements * VALUE_BYTES[type] || start + (to as number) > file.bytes) {
    throw refuse("has offsets that do not fit its shape or the file");
  }
  return { file, type, shape: shape as number[], position: start + (from as number), elements };
}

function checkTiling(file: SourceFile, start: number, tensors: [string, StoredTensor][]): void {
  let end = start;
  for (const [name, tensor] of tensors.sort(([, a], [, b]) => a.position - b.position)) {
    if (tensor.position !== end) {
      const what = tensor.position < end ? "overlaps another one" : "follows a gap";
      throw new ImportError(file.name, `the tensor ${name} ${what}`);
    }
    end += tensor.elements * widthOf(tensor.type);
  }
  if (end !== file.bytes) throw new ImportError(file.name, `${file.bytes - end} bytes belong to no tensor`);
}
