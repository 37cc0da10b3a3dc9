import { ImportError } from "./import-error.ts";
import { type PickledTensor, PickleError, readOpenAiCheckpoint, readStateDict } from "./pickle.ts";
import type { SourceFile } from "./source-file.ts";
import { countElements, type StoredTensor, VALUE_BYTES, type ValueType } from "./stored-tensor.ts";
import { listZip, type ZipEntry } from "./zip-entries.ts";

const STORAGE_TYPES = new Map<string, ValueType>([
  ["DoubleStorage", "F64"],
  ["FloatStorage", "F32"],
  ["HalfStorage", "F16"],
  ["BFloat16Storage", "BF16"],
]);
const PICKLE_NAME = "data.pkl";
const MAX_PICKLE_BYTES = 16 * 1024 * 1024;
const ZIP_MAGIC = 0x04034b50;

/**
 * Lists the tensors of a file that torch.save (1.6 or newer) has written from a state_dict: a ZIP, never packed, with
 * `data.pkl` and one entry for each storage.
 *
 * @param isWanted says of a name whether its tensor is listed; left out: all are
 * @throws ImportError
 */
export async function readTorchFile(
  file: SourceFile,
  isWanted: (name: string) => boolean = () => true,
): Promise<Map<string, StoredTensor>> {
  const { pickle, entries, root } = await openArchive(file);
  const tensors = interpret(file, () => readStateDict(pickle));
  return locateAll(file, new Map([...tensors].filter(([name]) => isWanted(name))), entries, root);
}

/**
 * Lists the sizes and the tensors of a checkpoint in the form of OpenAI's own, which torch.save has written.
 *
 * @throws ImportError
 */
export async function readOpenAiFile(
  file: SourceFile,
): Promise<{ sizes: Map<string, number>; tensors: Map<string, StoredTensor> }> {
  const { pickle, entries, root } = await openArchive(file);
  const { sizes, tensors } = interpret(file, () => readOpenAiCheckpoint(pickle));
  return { sizes, tensors: locateAll(file, tensors, entries, root) };
}

type Archive = {
  pickle: Buffer;
  entries: Map<string, ZipEntry>;
  /** The folder in the archive, with a slash at its end. */
  root: string;
};

async function openArchive(file: SourceFile): Promise<Archive> {
  const refuse = (reason: string) => new ImportError(file.name, reason);
  if (file.bytes < 4 || file.read(0, 4).readUInt32LE() !== ZIP_MAGIC) {
    throw refuse(
      "it is not a file of torch 1.6 or newer: load it there and save it again, best as safetensors",
    );
  }
  const entries = new Map((await listZip(file)).map((entry) => [entry.name, entry]));
  const pickles = [...entries.keys()].filter((name) => name.endsWith(`/${PICKLE_NAME}`));
  const [pickleName] = pickles;
  if (pickleName === undefined || pickles.length > 1)
    throw refuse(`it has ${pickles.length} entries ${PICKLE_NAME}, not one`);
  for (const { name, isPacked } of entries.values()) {
    if (isPacked) throw refuse(`its entry ${name} is packed, which torch never does`);
  }
  const root = pickleName.slice(0, -PICKLE_NAME.length);
  const order = entries.get(`${root}byteorder`);
  if (order && (order.bytes > 16 || readEntry(file, order).toString().trim() !== "little")) {
    throw refuse("its byte order is not little-endian");
  }
  const pickle = entries.get(pickleName) as ZipEntry;
  if (pickle.bytes > MAX_PICKLE_BYTES)
    throw refuse(`its ${PICKLE_NAME} is larger than ${MAX_PICKLE_BYTES} bytes`);
  return { pickle: readEntry(file, pickle), entries, root };
}

function locateAll(
  file: SourceFile,
  pickled: ReadonlyMap<string, PickledTensor>,
  entries: ReadonlyMap<string, ZipEntry>,
  root: string,
): Map<string, StoredTensor> {
  const tensors = new Map<string, StoredTensor>();
  for (const [name, tensor] of pickled)
    tensors.set(name, locate(file, name, tensor, entries.get(`${root}data/${tensor.storage.key}`)));
  return tensors;
}

function interpret<T>(file: SourceFile, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof PickleError) throw new ImportError(file.name, `its pickle ${error.message}`);
    throw error;
  }
}

function readEntry(file: SourceFile, { position, bytes }: ZipEntry): Buffer {
  return file.read(position, bytes);
}

function locate(
  file: SourceFile,
  name: string,
  { storage, offset, shape, stride }: PickledTensor,
  entry: ZipEntry | undefined,
): StoredTensor {
  const refuse = (reason: string) => new ImportError(file.name, `the tensor ${name} ${reason}`);
  const type = STORAGE_TYPES.get(storage.storageType);
  if (type === undefined) throw refuse(`has values of type ${storage.storageType}, which cannot be imported`);
  const elements = countElements(file.name, name, shape);
  let step = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    const size = shape[i] ?? 0;
    if (size !== 1 && stride[i] !== step) throw refuse("is not stored row by row");
    step *= size;
  }
  const width = VALUE_BYTES[type];
  if (!entry) throw refuse("has no values");
  if (storage.elements * width !== entry.bytes || (offset + elements) * width > entry.bytes) {
    throw refuse("reaches beyond its values");
  }
  return { file, type, shape, position: entry.position + offset * width, elements };
}
