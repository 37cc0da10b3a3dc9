import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { wordSpans } from "../lib/word-spans.ts";
import { expectWordsOf, timedWords, wordLines } from "../testing/makers/timed-words.ts";
import { carryWords, divideAtWords, fitWords, wordsOfText } from "./timed-words.ts";

describe("words follow their text", () => {
  const SCENARIOS: [name: string, before: string, after: string, words: string[]][] = [
    [
      "unchanged words keep their times",
      "बार बार बोल",
      "बार बार बोल",
      ["बार@0-80", "बार@100-180", "बोल@200-280"],
    ],
    [
      "of equal words the last are kept",
      "I I was the the man",
      "I was the man",
      ["I@100-180", "was@200-280", "the@400-480", "man@500-580"],
    ],
    ["a removed word takes its time with it", "um yes um no", "yes no", ["yes@100-180", "no@300-380"]],
    [
      "punctuation joins the word before it, and adds no time",
      "number , please ??",
      "number, please?",
      ["number,@0-80", "please?@200-280"],
    ],
    ["the punctuation of a removed word moves", "was um.", "was.", ["was.@0-80"]],
    [
      "other letters at the same place",
      "فون کرو ہم",
      "फोन करो हम",
      ["फोन@0-80", "करो@100-180", "हम@200-280"],
    ],
    ["several become one", "twenty five dollars", "25 dollars", ["25@0-180", "dollars@200-280"]],
    [
      "one becomes several, by letters",
      "25 dollars",
      "twenty five dollars",
      ["twenty@0-48", "five@48-80", "dollars@100-180"],
    ],
    ["a space that was missing", "देंगे,फोन करो।।", "देंगे, फोन करो॥", ["देंगे,@0-40", "फोन@40-80", "करो॥@100-180"]],
    ["a new word shares the time of its neighbour", "b c", "a b c", ["a@0-40", "b@40-80", "c@100-180"]],
    ["a new word at the end", "b c", "b c a", ["b@0-80", "c@100-140", "a@140-180"]],
    ["nothing is left", "um", "", []],
  ];
  test.each(SCENARIOS)("%s: %s", (_, before, after, words) => {
    expect(wordLines(carryWords(timedWords(before), after))).toEqual(words);
  });

  test("of repetitions the first can be kept", () => {
    const words = carryWords(timedWords("a b a b a b c"), "a b c", "first");
    expect(wordLines(words)).toEqual(["a@0-80", "b@100-180", "c@600-680"]);
  });

  test("text out of nothing has no times, and neither have long texts that have nothing in common", () => {
    expect(carryWords([], "a")).toBeUndefined();
    const long = (word: string) => Array.from({ length: 3_000 }, (_, index) => `${word}${index}`).join(" ");
    expect(carryWords(timedWords(long("a")), long("b"))).toBeUndefined();
    expect(carryWords(timedWords(long("a")), long("a"))).toHaveLength(3_000);
  });

  test("any text can become any other", () => {
    const text = fc
      .array(fc.constantFrom("a", "b", "बार", "order", ",", "।", "我去学校", "25", "a-b", "क्\u200Dष"), {
        minLength: 1,
        maxLength: 12,
      })
      .map((words) => words.join(" "));
    fc.assert(
      fc.property(text, text, fc.constantFrom("first", "last"), (before, after, kept) => {
        const words = carryWords(timedWords(before), after, kept);
        const segment = { startMs: 0, endMs: 2_000, language: "hi", confidence: 1 };
        const fitted = fitWords(words, segment);
        expectWordsOf({ ...segment, text: after, ...(fitted ? { words: fitted } : {}) });
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("words of a text from those of a recognizer", () => {
  const found = (...words: [text: string, startMs: number, endMs: number, confidence?: number][]) =>
    words.map(([text, startMs, endMs, confidence = 1]) => ({ text, startMs, endMs, confidence }));

  test("parts of a word become one, and one becomes several", () => {
    const words = wordsOfText(found(["yes", 0, 300, 0.5], [",", 900, 950], ["no", 1_000, 1_200]), "yes, no");
    expect(words).toEqual(found(["yes,", 0, 300, 0.5], ["no", 1_000, 1_200]));
    expect(wordLines(wordsOfText(found(["abcd", 0, 400]), "ab c d"))).toEqual([
      "ab@0-200",
      "c@200-300",
      "d@300-400",
    ]);
    expect(wordLines(wordsOfText(found(["我今", 0, 200], ["天", 200, 300]), "我今天"))).toEqual([
      "我@0-100",
      "今天@100-300",
    ]);
  });

  test("words that are not those of the text are none", () => {
    expect(wordsOfText(found(["yes", 0, 300]), "no")).toBeUndefined();
    expect(wordsOfText(found(["yes", 0, 300]), "yes no")).toBeUndefined();
    expect(wordsOfText([], "")).toBeUndefined();
    expect(wordsOfText(undefined, "yes")).toBeUndefined();
  });
});

test("words that do not fit are moved into the segment, or are none where it is too short", () => {
  const words = [
    { text: "a", startMs: -5, endMs: 10.4, confidence: 1 },
    { text: "b", startMs: 8, endMs: 8, confidence: 1 },
    { text: "c", startMs: 90, endMs: 120, confidence: 1 },
  ];
  expect(wordLines(fitWords(words, { startMs: 0, endMs: 50 }))).toEqual(["a@0-10", "b@10-11", "c@49-50"]);
  expect(wordLines(fitWords(words, { startMs: 7, endMs: 10 }))).toEqual(["a@7-8", "b@8-9", "c@9-10"]);
  expect(fitWords(words, { startMs: 8, endMs: 10 })).toBeUndefined();
  expect(fitWords([], { startMs: 0, endMs: 10 })).toBeUndefined();
});

test("a text is divided between words of different owners, with its own white space", () => {
  const words = [..."abcd"].map((text, index) => ({ text, startMs: index, endMs: index + 1, confidence: 1 }));
  const parts = divideAtWords("a  b c\nd", words, ({ startMs }) => startMs >= 2);
  expect(parts.map(({ text, owner }) => [text, owner])).toEqual([
    ["a  b", false],
    ["c\nd", true],
  ]);
});

test("parts of a text that was partly in a script without spaces have the words of their own text", () => {
  const text = "ok 好hello-world 吧";
  const words = timedWords("ok 好 hello- world 吧");
  expect(words.map((word) => word.text)).toEqual(wordSpans(text).map((span) => span.text));
  const parts = divideAtWords(text, words, ({ startMs }) => startMs >= 200);
  expect(parts.map((part) => part.text)).toEqual(["ok 好", "hello-world 吧"]);
  expect(parts.map((part) => wordLines(part.words))).toEqual([
    ["ok@0-80", "好@100-180"],
    ["hello-world@200-380", "吧@400-480"],
  ]);
});
