import { ImportError } from "./import-error.ts";
import type { SourceFile } from "./source-file.ts";
import { countElements, type StoredTensor, widthOf } from "./stored-tensor.ts";

/** What a file of CTranslate2 holds: tensors, and single numbers that say how the model computes. */
export type Ct2File = {
  /** The name of the model's kind, such as `WhisperSpec`. */
  spec: string;
  /** By their names, aliases included. Those of whole numbers have no scales yet. */
  tensors: Map<string, StoredTensor>;
  /** Names that mean another tensor. */
  aliases: Map<string, string>;
  numbers: Map<string, number>;
};

/** Versions of the format with the same layout: types have numbers, and there are aliases. */
const VERSIONS = { first: 4, last: 6 } as const;
/** Whisper large has 1,600 variables. */
const MAX_VARIABLES = 100_000;
const MAX_NAME_BYTES = 512;
const MAX_DIMENSIONS = 4;

/** CTranslate2's numbers of types. 32-bit whole numbers occur only as single numbers. */
const TYPES: readonly (StoredTensor["type"] | "I32" | undefined)[] = [
  "F32",
  "I8",
  "I16",
  "I32",
  "F16",
  "BF16",
];

/**
 * Lists what a `model.bin` of CTranslate2 holds: a version, the kind of the model and its revision, variables one after
 * the other (name, sizes, type, bytes), then aliases. Lengths are followed only within the file, and nothing may be left
 * over. The format is that of `python/ctranslate2/specs/model_spec.py`, `ModelSpec.save`.
 *
 * @throws ImportError
 */
export function readCt2File(file: SourceFile): Ct2File {
  const reader = createReader(file);
  const refuse = (reason: string) => new ImportError(file.name, reason);
  const version = reader.integer(4);
  if (version < VERSIONS.first || version > VERSIONS.last) {
    throw refuse(`it is not a model of CTranslate2 in a known version (${version})`);
  }
  const read: Ct2File = { spec: reader.text(), tensors: new Map(), aliases: new Map(), numbers: new Map() };
  reader.integer(4);
  const count = reader.integer(4);
  if (count > MAX_VARIABLES) throw refuse(`it claims ${count} variables`);
  for (let n = 0; n < count; n++) readVariable(reader, read);
  const aliases = reader.integer(4);
  if (aliases > MAX_VARIABLES) throw refuse(`it claims ${aliases} aliases`);
  for (let n = 0; n < aliases; n++) {
    const [alias, name] = [reader.text(), reader.text()];
    const tensor = read.tensors.get(name);
    if (!tensor || read.tensors.has(alias))
      throw refuse(`the alias ${alias} names no tensor, or a second one`);
    read.tensors.set(alias, tensor);
    read.aliases.set(alias, name);
  }
  if (reader.left() !== 0) throw refuse(`${reader.left()} bytes belong to no tensor`);
  return read;
}

type Reader = {
  file: SourceFile;
  /** Reads an unsigned number of 1, 2 or 4 bytes. */
  integer(bytes: number): number;
  /** Reads a text with its length before it and a zero behind it. */
  text(): string;
  /** Passes over bytes. @returns the position of the first one */
  skip(bytes: number): number;
  left(): number;
};

function createReader(file: SourceFile): Reader {
  let at = 0;
  const skip = (bytes: number): number => {
    if (bytes > file.bytes - at) throw new ImportError(file.name, "the file is truncated");
    at += bytes;
    return at - bytes;
  };
  const integer = (bytes: number) => file.read(skip(bytes), bytes).readUIntLE(0, bytes);
  return {
    file,
    integer,
    skip,
    text() {
      const length = integer(2);
      if (length < 1 || length > MAX_NAME_BYTES)
        throw new ImportError(file.name, `a name has ${length} bytes`);
      const name = file.read(skip(length), length).toString("utf8", 0, length - 1);
      // It appears in messages.
      if (!/^[\x21-\x7e]*$/.test(name)) throw new ImportError(file.name, "a name has unusual characters");
      return name;
    },
    left: () => file.bytes - at,
  };
}

function readVariable(reader: Reader, { tensors, numbers }: Ct2File): void {
  const { file } = reader;
  const name = reader.text();
  const refuse = (reason: string) => new ImportError(file.name, `the tensor ${name} ${reason}`);
  if (tensors.has(name) || numbers.has(name)) throw refuse("is there twice");
  const dimensions = reader.integer(1);
  if (dimensions > MAX_DIMENSIONS) throw refuse("has too many dimensions");
  const shape = Array.from({ length: dimensions }, () => reader.integer(4));
  const code = reader.integer(1);
  const type = TYPES[code];
  if (type === undefined) throw refuse(`has values of the unknown type ${code}`);
  const bytes = reader.integer(4);
  const elements = countElements(file.name, name, shape);
  const width = type === "I32" ? 4 : widthOf(type);
  if (bytes !== elements * width) throw refuse(`has ${bytes} bytes for ${elements} values of ${width} bytes`);
  const position = reader.skip(bytes);
  if (dimensions === 0 && type !== "F32" && type !== "F16" && type !== "BF16") {
    numbers.set(name, file.read(position, width).readIntLE(0, width));
    return;
  }
  if (type === "I32") throw refuse("has values of 32-bit whole numbers");
  tensors.set(name, { file, type, shape, position, elements, label: name });
}
