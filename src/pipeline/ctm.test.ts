import { expect, test } from "bun:test";
import type { Segment, Word } from "../domain/result.ts";
import { ctmPieces } from "./ctm.ts";

const word = (text: string, startMs: number, endMs: number): Word => ({
  ...{ text, startMs, endMs, confidence: 0.87654 },
});
const segment = (words: Word[] | undefined, text: string, more: Partial<Segment> = {}): Segment => ({
  ...{ index: 0, startMs: 500, endMs: 2_000, text, language: "hi", confidence: 0.9 },
  ...(words ? { words } : {}),
  ...more,
});
const ctm = (segments: Segment[], name?: string) => [...ctmPieces(segments, name)].join("");

test("a line for each word: name, channel, start, duration, word, confidence", () => {
  const words = [word("नमस्ते,", 500, 1_001), word("दुनिया।", 1_001.4, 1_999.6)];
  expect(ctm([segment(words, "नमस्ते, दुनिया।")], "tr_1")).toBe(
    "tr_1 1 0.500 0.501 नमस्ते, 0.877\ntr_1 1 1.001 0.999 दुनिया। 0.877\n",
  );
  expect(ctm([])).toBe("");
});

test("lines are sorted by channel and start", () => {
  const said = (channel: number, startMs: number) =>
    segment([word(`w${channel}${startMs}`, startMs, startMs + 1)], "", { channel });
  expect(ctm([said(1, 0), said(0, 100), said(1, 200), said(0, 300)], "a")).toBe(
    [
      ...["a 1 0.100 0.001 w0100 0.877", "a 1 0.300 0.001 w0300 0.877"],
      ...["a 2 0.000 0.001 w10 0.877", "a 2 0.200 0.001 w1200 0.877", ""],
    ].join("\n"),
  );
});

test("text whose words have no times is a comment, without times for words", () => {
  expect(ctm([segment(undefined, "नमस्ते दुनिया")], "a")).toBe(
    ";; a 1 0.500 1.500 has no word times: नमस्ते दुनिया\n",
  );
});

test.each([
  ["folder/my call.wav", "folder/my_call.wav"],
  ["\u00a0a\tb\n", "_a_b_"],
  [";; note", "_;_note"],
  ["", "audio"],
])("the name %j is written as %j", (name, written) => {
  expect(ctm([segment([word("a", 0, 1)], "a")], name)).toStartWith(`${written} 1 `);
});
