import type { TranscriptionResult, Word } from "../../domain/result.ts";
import { wordBody } from "../../pipeline/render.ts";
import { normalizeForScoring } from "../../pipeline/wer.ts";
import { compareWords } from "../../pipeline/word-differences.ts";
import { CommandError } from "../frame/context.ts";

/** The times of words, as a reference gives them and as a model does. */

/** A word of a reference with its time. */
export type ReferenceWord = { text: string; startMs: number; channel: number };

/** A word that was heard. */
export type HeardWord = Word & { channel?: number | undefined };

/**
 * Reads a reference in CTM: name, channel, start, duration, word, and perhaps a confidence. Lines that begin with `;;` are
 * comments.
 *
 * @param path for messages
 * @throws CommandError with path and line of what cannot be read
 */
export function readCtm(text: string, path: string): ReferenceWord[] {
  const lines = text.split(/\r\n?|\n/).map((line) => line.trim());
  return lines.flatMap((line, index) => {
    if (line === "" || line.startsWith(";;")) return [];
    const [, channel = "", start = "", duration = "", word] = line.split(/\s+/u);
    const [startMs, durationMs] = [Number(start) * 1000, Number(duration) * 1000];
    if (word === undefined || !isTime(startMs) || !isTime(durationMs))
      throw new CommandError(
        "failed",
        `${path}: line ${index + 1} is not a name, a channel, a start, a duration and a word`,
      );
    return [{ text: word, startMs, channel: channelOf(channel) }];
  });
}

const isTime = (ms: number): boolean => Number.isFinite(ms) && ms >= 0;

/** Channels are counted from 1, or are letters. */
const channelOf = (name: string): number =>
  /^\d+$/.test(name) ? Math.max(0, Number(name) - 1) : Math.max(0, name.toUpperCase().charCodeAt(0) - 65);

/** Lists the words of a result, one channel after the other. */
export function heardWords({ segments }: Pick<TranscriptionResult, "segments">): HeardWord[] {
  return segments
    .toSorted((a, b) => (a.channel ?? 0) - (b.channel ?? 0) || a.startMs - b.startMs)
    .flatMap(({ words = [], channel }) => words.map((word) => ({ ...word, channel })));
}

/** Writes the words of a recording as the result has them on the wire. */
export const wordTimesJson = (words: readonly HeardWord[]) =>
  words.map(({ channel, ...word }) => ({
    ...wordBody(word),
    ...(channel === undefined ? {} : { channel }),
  }));

/**
 * Compares the starts of words that were said and heard alike.
 *
 * @returns for each such word how much later it was heard than said, milliseconds; undefined where the texts are too long
 */
export function startErrors(
  said: readonly ReferenceWord[],
  heard: readonly HeardWord[],
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

/** Writes what `startFigures` has found; null where there is nothing. */
export const startJson = (figures: StartFigures | undefined) =>
  figures
    ? {
        words: figures.words,
        median_ms: Math.round(figures.medianMs),
        p95_ms: Math.round(figures.p95Ms),
        bias_ms: Math.round(figures.biasMs),
      }
    : null;
