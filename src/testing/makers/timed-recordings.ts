import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Word } from "../../domain/result.ts";
import { compareWords } from "../../pipeline/word-differences.ts";

const HEAD_BYTES = 44;

/** A recording and when each of its words is spoken. Its PCM is 16 kHz mono. */
export type TimedRecording = { name: string; language: string; pcm: Int16Array; words: SpokenWord[] };
/** Milliseconds of the recording. */
type SpokenWord = { text: string; startMs: number; endMs: number };

/** Reads a folder that `scripts/models/tiny-ctc/timed.py` has made. */
export function readTimedRecordings(folder: string): TimedRecording[] {
  const lines = readFileSync(join(folder, "times.tsv"), "utf8").trim().split("\n");
  return lines.map((line) => {
    const [name = "", language = "", ...fields] = line.split("\t");
    const bytes = new Uint8Array(readFileSync(join(folder, name)).subarray(HEAD_BYTES));
    const words = fields.map((field) => {
      const [text = "", startMs, endMs] = field.split(" ");
      return { text, startMs: Number(startMs), endMs: Number(endMs) };
    });
    return { name, language, pcm: new Int16Array(bytes.buffer), words };
  });
}

/** Returns by how much the times of the words that were heard right are late, milliseconds. */
export function wordErrors(
  said: readonly SpokenWord[],
  heard: readonly Word[],
): { startMs: number; endMs: number }[] {
  const textOf = (words: readonly { text: string }[]) => words.map(({ text }) => text).join(" ");
  const errors: { startMs: number; endMs: number }[] = [];
  let [spoken, found] = [0, 0];
  for (const pair of compareWords(textOf(said), textOf(heard)) ?? []) {
    const [one, other] = [said[spoken], heard[found]];
    if (pair.said !== undefined) spoken++;
    if (pair.heard !== undefined) found++;
    if (!one || !other || pair.said !== pair.heard) continue;
    errors.push({ startMs: other.startMs - one.startMs, endMs: other.endMs - one.endMs });
  }
  return errors;
}

/** Returns the value below which a share of the values is. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}
