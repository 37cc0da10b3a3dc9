import { expect } from "bun:test";
import type { Segment, Word } from "../../domain/result.ts";

/** Makes words of 80 ms, each 100 ms after the one before. */
export function timedWords(text: string, fromMs = 0): Word[] {
  return text
    .split(/\s+/u)
    .filter((word) => word !== "")
    .map((word, index) => ({
      text: word,
      startMs: fromMs + 100 * index,
      endMs: fromMs + 100 * index + 80,
      confidence: 0.9,
    }));
}

/** Writes words as `text@start-end`. */
export function wordLines(words: readonly Word[] | undefined): string[] | undefined {
  return words?.map(({ text, startMs, endMs }) => `${text}@${startMs}-${endMs}`);
}

/** A script that is written without spaces between words. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

/** Expects words that are those of the segment's text, with times that rise within the segment. */
export function expectWordsOf({ text, words, startMs, endMs }: Omit<Segment, "index">): void {
  if (!words) throw new Error(`no words: ${text}`);
  expect(words.map((word) => word.text).join("")).toBe(text.replace(/\s+/gu, ""));
  if (!UNSPACED.test(text)) expect(words.map((word) => word.text)).toEqual(text.split(/\s+/u));
  let atMs = startMs;
  for (const word of words) {
    expect(word.text).toMatch(/^\S+$/u);
    expect(word.confidence).toBeWithin(0, 1.000001);
    for (const ms of [word.startMs, word.endMs]) expect(Number.isInteger(ms)).toBe(true);
    expect(word.startMs).toBeGreaterThanOrEqual(atMs);
    expect(word.endMs).toBeGreaterThan(word.startMs);
    atMs = word.endMs;
  }
  expect(atMs).toBeLessThanOrEqual(endMs);
}
