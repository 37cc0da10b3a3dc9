/** Rewrites a text before it is divided into pieces, such as full-width letters into usual ones. */
export type CharacterMap = (text: string) => string;

/** Fields of a unit of a double-array trie (Darts-clone), which `unit` and `offsetOf` read. */
const VALUE_BIT = 0x8000_0000;
const LABEL_BITS = VALUE_BIT | 0xff;
const MAX_DEPTH = 256;
/** Texts that replace others have up to some 30 bytes. Without a bound a damaged map makes words of any size. */
const MAX_TEXT_BYTES = 256;

/**
 * Opens the `precompiled_charsmap` of a SentencePiece model: the size of a double-array trie over UTF-8, the trie, and the texts
 * to which its values point, each ended by a zero byte. At each place the longest text that the trie knows is replaced.
 *
 * @param bytes empty: nothing is rewritten
 * @throws Error with `reason` when the bytes have another form
 */
export function openCharacterMap(bytes: Uint8Array, reason: string): CharacterMap {
  if (bytes.length === 0) return (text) => text;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const trieBytes = bytes.length < 4 ? 0 : view.getUint32(0, true);
  if (trieBytes === 0 || trieBytes % 4 !== 0 || 4 + trieBytes > bytes.length) throw new Error(reason);
  const trie = new Uint32Array(Uint8Array.from(bytes.subarray(4, 4 + trieBytes)).buffer);
  const texts = bytes.subarray(4 + trieBytes);
  return (text) => {
    const source = new TextEncoder().encode(text);
    const parts: Uint8Array[] = [];
    for (let at = 0; at < source.length; ) {
      const found = longestMatch(trie, source, at);
      const length = found?.length ?? characterBytes(source[at] as number);
      parts.push(found ? textAt(texts, found.value) : source.subarray(at, at + length));
      at += length;
    }
    return new TextDecoder().decode(Buffer.concat(parts));
  };
}

/** Finds the longest text of the trie that begins at a place. */
function longestMatch(
  trie: Uint32Array,
  source: Uint8Array,
  at: number,
): { length: number; value: number } | undefined {
  let found: { length: number; value: number } | undefined;
  let place = offsetOf(trie[0] ?? 0);
  for (let length = 1; length <= MAX_DEPTH && at + length <= source.length; length++) {
    const byte = source[at + length - 1] as number;
    place ^= byte;
    const unit = trie[place] ?? 0;
    if ((unit & LABEL_BITS) >>> 0 !== byte) break;
    place ^= offsetOf(unit);
    if (((unit >>> 8) & 1) === 1) found = { length, value: ((trie[place] ?? 0) & ~VALUE_BIT) >>> 0 };
  }
  return found;
}

function offsetOf(unit: number): number {
  return (unit >>> 10) << ((unit & 0x200) >>> 6);
}

function textAt(texts: Uint8Array, from: number): Uint8Array {
  const text = texts.subarray(from, from + MAX_TEXT_BYTES);
  const end = text.indexOf(0);
  return end === -1 ? text : text.subarray(0, end);
}

function characterBytes(first: number): number {
  if (first < 0x80) return 1;
  if (first < 0xe0) return 2;
  return first < 0xf0 ? 3 : 4;
}
