import { expect, test } from "bun:test";
import fc from "fast-check";
import { wordSpans } from "./word-spans.ts";

const SCENARIOS: [text: string, words: string[]][] = [
  ["", []],
  [" a  b, c ", ["a", "b,", "c"]],
  ["उम्म, मेरा ऑर्डर। - ठीक", ["उम्म,", "मेरा", "ऑर्डर।", "-", "ठीक"]],
  ["क्\u200Dष ہے۔", ["क्\u200Dष", "ہے۔"]],
  ["我今天去学校。很好", ["我", "今天", "去", "学校。", "很好"]],
  ["「今日は」学校 yes", ["「今日", "は」", "学校", "yes"]],
  ["ผมไปโรงเรียน ok", ["ผม", "ไป", "โรงเรียน", "ok"]],
];
test.each(SCENARIOS)("%j", (text, words) => {
  expect(wordSpans(text).map((span) => span.text)).toEqual(words);
});

test("words and the white space between them are all of the text", () => {
  const text = fc.oneof(
    fc.string({ unit: "grapheme" }),
    fc.string({ unit: fc.constantFrom("我", "去", "。", " ", "ไ", "ป", "a", "「") }),
  );
  fc.assert(
    fc.property(text, (any) => {
      let at = 0;
      for (const { text: word, from, to } of wordSpans(any)) {
        expect(any.slice(at, from).trim()).toBe("");
        expect(any.slice(from, to)).toBe(word);
        expect(word).toMatch(/^\S+$/u);
        at = to;
      }
      expect(any.slice(at).trim()).toBe("");
    }),
    { numRuns: 1_000 },
  );
});
