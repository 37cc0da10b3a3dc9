import { closeSync, fstatSync, readSync } from "node:fs";
import { openRegularFile } from "./regular-file.ts";

/** What a GGUF file says of itself. Its weights are not read. */
export type GgufFile = { values: ReadonlyMap<string, GgufValue>; tensors: ReadonlyMap<string, GgufTensor> };

/** Numbers of 64 bits are left out of what can be read: nothing here has them. */
export type GgufValue = number | boolean | string | readonly number[] | readonly string[];

/** `shape`: the fastest dimension first. `position`: of its first byte in the file. */
export type GgufTensor = { type: number; shape: readonly number[]; position: number; bytes: number };

/** The number with which files of version 3 begin, and the numbers of types of values (ggml's gguf.h). */
export const GGUF_MAGIC = 0x46554747;
export const GGUF_VERSION = 3;
export const GGUF_TYPE = { uint32: 4, float32: 6, bool: 7, string: 8, array: 9 } as const;
/** Where tensors begin, bytes. Files that give another alignment are not taken. */
export const GGUF_ALIGNMENT = 32;

/** ggml's types of weights: their number, and values and bytes of a block (ggml.c, `type_traits`). */
export const GGML_TYPES = {
  f32: { type: 0, values: 1, bytes: 4 },
  f16: { type: 1, values: 1, bytes: 2 },
  q5_0: { type: 6, values: 32, bytes: 22 },
  q5_1: { type: 7, values: 32, bytes: 24 },
  q8_0: { type: 8, values: 32, bytes: 34 },
} as const;
export type GgmlType = keyof typeof GGML_TYPES;

/** More has no model. The bounds keep memory small, whatever the file. */
const MAX_VALUES = 1_000;
const MAX_TENSORS = 20_000;
const MAX_ELEMENTS = 200_000;
const MAX_TEXT_BYTES = 64 * 1024;
const MAX_DIMENSIONS = 4;
const MAX_SIZE = 2 ** 31;
/** Most bytes of values and the list of tensors, which are kept in memory. */
const MAX_HEAD_BYTES = 32 * 1024 * 1024;
const BUFFER_BYTES = 64 * 1024;
/** Where tensors begin in a file that gives it. */
const ALIGNMENT_NAME = "general.alignment";

/** @returns the bytes of values in whole blocks; undefined when they do not fill the last block */
export function ggmlBytes(type: GgmlType, values: number): number | undefined {
  const block = GGML_TYPES[type];
  return values % block.values === 0 ? (values / block.values) * block.bytes : undefined;
}

/** Rounds up to the next place where a tensor may begin. */
export const ggufAligned = (bytes: number): number => Math.ceil(bytes / GGUF_ALIGNMENT) * GGUF_ALIGNMENT;

