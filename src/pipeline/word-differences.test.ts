import { describe, expect, test } from "bun:test";
import { errorInterval } from "./bootstrap.ts";
import { wordErrors } from "./wer.ts";
import { compareWords } from "./word-differences.ts";

const shown = (said: string, heard: string) =>
  compareWords(said, heard)
    ?.map((word) => `${word.said ?? "·"}/${word.heard ?? "·"}`)
    .join(" ");

describe("compared words", () => {
  test.each([
    ["a b c", "a b c", "a/a b/b c/c"],
    ["a b c", "a x c", "a/a b/x c/c"],
    ["a b c", "a c", "a/a b/· c/c"],
    ["a c", "a b c", "a/a ·/b c/c"],
    ["", "a b", "·/a ·/b"],
    ["a b", "", "a/· b/·"],
    ["", "", ""],
    ["मेरा नाम राम है", "मेरा काम है", "मेरा/मेरा नाम/· राम/काम है/है"],
  ])("of %p and %p", (said, heard, expected) => {
    expect(shown(said, heard)).toBe(expected);
  });

  test("have as many differences as the error rate counts, in random texts", () => {
    let state = 3;
    const random = (below: number) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
    const text = () => Array.from({ length: random(12) }, () => "abcd"[random(4)]).join(" ");
    for (let round = 0; round < 500; round++) {
      const [said, heard] = [text(), text()];
      const compared = compareWords(said, heard) ?? [];
      const rate = wordErrors(said, heard);
      const edits = rate ? rate.substitutions + rate.deletions + rate.insertions : -1;
      expect(compared.filter((word) => word.said !== word.heard)).toHaveLength(edits);
      expect(compared.flatMap((word) => word.said ?? []).join(" ")).toBe(said);
      expect(compared.flatMap((word) => word.heard ?? []).join(" ")).toBe(heard);
    }
  });

  test("of endless texts are not made", () => {
    expect(compareWords("a ".repeat(9000).trim(), "b ".repeat(9000).trim())).toBeUndefined();
  });
});

describe("the interval of an error rate", () => {
  const counted = (errors: number, total: number) => ({ errors, total });

  test("covers the true rate in about 95 of 100 samples", () => {
    let state = 11;
    const random = () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return state / 2 ** 32;
    };
    let covered = 0;
    for (let sample = 0; sample < 200; sample++) {
      const recordings = Array.from({ length: 60 }, () => {
        const words = Array.from({ length: 20 }, () => random() < 0.2);
        return counted(words.filter(Boolean).length, words.length);
      });
      const interval = errorInterval(recordings);
      if (interval && interval.low <= 0.2 && interval.high >= 0.2) covered++;
    }
    expect(covered).toBeGreaterThan(178);
    expect(covered).toBeLessThan(200);
  });

  test("is narrow for equal recordings, and missing where it says nothing", () => {
    expect(errorInterval([counted(1, 10), counted(1, 10), counted(1, 10)])).toEqual({ low: 0.1, high: 0.1 });
    expect(errorInterval([counted(1, 10)])).toBeUndefined();
    expect(errorInterval([counted(0, 0), counted(0, 0)])).toBeUndefined();
  });
});
