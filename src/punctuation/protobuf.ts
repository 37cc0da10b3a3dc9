/** A field of a protobuf message: a number, or the bytes of a text or of an inner message. */
type Field = { number: number; value: number; bytes: Uint8Array };

const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;

/**
 * Visits the fields of a protobuf message that is in memory. Numbers of 32 bits come as their bytes.
 *
 * @throws Error with `reason` when the bytes are no such message
 */
export function visitFields(message: Uint8Array, reason: string, visit: (field: Field) => void): void {
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let index = 0; index < 10; index++) {
      const byte = message[at++];
      if (byte === undefined) break;
      value += (byte & 0x7f) * 2 ** (7 * index);
      if (byte < 0x80) return value;
    }
    throw new Error(reason);
  };
  const take = (length: number): Uint8Array => {
    if (at + length > message.length) throw new Error(reason);
    at += length;
    return message.subarray(at - length, at);
  };
  const none = new Uint8Array();
  while (at < message.length) {
    const tag = varint();
    const number = Math.floor(tag / 8);
    const wireType = tag % 8;
    if (number === 0) throw new Error(reason);
    if (wireType === VARINT) visit({ number, value: varint(), bytes: none });
    else if (wireType === FIXED32) visit({ number, value: 0, bytes: take(4) });
    else if (wireType === FIXED64) visit({ number, value: 0, bytes: take(8) });
    else if (wireType === LENGTH_DELIMITED) visit({ number, value: 0, bytes: take(varint()) });
    else throw new Error(reason);
  }
}

/** Reads a number of 32 bits with a point. */
export function floatOf(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getFloat32(0, true);
}
