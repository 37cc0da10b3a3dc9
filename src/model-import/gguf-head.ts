import {
  GGML_TYPES,
  GGUF_MAGIC,
  GGUF_TYPE,
  GGUF_VERSION,
  type GgmlType,
  type GgufValue,
  ggmlBytes,
  ggufAligned,
} from "../lib/gguf-file.ts";

/** A tensor that a file will have. `shape`: the fastest dimension first. */
export type PlannedTensor = { name: string; shape: readonly number[]; type: GgmlType };

/** @returns the bytes of a tensor's values, without what fills up to the next tensor */
export function plannedBytes({ name, shape, type }: PlannedTensor): number {
  const bytes = ggmlBytes(
    type,
    shape.reduce((product, size) => product * size, 1),
  );
  if (bytes === undefined) throw new RangeError(`the tensor ${name} is not whole blocks of ${type}`);
  return bytes;
}

/**
 * Makes the head of a GGUF file (version 3 of ggml's specification), filled up to where the first tensor begins. The tensors
 * follow in their order, each filled up with zeros to a multiple of 32 bytes.
 */
export function ggufHead(
  values: ReadonlyMap<string, GgufValue>,
  tensors: readonly PlannedTensor[],
): Uint8Array {
  let offset = 0;
  const heads = tensors.map((tensor) => {
    const { name, shape, type } = tensor;
    const sizes = [uint32(shape.length), ...shape.map(uint64)];
    const head = [text(name), ...sizes, uint32(GGML_TYPES[type].type), uint64(offset)];
    offset += ggufAligned(plannedBytes(tensor));
    return Buffer.concat(head);
  });
  const entries = [...values].map(([name, value]) => Buffer.concat([text(name), typed(value)]));
  const head = Buffer.concat([
    uint32(GGUF_MAGIC),
    uint32(GGUF_VERSION),
    uint64(tensors.length),
    uint64(values.size),
    ...entries,
    ...heads,
  ]);
  return Buffer.concat([head, Buffer.alloc(ggufAligned(head.length) - head.length)]);
}

function typed(value: GgufValue): Buffer {
  if (typeof value === "string") return Buffer.concat([uint32(GGUF_TYPE.string), text(value)]);
  if (typeof value === "boolean") return Buffer.concat([uint32(GGUF_TYPE.bool), Buffer.of(value ? 1 : 0)]);
  if (typeof value === "number") return Buffer.concat([uint32(GGUF_TYPE.uint32), uint32(value)]);
  const isTexts = typeof value[0] === "string";
  const elements = value.map((element) => (typeof element === "string" ? text(element) : uint32(element)));
  const type = isTexts ? GGUF_TYPE.string : GGUF_TYPE.uint32;
  return Buffer.concat([uint32(GGUF_TYPE.array), uint32(type), uint64(value.length), ...elements]);
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([uint64(bytes.length), bytes]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function uint64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}
