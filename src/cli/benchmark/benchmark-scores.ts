import type { TranscriptionResult } from "../../domain/result.ts";
import { errorInterval, type Interval } from "../../pipeline/bootstrap.ts";
import { type ConfidenceRange, reliabilityOf, sumRanges } from "../../pipeline/reliability.ts";
import {
  characterErrors,
  type ErrorRate,
  normalizeForScoring,
  sumErrors,
  wordErrors,
} from "../../pipeline/wer.ts";
import { type ComparedWord, compareWords } from "../../pipeline/word-differences.ts";
import { type HeardWord, type StartFigures, startErrors, startFigures } from "../../pipeline/word-starts.ts";
import type { BenchmarkFile } from "./benchmark-files.ts";
import { heardWords, startJson, wordTimesJson } from "./word-times.ts";

/** The score of one recording. */
export type Scored = {
  file: string;
  audioSeconds: number;
  elapsedSeconds: number;
  words: ErrorRate | undefined;
  characters: ErrorRate | undefined;
  warnings: readonly string[];
  /** The words of reference and transcript side by side; undefined where they are too many. */
  compared: ComparedWord[] | undefined;
  /** The words that were heard, by confidence; undefined where they are too many. */
  reliability: ConfidenceRange[] | undefined;
  /** The path of the recording. */
  path: string;
  /** The words with their times, where these were asked for. */
  heard?: HeardWord[];
  /** How much later words were heard than said, milliseconds, where the reference has times. */
  startErrors?: number[];
};
export type Failed = { file: string; error: string };

/** What a model did with all recordings. */
export type ModelScore = {
  model: string;
  version: string;
  device: string;
  /** Most memory of the engine's processes, bytes; 0 where the system does not say. */
  memoryBytes: number;
  scored: Scored[];
  failed: Failed[];
};

/** @param isWordTimed the words of the result were asked for with their times */
export function score(
  file: BenchmarkFile,
  result: TranscriptionResult,
  { language, isWordTimed }: { language: string; isWordTimed: boolean },
): Omit<Scored, "elapsedSeconds"> {
  // In the order of the reference: one channel after the other.
  const segments = result.segments.toSorted(
    (a, b) => (a.channel ?? 0) - (b.channel ?? 0) || a.startMs - b.startMs,
  );
  const normalized = segments.map(({ text, confidence }) => ({
    text: normalizeForScoring(text, language),
    confidence,
  }));
  const heard = normalizeForScoring(segments.map(({ text }) => text).join(" "), language);
  const said = normalizeForScoring(file.transcript, language);
  return {
    ...{ file: file.name, path: file.path },
    audioSeconds: result.durationMs / 1000,
    words: wordErrors(said, heard),
    characters: characterErrors(said, heard),
    warnings: result.warnings,
    compared: compareWords(said, heard),
    reliability: reliabilityOf(said, normalized),
    ...(isWordTimed ? timesOf(file, result, language) : {}),
  };
}

function timesOf({ words }: BenchmarkFile, result: TranscriptionResult, language: string) {
  const heard = heardWords(result);
  const errors = words && startErrors(words, heard, language);
  return { heard, ...(errors ? { startErrors: errors } : {}) };
}

/** Says how exact the starts of all words are; undefined where no reference has times. */
export const startsOfAll = (scored: readonly Pick<Scored, "startErrors">[]): StartFigures | undefined =>
  startFigures(scored.flatMap(({ startErrors: errors = [] }) => errors));

/** The JSON of the times of a recording's words, where they were asked for. */
export const timesJson = ({ heard, startErrors: errors }: Pick<Scored, "heard" | "startErrors">) =>
  heard
    ? {
        word_times: wordTimesJson(heard),
        ...(errors ? { start_errors: startJson(startFigures(errors)) } : {}),
      }
    : {};

/** The JSON of the starts of all words, where references have times. */
export function startsJson(scored: readonly Scored[]) {
  const figures = startsOfAll(scored);
  return figures ? { start_errors: startJson(figures) } : {};
}

export type Figures = Pick<Scored, "audioSeconds" | "elapsedSeconds" | "words" | "characters">;

export function totalOf(scored: readonly Scored[]): Figures & { words: ErrorRate; characters: ErrorRate } {
  const audioSeconds = scored.reduce((sum, file) => sum + file.audioSeconds, 0);
  const elapsedSeconds = scored.reduce((sum, file) => sum + file.elapsedSeconds, 0);
  const words = scored.map((file) => file.words).filter((rate) => rate !== undefined);
  const characters = scored.map((file) => file.characters).filter((rate) => rate !== undefined);
  return { audioSeconds, elapsedSeconds, words: sumErrors(words), characters: sumErrors(characters) };
}

/** Returns how right the words of a model were by their confidence, ranges without words left out. */
export function reliabilityJson(scored: readonly Scored[]): ConfidenceRange[] {
  const measured = scored.map(({ reliability }) => reliability).filter((ranges) => ranges !== undefined);
  return sumRanges(measured).filter(({ words }) => words > 0);
}

/** Counts the recordings that have each warning. */
export function warningCounts(scored: readonly Scored[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const warning of scored.flatMap(({ warnings }) => warnings))
    counts[warning] = (counts[warning] ?? 0) + 1;
  return counts;
}

/** Returns the 95 % interval of an error rate over the recordings. */
export function intervalOf(scored: readonly Scored[], unit: "words" | "characters"): Interval | undefined {
  return errorInterval(
    scored
      .map((file) => file[unit])
      .filter((rate) => rate !== undefined)
      .map(({ total, substitutions, deletions, insertions }) => ({
        total,
        errors: substitutions + deletions + insertions,
      })),
  );
}

export function figuresOf({ audioSeconds, elapsedSeconds, words, characters }: Figures) {
  return {
    audio_seconds: rounded(audioSeconds, 3),
    elapsed_seconds: rounded(elapsedSeconds, 3),
    times_real_time: rounded(audioSeconds / Math.max(elapsedSeconds, 1e-9), 2),
    words: countsOf(words),
    characters: countsOf(characters),
  };
}

/** Renders error rates; null when the texts are too long to be compared. */
function countsOf(rate: ErrorRate | undefined) {
  if (!rate) return null;
  const { total, substitutions, deletions, insertions } = rate;
  return {
    total,
    substitutions,
    deletions,
    insertions,
    error_rate: rate.rate === undefined ? null : rounded(rate.rate, 5),
  };
}

export function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}

/** Renders an interval as two shares. */
export function intervalJson(interval: Interval | undefined): [number, number] | null {
  return interval ? [rounded(interval.low, 5), rounded(interval.high, 5)] : null;
}

/** Renders a share in per cent with its interval, such as `12.3 (10.1–14.9)`. */
export function percentText(rate: ErrorRate, interval: Interval | undefined): string {
  if (rate.rate === undefined) return "–";
  const percent = (share: number) => (share * 100).toFixed(1);
  return percent(rate.rate) + (interval ? ` (${percent(interval.low)}–${percent(interval.high)})` : "");
}
