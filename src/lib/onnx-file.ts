import { closeSync, fstatSync, readSync } from "node:fs";
import { openRegularFile } from "./regular-file.ts";

/** What an ONNX file says of itself. Its weights are not read. */
export type OnnxFile = {
  metadata: Map<string, string>;
  /** Inputs that a caller gives, in order. */
  inputs: OnnxPort[];
  outputs: OnnxPort[];
  /** Files of weights beside it, and how many bytes each must have at least. */
  external: Map<string, number>;
};

/** `type` is the number of an ONNX data type, 0 where none is given. A dimension is a number, or the name of a variable one. */
export type OnnxPort = { name: string; type: number; shape: (number | string)[] };

/** The domain of the addon's operations. Those that round have the same outputs as DynamicQuantizeLinear. */
export const OWN_DOMAIN = "shruti";
/** Numbers of ONNX data types (`TensorProto.DataType`). */
export const ONNX_FLOAT = 1;
export const ONNX_INT64 = 7;
export const ONNX_BOOL = 9;

/** Bytes of one element of a data type whose tensors may be stored as raw data. */
const ELEMENT_BYTES = new Map([
  [ONNX_FLOAT, 4],
  [2, 1],
  [3, 1],
  [4, 2],
  [5, 2],
  [6, 4],
  [ONNX_INT64, 8],
  [ONNX_BOOL, 1],
  [10, 2],
  [11, 8],
  [12, 4],
  [13, 8],
  [16, 2],
]);

/** Largest file that protobuf allows. */
const MAX_BYTES = 2 ** 31;
/** Longest text that is read. */
const MAX_TEXT_BYTES = 64 * 1024;
const MAX_DIMENSIONS = 16;
/** More of these has no model. The bounds keep memory small, whatever the file. */
const MAX_PORTS = 256;
const MAX_ENTRIES = 1_000;
const MAX_WEIGHTS = 200_000;
const MAX_EXTERNAL = 1_000;
const BUFFER_BYTES = 64 * 1024;

/** Wire types of protobuf. */
const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;

const INCOMPLETE = "The file is not a complete ONNX model.";
const NO_MODEL = "The file is not an ONNX model.";

/**
 * Reads what an ONNX file says of itself (onnx.proto of ONNX 1.17), and checks that it is whole: each message ends where
 * it must, and each tensor has as many bytes as its shape says. It steps over long fields, so a file of any size takes
 * milliseconds.
 *
 * @throws Error when the file is not a complete ONNX model; RegularFileError; the system's error
 */
export function readOnnxFile(path: string): OnnxFile {
  return withOnnxFile(path, readModel);
}

/**
 * Opens an ONNX file for work that reads parts of it.
 *
 * @throws RegularFileError; the system's error; what the work throws
 */
export function withOnnxFile<T>(path: string, work: (cursor: Cursor, size: number) => T): T {
  const descriptor = openRegularFile(path);
  try {
    const { size } = fstatSync(descriptor);
    if (size > MAX_BYTES) throw new Error("The file is larger than 2 GiB.");
    return work(openCursor(descriptor, size), size);
  } finally {
    closeSync(descriptor);
  }
}

/** Reads single bytes and short texts of a file through a buffer, and fills arrays with its bytes. */
export type Cursor = {
  byte(at: number): number;
  text(from: number, to: number): string;
  read(from: number, bytes: Uint8Array): void;
};

function openCursor(descriptor: number, size: number): Cursor {
  const buffer = new Uint8Array(BUFFER_BYTES);
  let start = 0;
  let end = 0;
  return {
    byte(at) {
      if (at < start || at >= end) {
        start = at;
        end = at < size ? at + readSync(descriptor, buffer, 0, buffer.length, at) : at;
      }
      const byte = at < end ? buffer[at - start] : undefined;
      if (byte === undefined) throw new Error(INCOMPLETE);
      return byte;
    },
    text(from, to) {
      if (to - from > MAX_TEXT_BYTES) throw new Error("The file has a text that is too long.");
      const bytes = new Uint8Array(to - from);
      if (readSync(descriptor, bytes, 0, bytes.length, from) < bytes.length) throw new Error(INCOMPLETE);
      return new TextDecoder().decode(bytes);
    },
    read(from, bytes) {
      for (let done = 0; done < bytes.length; ) {
        const count = readSync(descriptor, bytes, done, bytes.length - done, from + done);
        if (count === 0) throw new Error(INCOMPLETE);
        done += count;
      }
    },
  };
}

