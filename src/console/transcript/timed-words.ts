import type { Word } from "../../domain/result.ts";
import { wordSpans } from "../../lib/word-spans.ts";
import { carryWords, fitWords } from "../../pipeline/timed-words.ts";
import type { Segment } from "./rows.ts";

/** A word of a text as it is shown: the characters from `from` up to `to`, and when it is heard, in seconds. */
export type ShownWord = { from: number; to: number; start: number; end: number; confidence: number };

type WireWord = NonNullable<Segment["words"]>[number];

/** Turns a word of the wire into one of the pipeline. */
export const timedWord = ({ start, end, ...word }: WireWord): Word => ({
  ...word,
  startMs: Math.round(start * 1000),
  endMs: Math.round(end * 1000),
});

/**
 * Gives the words of a corrected text their times: a word that was not touched keeps its own, and new ones have those of the words
 * that they replace.
 *
 * @returns undefined where the segment has no words with times, is too short for the words, or the texts are too different
 */
export function wordsOfText(segment: Segment, text: string): Word[] | undefined {
  const words = segment.words?.map(timedWord);
  const { start, end } = segment;
  if (!words || text === segment.text || start === undefined || end === undefined) return words;
  return fitWords(carryWords(words, text), {
    startMs: Math.round(start * 1000),
    endMs: Math.round(end * 1000),
  });
}

/** Finds the words of a text that have times; none: the segment has no words with times. */
export function shownWords(segment: Segment, text: string): ShownWord[] {
  const words = wordsOfText(segment, text);
  const spans = wordSpans(text);
  if (!words || words.length !== spans.length) return [];
  return spans.map(({ from, to }, index) => {
    const { startMs = 0, endMs = 0, confidence = 1 } = words[index] ?? {};
    return { from, to, start: startMs / 1000, end: endMs / 1000, confidence };
  });
}

/** Returns the index of the word that is heard at a time: the last one that has begun; -1 before the first and after the end. */
export function wordAt(words: readonly ShownWord[], seconds: number): number {
  const last = words.at(-1);
  if (!last || seconds >= last.end) return -1;
  return words.findLastIndex(({ start }) => start <= seconds + 0.001);
}
