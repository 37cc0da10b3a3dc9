import { expect, test } from "bun:test";
import type { NativeSegment } from "../../native/whisper/whisper-addon.ts";
import { toSegments } from "./whisper-segments.ts";

/** How tokens with times become words of segments. */

type Token = [text: string | number[], startMs: number, endMs: number, probability?: number];

function segment(startMs: number, endMs: number, tokens: Token[]): NativeSegment {
  const parts = tokens.map(([text]) => (typeof text === "string" ? Buffer.from(text) : Buffer.from(text)));
  let end = 0;
  return {
    ...{ startMs, endMs, language: "hi", noSpeechProbability: 0, spokenLanguages: [], isCut: false },
    ids: Int32Array.from(tokens, (_, i) => i),
    probabilities: Float32Array.from(tokens, ([, , , probability = 1]) => probability),
    starts: Int32Array.from(tokens, ([, start]) => start),
    stops: Int32Array.from(tokens, ([, , stop]) => stop),
    ends: Uint32Array.from(parts, ({ length }) => (end += length)),
    bytes: Buffer.concat(parts),
  };
}

const timesOf = (segments: NativeSegment[]) =>
  toSegments(segments).map(({ words }) => words?.map(({ text, startMs, endMs }) => [text, startMs, endMs]));

const UTF8 = (text: string): number[] => [...Buffer.from(text)];
const NA = UTF8("न");

test.each<[string, Token[], [string, number, number][]]>([
  [
    "tokens are joined at spaces",
    [
      [" for", 100, 200],
      ["get", 200, 400],
      [" it", 500, 600],
    ],
    [
      ["forget", 100, 400],
      ["it", 500, 600],
    ],
  ],
  [
    "punctuation takes no time, before a word or behind it",
    [
      [" “", 0, 300],
      ["Yes", 300, 500],
      [",", 500, 900],
      [" no", 900, 1000],
      ["...", 1000, 1500],
    ],
    [
      ["“Yes,", 300, 500],
      ["no...", 900, 1000],
    ],
  ],
  [
    "a word of punctuation alone has its own time",
    [
      [" a", 0, 100],
      [" –", 100, 200],
      [" b", 200, 300],
    ],
    [
      ["a", 0, 100],
      ["–", 100, 200],
      ["b", 200, 300],
    ],
  ],
  [
    "bytes of one character are one piece, and a space may be a token",
    [
      [" ", 0, 20],
      [NA.slice(0, 2), 20, 60],
      [NA.slice(2), 60, 80],
      [UTF8("दी"), 80, 120],
      [" है", 200, 260],
      ["।", 260, 400],
    ],
    [
      ["नदी", 20, 120],
      ["है।", 200, 260],
    ],
  ],
  [
    "a token that belongs to two words gives neither a time before the other",
    [
      [" a b", 0, 100],
      ["c", 100, 200],
    ],
    [
      ["a", 0, 100],
      ["bc", 100, 200],
    ],
  ],
  [
    "scripts without spaces are divided by their words",
    [
      ["今天", 0, 100],
      ["天气", 100, 200],
      ["。", 200, 300],
    ],
    [
      ["今天", 0, 100],
      ["天气。", 100, 200],
    ],
  ],
])("%s", (_, tokens, words) => {
  const [found] = toSegments([segment(0, 2000, tokens)]);
  expect(timesOf([segment(0, 2000, tokens)])).toEqual([words]);
  expect(found?.words?.map(({ text }) => text).join("")).toBe((found?.text ?? "").replace(/\s/gu, ""));
});

test("a word of a segment may begin with the bytes at the end of the one before", () => {
  const first = segment(0, 500, [
    [" घर", 100, 300],
    [NA.slice(0, 1), 400, 500],
  ]);
  const second = segment(500, 1000, [
    [NA.slice(1), 500, 600],
    [" हम", 700, 800],
  ]);
  expect(timesOf([first, second])).toEqual([
    [["घर", 100, 300]],
    [
      ["न", 400, 600],
      ["हम", 700, 800],
    ],
  ]);
});

test("the confidence of a word is that of its tokens, those of one character taken together", () => {
  const [found] = toSegments([
    segment(0, 500, [
      [[0x20, ...NA.slice(0, 1)], 0, 100, 0.5],
      [NA.slice(1), 100, 200, 0.5],
      [" हम", 200, 300, 0.75],
    ]),
  ]);
  expect(found?.words?.map(({ confidence }) => confidence)).toEqual([0.25, 0.75]);
});

test("a segment whose tokens have no times has no words, and the others keep theirs", () => {
  const timed = segment(0, 500, [[" a", 0, 100]]);
  const untimed = { ...segment(500, 900, [[" b", 0, 0]]), starts: new Int32Array(), stops: new Int32Array() };
  expect(timesOf([timed, untimed])).toEqual([[["a", 0, 100]], undefined]);
});

test("segments contain their words and do not overlap, and words of two windows stay in order", () => {
  const segments = toSegments([
    segment(200, 700, [
      [" a", 100, 300],
      [" b", 800, 900],
    ]),
    segment(700, 1500, [[" c", 880, 1000]]),
    segment(2000, 2500, [[" d", 1900, 2600]]),
  ]);
  expect(segments.map(({ startMs, endMs }) => [startMs, endMs])).toEqual([
    [100, 900],
    [900, 1500],
    [1900, 2600],
  ]);
  expect(segments.flatMap(({ words = [] }) => words.map((word) => word.startMs))).toEqual([
    100, 800, 900, 1900,
  ]);
});