/** A field of a message: its number, and its value or the range of its bytes. */
export type Field = { number: number; value: number; from: number; to: number };

/** The lowest 28 bits of a number, and those above them: a double has not all digits of a number below zero, whose high bits are set. */
type Digits = { low: number; high: number };
const addDigits = (digits: Digits, index: number, byte: number) => {
  if (index < 4) digits.low += (byte & 0x7f) * 2 ** (7 * index);
  else digits.high += (byte & 0x7f) * 2 ** (7 * (index - 4));
};
const numberOf = ({ low, high }: Digits) => low + (high >= 2 ** 35 ? high - 2 ** 36 : high) * 2 ** 28;

/** Calls `visit` for each field of the message between two positions. @throws Error when it is not whole */
export function visitFields(cursor: Cursor, from: number, to: number, visit: (field: Field) => void): void {
  let at = from;
  const varint = (): number => {
    const digits = { low: 0, high: 0 };
    for (let index = 0; index < 10; index++) {
      const byte = cursor.byte(at++);
      addDigits(digits, index, byte);
      if (byte < 0x80) return numberOf(digits);
    }
    throw new Error(NO_MODEL);
  };
  while (at < to) {
    const tag = varint();
    const number = Math.floor(tag / 8);
    const wireType = tag % 8;
    if (number === 0) throw new Error(NO_MODEL);
    if (wireType === VARINT) visit({ number, value: varint(), from: at, to: at });
    else if (wireType === FIXED64) at += 8;
    else if (wireType === FIXED32) at += 4;
    else if (wireType === LENGTH_DELIMITED) {
      const length = varint();
      if (length < 0 || at + length > to) throw new Error(INCOMPLETE);
      visit({ number, value: length, from: at, to: at + length });
      at += length;
    } else throw new Error(NO_MODEL);
  }
  if (at !== to) throw new Error(INCOMPLETE);
}

function readModel(cursor: Cursor, size: number): OnnxFile {
  const file: OnnxFile = { metadata: new Map(), inputs: [], outputs: [], external: new Map() };
  const weights = new Set<string>();
  let hasVersion = false;
  let graphs = 0;
  visitFields(cursor, 0, size, ({ number, from, to }) => {
    if (number === 1) hasVersion = true;
    if (number === 7) {
      graphs++;
      readGraph(cursor, { from, to }, file, weights);
    }
    if (number === 14) file.metadata.set(...readPair(cursor, from, to));
    if (file.metadata.size > MAX_ENTRIES) throw new Error("The file has too much metadata.");
  });
  if (!hasVersion || graphs !== 1) throw new Error(NO_MODEL);
  // Older files list weights among the inputs, too.
  file.inputs = file.inputs.filter(({ name }) => !weights.has(name));
  return file;
}

/** Graphs within the attributes of nodes may be nested this deep. */
const MAX_DEPTH = 8;

function readGraph(
  cursor: Cursor,
  { from, to }: Pick<Field, "from" | "to">,
  file: OnnxFile,
  weights: Set<string>,
  depth = 0,
): void {
  if (depth > MAX_DEPTH) throw new Error("The file's graphs are nested too deep.");
  const readAttribute = (attribute: Field) => {
    if (ATTRIBUTE_TENSORS.has(attribute.number)) readTensor(cursor, attribute, file.external);
    if (!ATTRIBUTE_GRAPHS.has(attribute.number)) return;
    const inner: OnnxFile = { ...file, inputs: [], outputs: [] };
    readGraph(cursor, attribute, inner, new Set(), depth + 1);
  };
  visitFields(cursor, from, to, (field) => {
    if (field.number === 1) {
      visitFields(cursor, field.from, field.to, (part) => {
        if (part.number === 5) visitFields(cursor, part.from, part.to, readAttribute);
        if (part.number === 7) checkDomain(cursor.text(part.from, part.to));
      });
    }
    if (field.number === 5) weights.add(readTensor(cursor, field, file.external));
    if (field.number === 11) file.inputs.push(readPort(cursor, field));
    if (field.number === 12) file.outputs.push(readPort(cursor, field));
    if (Math.max(file.inputs.length, file.outputs.length) > MAX_PORTS || weights.size > MAX_WEIGHTS)
      throw new Error("The file has too many inputs, outputs or weights.");
  });
}

/** The addon's own operations trust what calls them: networks that were changed here, and no file. */
function checkDomain(domain: string): void {
  if (domain === OWN_DOMAIN) throw new Error(`The file uses operations of the domain ${OWN_DOMAIN}.`);
}

