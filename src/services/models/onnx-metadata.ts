import { closeSync, fstatSync, readSync } from "node:fs";
import { openRegularFile } from "../../lib/regular-file.ts";

/** Largest file that protobuf allows. */
const MAX_BYTES = 2 ** 31;
/** Fields of `ModelProto` and `StringStringEntryProto` (onnx.proto of ONNX 1.17), and the wire types of protobuf. */
const IR_VERSION = 1;
const GRAPH = 7;
const METADATA = 14;
const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;
const MAX_ENTRY_BYTES = 64 * 1024;

/**
 * Reads the metadata of an ONNX file, and skips its graph.
 *
 * @throws Error when the file is not a complete ONNX model
 */
export function readOnnxMetadata(file: string): Map<string, string> {
  const descriptor = openRegularFile(file);
  try {
    const facts = fstatSync(descriptor);
    if (facts.size > MAX_BYTES) throw new Error("The file is larger than 2 GiB.");
    const metadata = new Map<string, string>();
    const seen = new Set<number>();
    for (let at = 0; at < facts.size; ) {
      const field = readField(descriptor, at, facts.size);
      seen.add(field.number);
      if (field.number === METADATA && field.bytes !== undefined) {
        const [key, value] = readEntry(field.bytes);
        metadata.set(key, value);
      }
      at = field.end;
    }
    if (!seen.has(IR_VERSION) || !seen.has(GRAPH)) throw new Error("The file is not an ONNX model.");
    return metadata;
  } finally {
    closeSync(descriptor);
  }
}

type Field = { number: number; end: number; bytes: Uint8Array | undefined };

function readField(descriptor: number, at: number, size: number): Field {
  const head = new Uint8Array(20);
  const available = readSync(descriptor, head, 0, head.length, at);
  const tag = readVarint(head.subarray(0, available), 0);
  const number = Math.floor(tag.value / 8);
  const wireType = tag.value % 8;
  let end = at + tag.length;
  let bytes: Uint8Array | undefined;
  if (wireType === VARINT) {
    end += readVarint(head.subarray(0, available), tag.length).length;
  } else if (wireType === LENGTH_DELIMITED) {
    const length = readVarint(head.subarray(0, available), tag.length);
    const start = end + length.length;
    end = start + length.value;
    if (number === METADATA && length.value <= MAX_ENTRY_BYTES && end <= size) {
      bytes = new Uint8Array(length.value);
      readSync(descriptor, bytes, 0, bytes.length, start);
    }
  } else if (wireType === FIXED64 || wireType === FIXED32) {
    end += wireType === FIXED64 ? 8 : 4;
  } else {
    throw new Error("The file is not an ONNX model.");
  }
  if (number === 0 || end > size) throw new Error("The file is not a complete ONNX model.");
  return { number, end, bytes };
}

/** Reads a protobuf integer: seven bits in each byte, the least significant first. */
function readVarint(bytes: Uint8Array, start: number): { value: number; length: number } {
  let value = 0;
  for (let index = 0; index < 10; index++) {
    const byte = bytes[start + index];
    if (byte === undefined) break;
    value += (byte & 0x7f) * 2 ** (7 * index);
    if (byte < 0x80) return { value, length: index + 1 };
  }
  throw new Error("The file is not a complete ONNX model.");
}

/** Reads key and value of a metadata entry: fields 1 and 2, both texts. */
function readEntry(bytes: Uint8Array): [string, string] {
  const texts = ["", ""];
  for (let at = 0; at < bytes.length; ) {
    const tag = readVarint(bytes, at);
    const length = readVarint(bytes, at + tag.length);
    const start = at + tag.length + length.length;
    const text = new TextDecoder().decode(bytes.subarray(start, start + length.value));
    const number = Math.floor(tag.value / 8);
    if (number === 1 || number === 2) texts[number - 1] = text;
    at = start + length.value;
  }
  return [texts[0] ?? "", texts[1] ?? ""];
}
