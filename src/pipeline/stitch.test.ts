import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import type { RecognizedSegment } from "../domain/recognition.ts";
import { packChunks } from "../testing/makers/pack-chunks.ts";
import { layoutChunk } from "./chunk-audio.ts";
import { chunkLimits } from "./chunks.ts";
import { divideText } from "./divide-text.ts";
import { assembleResult, type LooseSegment, stitchChunk } from "./stitch.ts";

const region = (startS: number, endS: number) => ({
  startSample: Math.round(startS * SAMPLE_RATE_HZ),
  endSample: Math.round(endS * SAMPLE_RATE_HZ),
});
const decoded = (startMs: number, endMs: number, text: string): RecognizedSegment => ({
  startMs,
  endMs,
  text,
  language: "en",
  confidence: 0.9,
  noSpeechProbability: 0,
});
const times = (segments: LooseSegment[]) =>
  segments.map(({ startMs, endMs, text }) => [startMs, endMs, text] as const);

describe("stitchChunk", () => {
  // Laid out with 400 ms between regions: 0–2000, 2400–5400, 5800–6800. The detected speech begins and ends 300 ms inside each region.
  const regions = [region(10, 12), region(60, 63), region(600, 601)];
  const options = { regions, durationMs: 700_000 };

  test("times are restored, and times within speech are kept", () => {
    const segments = stitchChunk(
      [decoded(700, 1_800, " one"), decoded(3_100, 5_000, " two"), decoded(6_100, 6_500, " three")],
      options,
    );
    expect(times(segments)).toEqual([
      [10_700, 11_800, "one"],
      [60_700, 62_600, "two"],
      [600_300, 600_700, "three"],
    ]);
    expect(segments[0]).not.toHaveProperty("channel");
  });

  test("times in silence, shortly before a pause or shortly after a start, are moved to the speech", () => {
    const segments = stitchChunk(
      [decoded(0, 2_200, "one"), decoded(1_650, 5_700, "two"), decoded(6_200, 9_999, "three")],
      { ...options, channel: 1 },
    );
    expect(times(segments)).toEqual([
      [10_150, 11_800, "one"],
      [60_150, 62_800, "two"],
      [600_300, 600_800, "three"],
    ]);
    expect(segments[2]?.channel).toBe(1);
  });

  test("where regions meet, and at the ends of the recording, no padding is assumed", () => {
    const met = [region(0, 2), region(2, 4)];
    const segments = stitchChunk([decoded(0, 1_900, "one"), decoded(2_100, 4_000, "two")], {
      regions: met,
      durationMs: 4_000,
    });
    expect(times(segments)).toEqual([
      [0, 1_900, "one"],
      [2_100, 4_000, "two"],
    ]);
  });

  test("a segment over a long pause is divided at the pause, and a single word has the side with more speech", () => {
    expect(times(stitchChunk([decoded(200, 5_000, "my name is. Ravi and I am from")], options))).toEqual([
      [10_200, 11_700, "my name is."],
      [60_225, 62_600, "Ravi and I am from"],
    ]);
    expect(times(stitchChunk([decoded(200, 5_000, "hello")], options))).toEqual([[60_225, 62_600, "hello"]]);
  });

  test("text without duration at the end is joined to the segment before", () => {
    const segments = stitchChunk([decoded(0, 1_000, "one"), decoded(9_000, 9_000, "two")], {
      regions: [region(0, 1)],
      durationMs: 1_000,
    });
    expect(times(segments)).toEqual([[0, 1_000, "one two"]]);
  });

  test("whatever times the model gives, times rise, do not overlap and stay within the recording", () => {
    const anything = fc.array(
      fc.record({
        startMs: fc.integer({ min: 0, max: 31_000 }),
        length: fc.integer({ min: -500, max: 9_000 }),
      }),
    );
    const lengths = fc.array(
      fc.tuple(fc.integer({ min: 0, max: 90_000 }), fc.integer({ min: 1, max: 90_000 })),
      {
        minLength: 1,
        maxLength: 6,
      },
    );
    fc.assert(
      fc.property(anything, lengths, (list, pairs) => {
        let at = 0;
        const speech = pairs.map(([silence, length]) => {
          const startSample = at + silence;
          at = startSample + length;
          return { startSample, endSample: at };
        });
        expect(layoutChunk(speech).totalSamples).toBeGreaterThan(0);
        const durationMs = Math.ceil((at * 1000) / SAMPLE_RATE_HZ);
        const segments = stitchChunk(
          list.map(({ startMs, length }) => decoded(startMs, startMs + length, "some words here")),
          { regions: speech, durationMs },
        );
        let endMs = 0;
        for (const segment of segments) {
          expect(segment.startMs).toBeGreaterThanOrEqual(endMs);
          expect(segment.endMs).toBeGreaterThan(segment.startMs);
          expect(Number.isInteger(segment.startMs) && Number.isInteger(segment.endMs)).toBe(true);
          endMs = segment.endMs;
        }
        expect(endMs).toBeLessThanOrEqual(durationMs);
        const words = segments.flatMap(({ text }) => text.split(" "));
        expect(words).toHaveLength(list.length * 3);
      }),
    );
  });
});