/** Fields of a node's attribute: one or several tensors, one or several graphs. */
const ATTRIBUTE_TENSORS = new Set([5, 10]);
const ATTRIBUTE_GRAPHS = new Set([6, 11]);

/** Checks a tensor, notes the file that it is in, and returns its name. */
function readTensor(cursor: Cursor, { from, to }: Field, external: Map<string, number>): string {
  let name = "";
  let type = 0;
  let elements = 1;
  let rawBytes: number | undefined;
  const place = new Map<string, string>();
  const multiply = (size: number) => {
    if (size < 0) throw new Error(`The weights ${name} have a negative dimension.`);
    elements *= size;
  };
  visitFields(cursor, from, to, (field) => {
    if (field.number === 1) readNumbers(cursor, field, multiply);
    if (field.number === 2) type = field.value;
    if (field.number === 8) name = cursor.text(field.from, field.to);
    if (field.number === 9) rawBytes = field.value;
    if (field.number === 13) place.set(...readPair(cursor, field.from, field.to));
  });
  const bytes = elements * (ELEMENT_BYTES.get(type) ?? 0);
  if (place.size > 0) noteExternal(place, bytes, external);
  else if (rawBytes !== undefined && ELEMENT_BYTES.has(type) && rawBytes !== bytes) {
    throw new Error(`The weights ${name} have ${rawBytes} bytes and not ${bytes}, as their shape says.`);
  }
  return name;
}

/** Visits the integers of a repeated field, which may be packed into one. */
export function readNumbers(
  cursor: Cursor,
  { value, from, to }: Field,
  visit: (value: number) => void,
): void {
  if (from === to) {
    visit(value);
    return;
  }
  for (let at = from; at < to; ) {
    const digits = { low: 0, high: 0 };
    for (let index = 0; ; index++) {
      if (at >= to || index > 9) throw new Error(INCOMPLETE);
      const byte = cursor.byte(at++);
      addDigits(digits, index, byte);
      if (byte < 0x80) break;
    }
    visit(numberOf(digits));
  }
}

function noteExternal(place: Map<string, string>, bytes: number, external: Map<string, number>): void {
  const location = place.get("location") ?? "";
  const offset = Number(place.get("offset") ?? 0);
  const length = Number(place.get("length") ?? bytes);
  if (!/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/.test(location)) {
    throw new Error(`The file keeps weights in ${JSON.stringify(location)}, which is not a plain file name.`);
  }
  if (!Number.isSafeInteger(offset) || !Number.isSafeInteger(length) || offset < 0 || length < bytes) {
    throw new Error(`The file has a wrong position of weights in ${location}.`);
  }
  if (external.size >= MAX_EXTERNAL) throw new Error("The file names too many files of weights.");
  external.set(location, Math.max(external.get(location) ?? 0, offset + length));
}

/** Reads key and value of a metadata entry: fields 1 and 2, both texts. */
function readPair(cursor: Cursor, from: number, to: number): [string, string] {
  const texts = ["", ""];
  visitFields(cursor, from, to, (field) => {
    if (field.number === 1 || field.number === 2) texts[field.number - 1] = cursor.text(field.from, field.to);
  });
  return [texts[0] ?? "", texts[1] ?? ""];
}

/** Reads name and type of an input or output: `ValueInfoProto` with a tensor. */
export function readPort(cursor: Cursor, { from, to }: Field): OnnxPort {
  const port: OnnxPort = { name: "", type: 0, shape: [] };
  const readShape = (field: Field) =>
    visitFields(cursor, field.from, field.to, (dimension) => {
      if (dimension.number !== 1) return;
      if (port.shape.length === MAX_DIMENSIONS) throw new Error("The file has too many dimensions.");
      port.shape.push(readDimension(cursor, dimension));
    });
  const readTensorType = (field: Field) =>
    visitFields(cursor, field.from, field.to, (part) => {
      if (part.number === 1) port.type = part.value;
      if (part.number === 2) readShape(part);
    });
  visitFields(cursor, from, to, (field) => {
    if (field.number === 1) port.name = cursor.text(field.from, field.to);
    if (field.number !== 2) return;
    visitFields(cursor, field.from, field.to, (type) => {
      if (type.number === 1) readTensorType(type);
    });
  });
  return port;
}

function readDimension(cursor: Cursor, { from, to }: Field): number | string {
  let size: number | string = "?";
  visitFields(cursor, from, to, (field) => {
    if (field.number === 1) size = field.value;
    if (field.number === 2) size = cursor.text(field.from, field.to);
  });
  return size;
}
