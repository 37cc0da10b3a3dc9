import { expect, test } from "bun:test";
import type { Segment } from "./rows.ts";
import { shownWords, wordAt } from "./timed-words.ts";

const word = (text: string, start: number, end: number, confidence = 0.9) => ({
  text,
  start,
  end,
  confidence,
});
const SEGMENT: Segment = {
  ...{ index: 0, text: "बार बार कहा था।", language: "hi", confidence: 0.9, start: 1, end: 3 },
  words: [word("बार", 1, 1.3), word("बार", 1.4, 1.7, 0.3), word("कहा", 2, 2.4), word("था।", 2.4, 2.9)],
};
const said = (text: string, segment = SEGMENT) =>
  shownWords(segment, text).map(({ from, to, start, end }) => `${text.slice(from, to)} ${start}-${end}`);

type Row = [what: string, text: string, expected: string[]];
const ROWS: Row[] = [
  ["the text as it was recognized", SEGMENT.text, ["बार 1-1.3", "बार 1.4-1.7", "कहा 2-2.4", "था। 2.4-2.9"]],
  ["a corrected word", "बार बार सुना था।", ["बार 1-1.3", "बार 1.4-1.7", "सुना 2-2.4", "था। 2.4-2.9"]],
  ["a word that is left out", "बार बार था।", ["बार 1-1.3", "बार 1.4-1.7", "था। 2.4-2.9"]],
  [
    "a line end and more spaces",
    "बार बार\n कहा  था।",
    ["बार 1-1.3", "बार 1.4-1.7", "कहा 2-2.4", "था। 2.4-2.9"],
  ],
  ["nothing", "", []],
];

test.each(ROWS)("words of a text keep their times: %s", (_what, text, expected) => {
  expect(said(text)).toEqual(expected);
});

test("a segment without words or too short for a correction has none", () => {
  const { words: _, ...without } = SEGMENT;
  expect(said(SEGMENT.text, without)).toEqual([]);
  const short = { ...SEGMENT, start: 1, end: 1.003, text: "एक", words: [word("एक", 1, 1.003)] };
  expect(said("एक दो तीन चार", short)).toEqual([]);
});

test("the word that is heard is the last one that has begun, and none before and after", () => {
  const words = shownWords(SEGMENT, SEGMENT.text);
  expect([0.5, 1, 1.35, 1.4, 2.39, 2.4, 2.95].map((seconds) => wordAt(words, seconds))).toEqual([
    -1, 0, 0, 1, 2, 3, -1,
  ]);
  expect(wordAt([], 1)).toBe(-1);
});
