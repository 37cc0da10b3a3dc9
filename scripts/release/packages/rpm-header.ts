/** Headers of rpm packages, version 4: an index of numbered values, and the values behind it. */

/** Kinds of values that are written here, with their numbers in the format. */
const TYPE = { int16: 3, int32: 4, text: 6, bytes: 7, texts: 8, translated: 9 } as const;

/** A value with its tag: the number under which rpm looks for it. */
export type Tagged = {
  tag: number;
  type: keyof typeof TYPE;
  value: string | Uint8Array | readonly number[] | readonly string[];
};

const MAGIC = Buffer.from([0x8e, 0xad, 0xe8, 0x01, 0, 0, 0, 0]);
const ENTRY_BYTES = 16;
const ALIGNED: Partial<Record<keyof typeof TYPE, number>> = { int16: 2, int32: 4 };

/**
 * Returns the bytes of a header.
 *
 * @param region tag of the entry that covers all others, as rpm checks it: 62 for signatures, 63 for the main header
 */
export function renderHeader(region: number, values: readonly Tagged[]): Buffer {
  const sorted = [...values].sort((a, b) => a.tag - b.tag);
  const data: Buffer[] = [];
  let length = 0;
  const add = (bytes: Buffer): void => {
    data.push(bytes);
    length += bytes.length;
  };
  const entries = sorted.map((each) => {
    const unit = ALIGNED[each.type] ?? 1;
    add(Buffer.alloc((unit - (length % unit)) % unit));
    const { bytes, count } = encode(each);
    const entry = entryOf(each.tag, TYPE[each.type], length, count);
    add(bytes);
    return entry;
  });
  const count = entries.length + 1;
  const regionEntry = entryOf(region, TYPE.bytes, length, ENTRY_BYTES);
  // The end of the region says, by a negative number, how far its index goes back.
  add(entryOf(region, TYPE.bytes, -count * ENTRY_BYTES, ENTRY_BYTES));
  const lengths = Buffer.alloc(8);
  lengths.writeUInt32BE(count, 0);
  lengths.writeUInt32BE(length, 4);
  return Buffer.concat([MAGIC, lengths, regionEntry, ...entries, ...data]);
}

function entryOf(tag: number, type: number, offset: number, count: number): Buffer {
  const entry = Buffer.alloc(ENTRY_BYTES);
  entry.writeUInt32BE(tag, 0);
  entry.writeUInt32BE(type, 4);
  entry.writeInt32BE(offset, 8);
  entry.writeUInt32BE(count, 12);
  return entry;
}

function encode({ tag, type, value }: Tagged): { bytes: Buffer; count: number } {
  if (type === "bytes") return { bytes: Buffer.from(value as Uint8Array), count: value.length };
  if (type === "int16" || type === "int32") {
    const unit = ALIGNED[type] ?? 1;
    const numbers = value as readonly number[];
    const bytes = Buffer.alloc(numbers.length * unit);
    // The lowest bits of a number are written: those of -1 are all set.
    for (const [at, number] of numbers.entries()) bytes.writeUIntBE(number >>> 0, at * unit, unit);
    return { bytes, count: numbers.length };
  }
  const texts = typeof value === "string" ? [value] : (value as readonly string[]);
  if (texts.length === 0) throw new Error(`the tag ${tag} of an rpm has no text`);
  return { bytes: Buffer.from(texts.map((text) => `${text}\0`).join("")), count: texts.length };
}
