import { describe, expect, test } from "bun:test";
import { characterErrors, normalizeForScoring, sumErrors, wordErrors } from "./wer.ts";

describe("word and character error rates", () => {
  test("agree with counts made by hand", () => {
    expect(wordErrors("a b c d e f", "a x c e f g")).toEqual({
      total: 6,
      substitutions: 1,
      deletions: 1,
      insertions: 1,
      rate: 0.5,
    });
    expect(characterErrors("kitten", "sitting")).toMatchObject({ substitutions: 2, insertions: 1, total: 6 });
    expect(wordErrors("एक दो तीन", "एक दो तीन")?.rate).toBe(0);
    expect(wordErrors("a b", "")).toMatchObject({ deletions: 2, rate: 1 });
    expect(wordErrors("a", "a b c")).toMatchObject({ insertions: 2, rate: 2 });
  });

  test("without reference words there is no rate, but invented words count in the sum", () => {
    const silence = wordErrors("", "thank you");
    expect(silence).toMatchObject({ insertions: 2, total: 0, rate: undefined });
    const sum = sumErrors([silence, wordErrors("a b", "a b")].filter((rate) => rate !== undefined));
    expect(sum.rate).toBe(1);
  });

  test("count as few edits as the recursion of the definition", () => {
    const distance = (a: string, b: string): number => {
      if (a === "" || b === "") return a.length + b.length;
      const rest = distance(a.slice(1), b.slice(1)) + (a[0] === b[0] ? 0 : 1);
      return Math.min(rest, distance(a.slice(1), b) + 1, distance(a, b.slice(1)) + 1);
    };
    for (const [a, b] of [
      ["abcab", "bcaab"],
      ["aabbc", "cba"],
      ["abc", "xaybzc"],
      ["ababab", "bababa"],
    ] as const) {
      const counts = characterErrors(a, b);
      if (!counts) throw new Error("too long");
      expect(counts.substitutions + counts.deletions + counts.insertions).toBe(distance(a, b));
      expect(counts.insertions - counts.deletions).toBe(b.length - a.length);
    }
  });

  test("are not computed for texts that would take minutes", () => {
    const long = "a ".repeat(200_000).trim();
    expect(wordErrors(long, long)).toBeUndefined();
  });
});

test("ignore case, punctuation, danda, joiners and spellings of one letter, but not digits", () => {
  expect(normalizeForScoring("Hello,  WORLD! It's 5 o’clock – really?", "en")).toBe(
    "hello world its 5 oclock really",
  );
  // Letters with nukta, composed and decomposed.
  expect(normalizeForScoring("फ़ोन नंबर पाँच है।", "hi")).toBe(normalizeForScoring("फ\u093Cोन, नंबर पाँच है", "hi"));
  expect(normalizeForScoring("क्\u200Dष", "hi")).toBe(normalizeForScoring("क्ष", "hi"));
  expect(normalizeForScoring("५ five 5", "hi")).toBe("५ five 5");
});
