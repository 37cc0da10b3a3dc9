import { SENTENCE_ENDS } from "./sentence-ends.ts";

const SENTENCE_END = new RegExp(`[${SENTENCE_ENDS}…]["”’)]?$`, "u");
/** A boundary after a sentence is preferred as if it were this much nearer, as a share of the text. */
const SENTENCE_PULL = 0.15;

/**
 * Divides a text at word boundaries so that the lengths of the parts are in proportion to their weights. This is the best
 * estimate where words have no times. A boundary after a sentence is preferred to one that is a little nearer.
 *
 * @param weights one for each part, above 0, such as milliseconds of speech
 * @returns as many texts as weights; the last ones are empty when there are fewer words than parts
 */
export function divideText(text: string, weights: readonly number[]): string[] {
  const words = text.split(/\s+/u).filter((word) => word !== "");
  if (words.length < weights.length) return weights.map((_, index) => words[index] ?? "");
  const ends: number[] = [];
  for (const word of words) ends.push((ends.at(-1) ?? 0) + word.length);
  const letters = ends.at(-1) ?? 0;
  const whole = weights.reduce((sum, weight) => sum + weight, 0);
  const parts: string[] = [];
  let from = 0;
  let weightSoFar = 0;
  for (const [index, weight] of weights.entries()) {
    weightSoFar += weight;
    const partsLeft = weights.length - index - 1;
    const to =
      partsLeft === 0
        ? words.length
        : nearestBoundary(words, ends, from + 1, words.length - partsLeft, (letters * weightSoFar) / whole);
    parts.push(words.slice(from, to).join(" "));
    from = to;
  }
  return parts;
}

/** Finds the boundary nearest to `target` letters. Returns the number of words before it, from `fewest` to `most`. */
function nearestBoundary(
  words: readonly string[],
  ends: readonly number[],
  fewest: number,
  most: number,
  target: number,
): number {
  const pull = SENTENCE_PULL * (ends.at(-1) ?? 0);
  let best = fewest;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (let count = fewest; count <= most; count++) {
    const endsSentence = SENTENCE_END.test(words[count - 1] ?? "");
    const distance = Math.abs((ends[count - 1] ?? 0) - target) - (endsSentence ? pull : 0);
    if (distance < bestDistance) {
      best = count;
      bestDistance = distance;
    }
  }
  return best;
}
