import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Segment, Word } from "../domain/result.ts";
import type { Cue, CueOptions } from "./cues.ts";
import { textOfLine, widthOf } from "./subtitle-lines.ts";
import { cuesInOrder } from "./subtitles.ts";

const segment = (startMs: number, endMs: number, text: string, more: Partial<Segment> = {}): Segment => ({
  ...{ index: 0, startMs, endMs, text, language: "en", confidence: 0.9 },
  ...more,
});

/** Makes a segment of words: each with its start and its end. */
function spoken(
  words: readonly [text: string, startMs: number, endMs: number][],
  more: Partial<Segment> = {},
) {
  const [first, last] = [words[0], words.at(-1)];
  return segment(first?.[1] ?? 0, last?.[2] ?? 0, words.map(([text]) => text).join(" "), {
    words: words.map(([text, startMs, endMs]): Word => ({ text, startMs, endMs, confidence: 0.9 })),
    ...more,
  });
}

/** Says a text evenly, without a pause. */
function evenly(text: string, startMs: number, msOfWord: number, more: Partial<Segment> = {}): Segment {
  const words = text.split(" ");
  return spoken(
    words.map((word, at) => [word, startMs + at * msOfWord, startMs + (at + 1) * msOfWord]),
    more,
  );
}

const OPTIONS: CueOptions = { maxLineCharacters: 42, maxLines: 2, labelOf: () => "" };
const cuesOf = (segments: readonly Segment[], options: Partial<CueOptions> = {}): Cue[] =>
  [...cuesInOrder(segments, { ...OPTIONS, ...options })].flat();
const linesOf = ({ lines }: Cue) => lines.map(textOfLine);
const textsOf = (cues: readonly Cue[]) => cues.map((cue) => linesOf(cue).join("/"));

describe("without word times", () => {
  test("a long segment is divided into cues of two lines of 42 characters that share its time", () => {
    const text = Array.from({ length: 60 }, (_, i) => `word${i}`).join(" ");
    const cues = cuesOf([segment(10_000, 30_000, text)]);
    expect(cues.length).toBeGreaterThan(4);
    expect(cues.flatMap(linesOf).join(" ")).toBe(text);
    let startMs = 10_000;
    for (const cue of cues) {
      expect(cue.startMs).toBe(startMs);
      expect(cue.endMs).toBeGreaterThan(startMs);
      startMs = cue.endMs;
      expect(cue.lines.length).toBeLessThanOrEqual(2);
      for (const line of linesOf(cue)) expect(line.length).toBeLessThanOrEqual(42);
    }
    expect(startMs).toBe(30_000);
  });

  test("characters are counted as readers see them", () => {
    const word = "क्षि".repeat(42);
    expect(word.length).toBe(168);
    const [cue] = cuesOf([segment(0, 5_000, `${word} ${word}a`)]);
    expect(cue && linesOf(cue)).toEqual([word, word]);
  });

  test("limits can be asked for, also that of the time", () => {
    const cues = cuesOf([segment(0, 9_000, "one two three four five six")], {
      ...{ maxLineCharacters: 10, maxLines: 1, maxCueMs: 2_000 },
    });
    expect(cues.flatMap(linesOf).join(" ")).toBe("one two three four five six");
    expect(cues.every(({ startMs, endMs }) => endMs - startMs <= 2_000)).toBe(true);
    expect(cues.flatMap(linesOf).every((line) => line.length <= 10)).toBe(true);
    const [alone] = cuesOf([segment(0, 9_000, "alone")], { maxCueMs: 2_000 });
    expect(alone).toMatchObject({ startMs: 0, endMs: 2_000 });
  });

  test("also words that are not those of the text have no times", () => {
    const corrected = { ...evenly("turn on the fan", 0, 500), text: "turn off the fan" };
    expect(cuesOf([corrected], { durationMs: 60_000 })).toMatchObject([{ startMs: 0, endMs: 2_000 }]);
  });
});

