import type { TranscriptionResult } from "../../domain/result.ts";
import { wordBody } from "../../pipeline/render.ts";
import type { HeardWord, ReferenceWord, StartFigures } from "../../pipeline/word-starts.ts";
import { CommandError } from "../frame/context.ts";

/** The times of words, as a reference gives them and as a model does. */

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
