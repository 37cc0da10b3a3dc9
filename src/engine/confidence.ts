/** Bytes that still belong to a character after its first byte (RFC 3629 section 3). */
function continuationBytes(first: number): number {
  if (first >= 0xf0) return 3;
  if (first >= 0xe0) return 2;
  return first >= 0xc0 ? 1 : 0;
}

/**
 * How sure the decoder was of a text: the mean probability of its pieces. A piece is a token, or the tokens that
 * spell one character between them, whose probabilities are multiplied: letters of India are three bytes, often in two
 * or three tokens, and the later bytes are near certain once the first is chosen. Counted one by one they would
 * make any text in those scripts look surer than the same text in Latin letters.
 *
 * @param probabilities of the tokens, 0 to 1
 * @param bytes the tokens' UTF-8, joined
 * @param ends where each token's bytes end
 * @returns 0 to 1; 0 without tokens
 */
export function meanProbability(
  probabilities: ArrayLike<number>,
  bytes: Uint8Array,
  ends: ArrayLike<number>,
): number {
  let sum = 0;
  let pieces = 0;
  let product = 1;
  let missing = 0;
  let at = 0;
  for (let token = 0; token < probabilities.length; token++) {
    product *= probabilities[token] ?? 0;
    for (const end = ends[token] ?? at; at < end; at++) {
      const byte = bytes[at] ?? 0;
      const continues = missing > 0 && (byte & 0xc0) === 0x80;
      missing = continues ? missing - 1 : continuationBytes(byte);
    }
    if (missing > 0 && token < probabilities.length - 1) continue;
    sum += product;
    pieces++;
    product = 1;
  }
  return pieces === 0 ? 0 : sum / pieces;
}
