import { compareWords } from "./word-differences.ts";

/** Words of segments whose confidence is at least `from` and less than `to`, and how many of them were said. */
export type ConfidenceRange = { from: number; to: number; words: number; right: number };

const RANGES = 10;

/** Returns the ranges of confidence, from 0 to 1, without words. */
export function emptyRanges(): ConfidenceRange[] {
  return Array.from({ length: RANGES }, (_, n) => ({
    ...{ from: n / RANGES, to: (n + 1) / RANGES },
    ...{ words: 0, right: 0 },
  }));
}

/**
 * Counts how many words of segments are right by the confidence of their segment, so that one can see what it promises
 * (a reliability diagram: DeGroot and Fienberg 1983). Words that were said and not heard are in no segment.
 *
 * @param said the words that were said, normalized as for scoring
 * @param segments in the order of `said`, their texts normalized in the same way
 * @returns undefined where the texts are too long to compare
 */
export function reliabilityOf(
  said: string,
  segments: readonly { text: string; confidence: number }[],
): ConfidenceRange[] | undefined {
  const words = segments.flatMap(({ text, confidence }) =>
    text === "" ? [] : text.split(" ").map((word) => ({ word, confidence })),
  );
  const compared = compareWords(said, words.map(({ word }) => word).join(" "));
  if (!compared) return undefined;
  const ranges = emptyRanges();
  const heard = compared.filter((pair) => pair.heard !== undefined);
  for (const [at, pair] of heard.entries()) {
    const { confidence = 0 } = words[at] ?? {};
    const range = ranges[Math.min(RANGES - 1, Math.floor(confidence * RANGES))];
    if (!range) continue;
    range.words++;
    if (pair.said === pair.heard) range.right++;
  }
  return ranges;
}

/** Adds the words of several recordings. */
export function sumRanges(all: readonly (readonly ConfidenceRange[])[]): ConfidenceRange[] {
  return emptyRanges().map((range, n) => ({
    ...range,
    words: all.reduce((sum, ranges) => sum + (ranges[n]?.words ?? 0), 0),
    right: all.reduce((sum, ranges) => sum + (ranges[n]?.right ?? 0), 0),
  }));
}