describe("with word times", () => {
  test("cues end with sentences and at pauses, and a pause does not keep the text", () => {
    const cues = cuesOf(
      [
        spoken([
          ...(
            [
              ["The", 0, 200],
              ["fan", 200, 700],
              ["is", 700, 900],
              ["running.", 900, 1_600],
            ] as const
          ).map(([...word]) => word as [string, number, number]),
          ...(
            [
              ["Please", 1_650, 2_100],
              ["turn", 2_100, 2_500],
              ["it", 2_500, 2_700],
              ["off", 2_700, 3_300],
            ] as const
          ).map(([...word]) => word as [string, number, number]),
          ["tomorrow", 5_300, 6_000],
        ]),
      ],
      { durationMs: 10_000 },
    );
    expect(textsOf(cues)).toEqual(["The fan is running.", "Please turn it off", "tomorrow"]);
    expect(cues.map(({ startMs, endMs }) => [startMs, endMs])).toEqual([
      // The gap of 50 ms is closed.
      [0, 1_650],
      [1_650, 3_300],
      // 5/6 s, because the pause after it allows that.
      [5_300, 6_133],
    ]);
  });

  test("a word and an answer share a cue, and a sentence that needs two is cut at its comma", () => {
    expect(textsOf(cuesOf([evenly("Yes. I think so.", 0, 200)]))).toEqual(["Yes. I think so."]);
    const long =
      "When the pump was switched on this morning by the operator, nobody had checked the pressure of the second tank";
    expect(textsOf(cuesOf([evenly(long, 0, 280)]))).toEqual([
      "When the pump was switched on/this morning by the operator,",
      "nobody had checked the/pressure of the second tank",
    ]);
  });

  test("a fast cue stays until it is read, as far as the pause, the recording and the limit allow", () => {
    // 34 characters are read in 2 s.
    const fast = evenly("abcdefg abcdefgh abcdefgh abcdefgh", 1_000, 100);
    const next = evenly("next", 4_000, 500);
    const ends = (segments: Segment[], options: Partial<CueOptions> = {}) =>
      cuesOf(segments, options).map(({ endMs }) => endMs);
    expect(ends([fast], { durationMs: 60_000 })).toEqual([3_000]);
    expect(ends([fast], { durationMs: 2_500 })).toEqual([2_500]);
    expect(ends([fast])).toEqual([1_400]);
    expect(ends([fast, next], { durationMs: 60_000 })).toEqual([3_000, 4_833]);
    expect(ends([fast, evenly("next", 2_430, 500)], { durationMs: 60_000 })[0]).toBe(2_430);
    expect(ends([fast], { durationMs: 60_000, maxCueMs: 1_000 })).toEqual([2_000]);
  });

  test("wide characters count as two, and words without spaces are joined without any", () => {
    const words = ["今天", "天气", "很好，", "我们", "去", "公园。"];
    const text = words.join("");
    const one = segment(0, 3_000, text, {
      language: "zh",
      words: words.map((word, at) => ({
        text: word,
        startMs: at * 500,
        endMs: (at + 1) * 500,
        confidence: 1,
      })),
    });
    expect(textsOf(cuesOf([one], { maxLineCharacters: 14 }))).toEqual(["今天天气很好，/我们去公园。"]);
    expect(widthOf(text)).toBe(26);
  });

  test("labels are before the first line of each turn and after a pause, and count", () => {
    const labelOf = ({ speaker }: Segment) => `${speaker}: `;
    const cues = cuesOf(
      [
        evenly("how are you today", 0, 300, { speaker: "speaker_1" }),
        evenly("and how is the family", 1_300, 300, { speaker: "speaker_1" }),
        evenly("fine", 2_800, 400, { speaker: "speaker_2" }),
        evenly("good", 9_000, 400, { speaker: "speaker_2" }),
      ],
      { labelOf, maxLineCharacters: 20 },
    );
    expect(textsOf(cues)).toEqual([
      "speaker_1: how/are you today",
      "and how is/the family",
      "speaker_2: fine",
      "speaker_2: good",
    ]);
  });

  test("a word that is wider than a screen is cut between characters, and its cues share its time", () => {
    const word = "क्षि".repeat(30);
    const cues = cuesOf([spoken([[word, 0, 3_000]])], { maxLineCharacters: 10, maxLines: 2 });
    expect(cues.map((cue) => linesOf(cue).map(widthOf))).toEqual([[10, 10], [10]]);
    expect(cues.flatMap(linesOf).join("")).toBe(word);
    expect(cues.map(({ startMs, endMs }) => [startMs, endMs])).toEqual([
      [0, 1_500],
      [1_500, 3_000],
    ]);
  });
});

const WORDS = [
  "a",
  "I",
  "the",
  "fan,",
  "pump.",
  "नमस्ते",
  "दुनिया।",
  "क्षि".repeat(25),
  "今天",
  "okay?",
  "ரன்வே,",
  "👩‍🚀",
];