test("utterances keep their times over three hours with thousands of silences", () => {
  // Utterances of 1 to 4 s after silences of 1 to 6 s. The detector adds padding, and detects speech 46 ms late.
  const utterances: { startMs: number; endMs: number }[] = [];
  for (let atMs = 1_500, i = 0; atMs < 3 * 3_600_000; i++) {
    const endMs = atMs + 1_000 + ((i * 7_919) % 3_000);
    utterances.push({ startMs: atMs, endMs });
    atMs = endMs + 1_000 + ((i * 104_729) % 5_000);
  }
  const durationMs = (utterances.at(-1)?.endMs ?? 0) + 2_000;
  const regions = utterances.map(({ startMs, endMs }) =>
    region((startMs + 46 - 300) / 1000, (endMs + 82 + 300) / 1000),
  );
  const found = packChunks(regions, chunkLimits(29_500)).flatMap((chunk) => {
    const { slices } = layoutChunk(chunk.regions);
    const inChunk = (ms: number) => {
      const sample = (ms * SAMPLE_RATE_HZ) / 1000;
      const piece = slices.findLast(({ sourceStartSample }) => sourceStartSample <= sample);
      if (!piece) throw new Error("an utterance was left out");
      return ((piece.targetStartSample + sample - piece.sourceStartSample) * 1000) / SAMPLE_RATE_HZ;
    };
    const mine = utterances.filter(({ startMs }) => chunk.startMs <= startMs && startMs < chunk.endMs);
    // Whisper's times have steps of 20 ms.
    const grid = (ms: number) => Math.round(ms / 20) * 20;
    const segments = mine.map(({ startMs, endMs }) =>
      decoded(grid(inChunk(startMs)), grid(inChunk(endMs)), "words"),
    );
    return stitchChunk(segments, { regions: chunk.regions, durationMs });
  });
  expect(utterances.length).toBeGreaterThan(1_500);
  expect(found).toHaveLength(utterances.length);
  for (const [index, { startMs, endMs }] of utterances.entries()) {
    expect(Math.abs((found[index]?.startMs ?? 0) - startMs)).toBeLessThanOrEqual(20);
    expect(Math.abs((found[index]?.endMs ?? 0) - endMs)).toBeLessThanOrEqual(20);
  }
});

test("divideText keeps all words in order, divides in proportion, and prefers the ends of sentences", () => {
  expect(divideText("a b c d", [1, 1])).toEqual(["a b", "c d"]);
  expect(divideText("aaaa. b c d e f", [1, 1])).toEqual(["aaaa.", "b c d e f"]);
  expect(divideText("one", [1, 5])).toEqual(["one", ""]);
  expect(divideText("one two three", [98, 1, 1])).toEqual(["one", "two", "three"]);
});

describe("assembleResult", () => {
  const loose = (startMs: number, channel: number, confidence = 0.9): LooseSegment => ({
    startMs,
    endMs: startMs + 500,
    text: `at ${startMs} on ${channel}`,
    language: channel === 0 ? "en" : "hi",
    confidence,
    channel,
  });
  const base = { gaps: [], warnings: [], durationMs: 9_000, channels: 2, segments: [] };

  test("channels are merged by start and then by channel, with one labelled line for each segment", () => {
    const result = assembleResult({
      ...base,
      segments: [loose(2_000, 1), loose(0, 1), loose(0, 0)],
      request: { channelMode: "separate" },
    });
    expect(result.segments.map(({ index, startMs, channel }) => [index, startMs, channel])).toEqual([
      [0, 0, 0],
      [1, 0, 1],
      [2, 2_000, 1],
    ]);
    expect(result.text).toBe("[channel 0] at 0 on 0\n[channel 1] at 0 on 1\n[channel 1] at 2000 on 1");
    expect(result.languages).toEqual(["en", "hi"]);
    expect(result.status).toBe("completed");
    expect(result.warnings).toEqual([]);
  });

  test("a segment ends where the next one of its channel begins; segments of different channels may overlap", () => {
    const segments = [{ ...loose(0, 0), endMs: 1_020 }, loose(1_000, 0), loose(500, 1), loose(500, 1)];
    const result = assembleResult({ ...base, segments, request: { channelMode: "separate" } });
    expect(result.segments.map(({ startMs, endMs, channel }) => [startMs, endMs, channel])).toEqual([
      [0, 1_000, 0],
      [500, 1_000, 1],
      [1_000, 1_500, 0],
    ]);
    expect(result.segments[1]?.text).toBe("at 500 on 1 at 500 on 1");
  });

  test("with a gap the result is partial, each warning occurs once in the documented order, and empty text is dropped", () => {
    const result = assembleResult({
      ...base,
      segments: [loose(0, 0, 0.2), loose(600, 0, 0.5), { ...loose(3_000, 0), text: "" }],
      gaps: [{ startMs: 5_000, endMs: 6_000, reason: "engine_error" }],
      warnings: ["truncated_audio", "clipped_audio", "clipped_audio"],
      request: { channelMode: "mix" },
    });
    expect(result.status).toBe("partial");
    expect(result.warnings).toEqual(["low_confidence", "clipped_audio", "truncated_audio"]);
    expect(result.text).toBe("at 0 on 0 at 600 on 0");
  });

  test("silence alone gives a completed result with no_speech, but a gap alone is not silence", () => {
    const request = { channelMode: "mix" } as const;
    expect(assembleResult({ ...base, request })).toMatchObject({
      status: "completed",
      text: "",
      segments: [],
      warnings: ["no_speech"],
    });
    const gaps = [{ startMs: 0, endMs: 10, reason: "time_limit" as const }];
    expect(assembleResult({ ...base, gaps, request }).warnings).toEqual([]);
  });
});