/** Reports whether a path is a regular file that begins as those of GGUF. */
export function isGgufFile(path: string): boolean {
  let descriptor: number;
  try {
    descriptor = openRegularFile(path);
  } catch {
    return false;
  }
  try {
    const bytes = Buffer.alloc(4);
    return readSync(descriptor, bytes, 0, 4, 0) === 4 && bytes.readUInt32LE() === GGUF_MAGIC;
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Reads the head of a GGUF file, version 3, and checks that each tensor lies wholly within the file, begins where the one
 * before ends, and has a type of `GGML_TYPES`.
 *
 * @throws Error with the reason, without the path; the system's error when it cannot be read
 */
export function readGgufFile(path: string): GgufFile {
  const descriptor = openRegularFile(path);
  try {
    return readHead(new Cursor(descriptor, fstatSync(descriptor).size));
  } finally {
    closeSync(descriptor);
  }
}

function readHead(cursor: Cursor): GgufFile {
  if (cursor.bytes < 24 || cursor.uint32() !== GGUF_MAGIC) throw new Error("it is not a GGUF file");
  const version = cursor.uint32();
  if (version !== GGUF_VERSION) throw new Error(`it is of version ${version} of GGUF, not ${GGUF_VERSION}`);
  const tensorCount = cursor.count(MAX_TENSORS, "tensors");
  const valueCount = cursor.count(MAX_VALUES, "values");
  const values = new Map<string, GgufValue>();
  for (let n = 0; n < valueCount; n++) {
    const name = cursor.text();
    // ggml ends the process for such a name.
    if (name === "") throw new Error("it has a value without a name");
    if (values.has(name)) throw new Error(`it has the value ${JSON.stringify(name)} twice`);
    values.set(name, readValue(cursor, cursor.uint32()));
  }
  const alignment = values.get(ALIGNMENT_NAME) ?? GGUF_ALIGNMENT;
  if (alignment !== GGUF_ALIGNMENT)
    throw new Error(
      `its tensors begin at multiples of ${String(alignment).slice(0, 20)}, not ${GGUF_ALIGNMENT}`,
    );
  const heads = Array.from({ length: tensorCount }, () => readTensorHead(cursor));
  const start = ggufAligned(cursor.position);
  const tensors = new Map<string, GgufTensor>();
  let end = start;
  for (const { name, type, shape, offset, bytes } of heads) {
    if (tensors.has(name)) throw new Error(`it has the tensor ${JSON.stringify(name)} twice`);
    const position = start + offset;
    if (position !== ggufAligned(end))
      throw new Error(`its tensor ${JSON.stringify(name)} is not where it must be`);
    end = position + bytes;
    if (end > cursor.bytes) throw new Error("it is truncated");
    tensors.set(name, { type, shape, position, bytes });
  }
  if (ggufAligned(end) < cursor.bytes) throw new Error("it has more after its tensors");
  return { values, tensors };
}

function readValue(cursor: Cursor, type: number): GgufValue {
  switch (type) {
    case GGUF_TYPE.uint32:
      return cursor.uint32();
    case GGUF_TYPE.float32:
      return cursor.float32();
    case GGUF_TYPE.bool:
      return cursor.uint8() !== 0;
    case GGUF_TYPE.string:
      return cursor.text();
    case GGUF_TYPE.array: {
      const of = cursor.uint32();
      const length = cursor.count(MAX_ELEMENTS, "elements of a list");
      if (of === GGUF_TYPE.uint32) return Array.from({ length }, () => cursor.uint32());
      if (of === GGUF_TYPE.string) return Array.from({ length }, () => cursor.text());
      throw new Error(`it has a list of the type ${of}`);
    }
    default:
      throw new Error(`it has a value of the type ${type}`);
  }
}

function readTensorHead(cursor: Cursor) {
  const name = cursor.text();
  const dimensions = cursor.uint32();
  if (dimensions < 1 || dimensions > MAX_DIMENSIONS) throw new Error(`a tensor has ${dimensions} dimensions`);
  const shape = Array.from({ length: dimensions }, () => cursor.count(MAX_SIZE, "values of a row"));
  const type = cursor.uint32();
  const offset = cursor.count(Number.MAX_SAFE_INTEGER, "bytes");
  const block = Object.values(GGML_TYPES).find((one) => one.type === type);
  if (!block)
    throw new Error(`its tensor ${JSON.stringify(name)} has the type ${type}, which is not supported`);
  if ((shape[0] ?? 0) % block.values !== 0)
    throw new Error(`a row of its tensor ${JSON.stringify(name)} is not whole blocks`);
  const elements = shape.reduce((product, size) => product * size, 1);
  return { name, type, shape, offset, bytes: (elements / block.values) * block.bytes };
}

/** Reads a file forwards through a small buffer. */
class Cursor {
  private readonly buffer = Buffer.alloc(BUFFER_BYTES);
  private start = 0;
  private end = 0;
  position = 0;

  constructor(
    private readonly file: number,
    readonly bytes: number,
  ) {}

  uint8 = (): number => this.buffer.readUInt8(this.take(1));
  uint32 = (): number => this.buffer.readUInt32LE(this.take(4));
  float32 = (): number => this.buffer.readFloatLE(this.take(4));

  /** A number of 64 bits that is at most `most`. */
  count(most: number, of: string): number {
    const value = Number(this.buffer.readBigUInt64LE(this.take(8)));
    if (value > most) throw new Error(`it claims ${value} ${of}; at most ${most} are possible`);
    return value;
  }

  text(): string {
    const length = this.count(MAX_TEXT_BYTES, "bytes of a text");
    const at = this.take(length);
    return this.buffer.toString("utf8", at, at + length);
  }

  /** Moves over some bytes and returns their place in the buffer. */
  private take(length: number): number {
    const at = this.position;
    if (length > this.bytes - at) throw new Error("it is truncated");
    this.position += length;
    if (this.position > MAX_HEAD_BYTES) throw new Error(`its head has more than ${MAX_HEAD_BYTES} bytes`);
    if (at < this.start || at + length > this.end) {
      const got = readSync(this.file, this.buffer, 0, BUFFER_BYTES, at);
      if (got < length) throw new Error("it became shorter while it was read");
      this.start = at;
      this.end = at + got;
    }
    return at - this.start;
  }
}
