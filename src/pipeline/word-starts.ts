import type { Word } from "../domain/result.ts";
import { normalizeForScoring } from "./wer.ts";
import { compareWords } from "./word-differences.ts";

/** How far the starts of words that a model gives are from those that are known. */

/** A word of a reference with its time. */
export type ReferenceWord = { text: string; startMs: number; channel: number };

/** A word that was heard. */
export type HeardWord = Word & { channel?: number | undefined };

/**
 * Compares the starts of words that were said and heard alike.
 *
 * @returns for each such word how much later it was heard than said, milliseconds; undefined where the texts are too long
 */
export function startErrors(
  said: readonly ReferenceWord[],
  heard: readonly Omit<HeardWord, "endMs" | "confidence">[],
  language: string,
): number[] | undefined {
  const isByChannel = heard.some(({ channel }) => channel !== undefined);
  const ordered = said.toSorted((a, b) => (isByChannel ? a.channel - b.channel : 0) || a.startMs - b.startMs);
  const [reference, found] = [startsOf(ordered, language), startsOf(heard, language)];
  const textOf = (words: readonly TimedText[]) => words.map(({ text }) => text).join(" ");
  const compared = compareWords(textOf(reference), textOf(found));
  if (!compared) return undefined;
  const errors: number[] = [];
  let [atSaid, atHeard] = [0, 0];
  for (const pair of compared) {
    const one = pair.said === undefined ? undefined : reference[atSaid++];
    const other = pair.heard === undefined ? undefined : found[atHeard++];
    if (one?.startMs === undefined || other?.startMs === undefined || pair.said !== pair.heard) continue;
    errors.push(other.startMs - one.startMs);
  }
  return errors;
}

/** A word in the form in which words are compared. Of one that becomes several, the first has the time. */
type TimedText = { text: string; startMs: number | undefined };

function startsOf(words: readonly { text: string; startMs: number }[], language: string): TimedText[] {
  return words.flatMap(({ text, startMs }) =>
    normalizeForScoring(text, language)
      .split(" ")
      .filter((each) => each !== "")
      .map((each, index) => ({ text: each, startMs: index === 0 ? startMs : undefined })),
  );
}

/** How exact the starts of words are. */
export type StartFigures = {
  words: number;
  /** Median of the distances, milliseconds. */
  medianMs: number;
  /** 95 of 100 words are at most so far away, milliseconds. */
  p95Ms: number;
  /** Median of the differences, above 0 where words are heard late, milliseconds. */
  biasMs: number;
};

/** Sums up differences of starts; undefined where there are none. */
export function startFigures(errors: readonly number[]): StartFigures | undefined {
  if (errors.length === 0) return undefined;
  const distances = errors.map(Math.abs).sort((a, b) => a - b);
  const sorted = errors.toSorted((a, b) => a - b);
  return {
    words: errors.length,
    medianMs: shareOf(distances, 0.5),
    p95Ms: shareOf(distances, 0.95),
    biasMs: shareOf(sorted, 0.5),
  };
}

/** Returns the smallest value that so much of the values do not exceed (nearest rank). */
const shareOf = (sorted: readonly number[], share: number): number =>
  sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
