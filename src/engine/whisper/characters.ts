/** The last code point of Unicode. */
const LAST = 0x10ffff;
/** Surrogates are no characters. */
const SURROGATES = { first: 0xd800, last: 0xdfff };
const MAX_KNOWN = 16;
const known = new Map<string, Int32Array>();

/**
 * Returns all characters that a pattern does not match, as ranges: first and last code point of each, in order. The last
 * few patterns are remembered, because all code points are tried for each (about 50 ms).
 *
 * @param pattern a JavaScript pattern (flag u) of one character
 * @throws SyntaxError for a pattern that is none
 */
export function charactersWithout(pattern: string): Int32Array {
  const remembered = known.get(pattern);
  if (remembered !== undefined) return remembered;
  const expression = new RegExp(`^(?:${pattern})$`, "u");
  const isAllowed = (point: number) =>
    (point < SURROGATES.first || point > SURROGATES.last) && !expression.test(String.fromCodePoint(point));
  const bounds: number[] = [];
  for (let point = 0, wasAllowed = false; point <= LAST + 1; point++) {
    const allowed = point <= LAST && isAllowed(point);
    if (allowed !== wasAllowed) bounds.push(allowed ? point : point - 1);
    wasAllowed = allowed;
  }
  if (known.size >= MAX_KNOWN) known.clear();
  const ranges = Int32Array.from(bounds);
  known.set(pattern, ranges);
  return ranges;
}
