/**
 * Returns how many bytes of a character are missing at the end of a text in UTF-8, of which a part comes after another.
 *
 * @param missing at the end of the part before
 */
export function missingBytes(bytes: Uint8Array, missing: number): number {
  let left = missing;
  for (const byte of bytes) {
    const continues = left > 0 && (byte & 0xc0) === 0x80;
    left = continues ? left - 1 : continuationBytes(byte);
  }
  return left;
}

/** Returns the number of bytes that follow the first byte of a character (RFC 3629 section 3). */
function continuationBytes(first: number): number {
  if (first >= 0xf0) return 3;
  if (first >= 0xe0) return 2;
  return first >= 0xc0 ? 1 : 0;
}

/**
 * Computes the confidence of a text: the mean probability of its units. A unit is a token, or several tokens that spell
 * one character together, whose probabilities are multiplied. Characters of Indian scripts have three bytes, often in
 * two or three tokens, and the later bytes are nearly certain once the first is chosen. Counted one by one, they would
 * give text in those scripts a higher confidence than the same text in Latin letters.
 *
 * @param probabilities probability of each token, 0 to 1
 * @param bytes UTF-8 of the tokens, joined
 * @param ends the position after the last byte of each token
 * @returns 0 to 1; 0 without tokens
 */
export function meanProbability(
  probabilities: ArrayLike<number>,
  bytes: Uint8Array,
  ends: ArrayLike<number>,
): number {
  let sum = 0;
  let units = 0;
  let product = 1;
  let missing = 0;
  let at = 0;
  for (let token = 0; token < probabilities.length; token++) {
    product *= probabilities[token] ?? 0;
    const end = ends[token] ?? at;
    missing = missingBytes(bytes.subarray(at, end), missing);
    at = end;
    if (missing > 0 && token < probabilities.length - 1) continue;
    sum += product;
    units++;
    product = 1;
  }
  return units === 0 ? 0 : sum / units;
}
