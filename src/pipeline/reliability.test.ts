import { expect, test } from "bun:test";
import { reliabilityOf, sumRanges } from "./reliability.ts";

test("words count in the range of their segment, and are right where they were said", () => {
  const ranges = reliabilityOf("one two three four five", [
    { text: "one two tree", confidence: 0.95 },
    { text: "", confidence: 0.5 },
    { text: "four of five", confidence: 0.31 },
    { text: "six", confidence: 1 },
  ]);
  expect(ranges?.filter(({ words }) => words > 0)).toEqual([
    { from: 0.3, to: 0.4, words: 3, right: 2 },
    { from: 0.9, to: 1, words: 4, right: 2 },
  ]);
});

test("the ranges of several recordings are added", () => {
  const one = reliabilityOf("one", [{ text: "one", confidence: 0.5 }]) ?? [];
  const other = reliabilityOf("two", [{ text: "one", confidence: 0.55 }]) ?? [];
  expect(sumRanges([one, other]).filter(({ words }) => words > 0)).toEqual([
    { from: 0.5, to: 0.6, words: 2, right: 1 },
  ]);
});

test("nothing is counted of texts that are too long to compare", () => {
  const long = "a ".repeat(10_000).trim();
  expect(reliabilityOf(long, [{ text: long, confidence: 1 }])).toBeUndefined();
});