/** Speech of up to two channels: words of any length with any pauses. */
const speech = fc
  .array(
    fc.record({
      pauseMs: fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: 9_000 })),
      words: fc.array(
        fc.record({
          word: fc.constantFrom(...WORDS),
          lastsMs: fc.oneof(fc.integer({ min: 20, max: 700 }), fc.integer({ min: 20, max: 9_000 })),
          gapMs: fc.oneof(
            fc.constant(0),
            fc.integer({ min: 0, max: 150 }),
            fc.integer({ min: 0, max: 3_000 }),
          ),
        }),
        { minLength: 1, maxLength: 60 },
      ),
      isSecond: fc.boolean(),
      speaker: fc.constantFrom(undefined, "speaker_1", "speaker_2"),
      isUntimed: fc.boolean(),
    }),
    { maxLength: 8 },
  )
  .map((turns) => {
    const atMs = [0, 0];
    return turns
      .map(({ pauseMs, words, isSecond, speaker, isUntimed }): Segment => {
        const channel = Number(isSecond);
        let ms = (atMs[channel] ?? 0) + pauseMs;
        const timed = words.map(({ word, lastsMs, gapMs }): [string, number, number] => {
          const times: [number, number] = [ms, ms + lastsMs];
          ms += lastsMs + gapMs;
          return [word, ...times];
        });
        const one = spoken(timed, { channel, ...(speaker ? { speaker } : {}) });
        atMs[channel] = one.endMs;
        const { words: _, ...untimed } = one;
        return isUntimed ? untimed : one;
      })
      .sort((a, b) => a.startMs - b.startMs);
  });

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });
/** Divides a text into what readers take for characters. A line that ends within one would give others. */
const charactersOf = (text: string) =>
  text.split(/\s+/u).flatMap((word) => Array.from(graphemes.segment(word), ({ segment: one }) => one));

test("all words are shown once and in order, and every limit holds", () => {
  const options = fc.record({
    maxLineCharacters: fc.integer({ min: 10, max: 60 }),
    maxLines: fc.integer({ min: 1, max: 4 }),
    maxCueMs: fc.integer({ min: 1_000, max: 12_000 }),
  });
  const squeezed = (text: string) => text.replaceAll(/\s/gu, "");
  fc.assert(
    fc.property(speech, options, (segments, limits) => {
      const durationMs = Math.max(0, ...segments.map(({ endMs }) => endMs)) + 500;
      const cues = cuesOf(segments, { ...limits, durationMs });
      expect(cues.every((cue, at) => at === 0 || cue.startMs >= (cues[at - 1]?.startMs ?? 0))).toBe(true);
      // Cues of one channel never overlap, so its words are in order where the channels are looked at one by one.
      for (const channel of [0, 1]) {
        const own = segments.filter((one) => one.channel === channel);
        const alone = cuesOf(own, { ...limits, durationMs });
        expect(squeezed(alone.flatMap(linesOf).join(""))).toBe(
          squeezed(own.map(({ text }) => text).join("")),
        );
        expect(alone.flatMap(linesOf).flatMap(charactersOf)).toEqual(
          own.flatMap(({ text }) => charactersOf(text)),
        );
        for (const [at, { startMs, endMs, lines }] of alone.entries()) {
          expect(endMs).toBeGreaterThan(startMs);
          expect(endMs - startMs).toBeLessThanOrEqual(limits.maxCueMs);
          expect(endMs).toBeLessThanOrEqual(durationMs);
          expect(lines.length).toBeLessThanOrEqual(limits.maxLines);
          for (const line of lines)
            expect(widthOf(textOfLine(line))).toBeLessThanOrEqual(limits.maxLineCharacters);
          const next = alone[at + 1];
          if (next) expect(next.startMs).toBeGreaterThanOrEqual(endMs);
        }
      }
      expect(squeezed(cues.flatMap(linesOf).toSorted().join("")).length).toBe(
        squeezed(segments.map(({ text }) => text).join("")).length,
      );
    }),
  );
});

test("where all words have times, no gap flickers, and a cue that is read too fast stays as long as it can", () => {
  fc.assert(
    fc.property(speech, (segments) => {
      const timed = segments.filter(({ words, channel }) => words && channel === 0);
      const durationMs = Math.max(0, ...timed.map(({ endMs }) => endMs)) + 500;
      const cues = cuesOf(timed, { durationMs });
      for (const [at, cue] of cues.entries()) {
        const nextMs = cues[at + 1]?.startMs ?? durationMs;
        const gapMs = nextMs - cue.endMs;
        if (at < cues.length - 1) expect(gapMs === 0 || gapMs >= 80).toBe(true);
        const characters = linesOf(cue).reduce((sum, line) => sum + widthOf(line), cue.lines.length - 1);
        const perSecond = (characters * 1000) / (cue.endMs - cue.startMs);
        if (perSecond > 17.1)
          expect(Math.min(gapMs, 7_000 - (cue.endMs - cue.startMs))).toBeLessThanOrEqual(80);
      }
    }),
  );
});

test("cues of a long recording come in pieces, also where one channel is silent for most of it", () => {
  const segments = Array.from({ length: 3_000 }, (_, at) =>
    evenly(`one two three number${at}.`, at * 2_000, 300, { channel: at === 0 ? 1 : 0 }),
  );
  const pieces = [...cuesInOrder(segments, OPTIONS)];
  expect(Math.max(...pieces.map((cues) => cues.length))).toBeLessThan(100);
  expect(pieces.flat().length).toBe(3_000);
});
