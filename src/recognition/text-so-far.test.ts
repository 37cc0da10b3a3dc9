import { expect, test } from "bun:test";
import { assembleResult, type LooseSegment } from "../pipeline/stitch.ts";
import { wordSegments } from "../pipeline/worded.ts";
import { endingOf } from "./ending.ts";
import { createTextSoFar } from "./text-so-far.ts";

const recording = { mode: "native", channelMode: "mix", durationMs: 60_000, channels: 1 } as const;
const said = (text: string, startMs: number): LooseSegment[] => [
  { startMs, endMs: startMs + 1000, text, language: "en", confidence: 0.9 },
];
/** A chunk from one time to another, milliseconds. */
const at = (startMs: number, endMs: number) => ({ startMs, endMs, channel: 0 });
const done = (text: string, startMs: number, endMs = startMs + 1000) =>
  ({
    ...at(startMs, endMs),
    state: "done",
    segments: text === "" ? [] : said(text, startMs),
  }) as const;
const waiting = { ...at(0, 0), state: "waiting", segments: null } as const;
const failed = (startMs: number, endMs: number) =>
  ({ ...at(startMs, endMs), state: "failed", segments: null }) as const;

type Chunks = Parameters<ReturnType<typeof createTextSoFar>["add"]>[0];
test.each<[string, Chunks, string, number]>([
  ["no chunk", [], "", 0],
  ["only waiting ones", [waiting, waiting], "", 0],
  ["all done: the whole recording", [done("one", 0), done("two", 5000)], "one two", 60_000],
  ["one that waits in between", [done("one", 0), waiting, done("three", 9000)], "one", 1000],
  ["silence before and between", [done("one", 9000), done("two", 20_000), waiting], "one two", 21_000],
  ["one that failed", [done("one", 0), failed(4000, 6000), done("three", 9000), waiting], "one three", 8000],
  ["failed ones alone", [failed(4000, 6000), waiting], "", 0],
  ["one that failed at the end", [done("one", 0), failed(4000, 60_000)], "one", 1000],
  ["all, with a gap", [failed(0, 6000), done("two", 59_000, 60_010)], "two", 54_000],
  ["one without speech", [done("", 0), done("two", 5000), waiting], "two", 6000],
  ["a tail without words", [done("one", 0), done("", 5000), waiting], "one", 1000],
  ["a last chunk without words", [done("one", 0), done("", 5000)], "one", 1000],
])("the text of %s, and its audio", (_, chunks, text, audioMs) => {
  expect(createTextSoFar(recording).add(chunks, chunks.length)).toEqual({ text, audioMs });
  // The same, chunk by chunk, as the outcomes arrive. The audio never decreases.
  const growing = createTextSoFar(recording);
  let before = 0;
  for (let known = 0; known <= chunks.length; known += 1) {
    const grown = growing.add(chunks.slice(growing.chunks(), known), chunks.length);
    expect(grown.audioMs).toBeGreaterThanOrEqual(before);
    before = grown.audioMs;
  }
  expect(growing.add([], chunks.length)).toEqual({ text, audioMs });
});

test("the audio of all chunks is what the result is billed for", () => {
  for (const channelMode of ["mix", "separate"] as const) {
    const request = { channelMode, language: "hi", mode: "native", timestamps: "segment" } as const;
    const asked = { ...recording, channelMode, channels: 2 };
    const chunks = [done("one", 500), failed(5000, 9000), { ...done("two", 20_000), channel: 1 }].map(
      (chunk, position) => ({
        ...{ ...chunk, position, attempt: "", failures: 0, crashes: 0, warnings: null, gapReason: null },
        doubts: null,
        ...{ speechMs: 1000, regions: [], segments: chunk.segments as LooseSegment[] | null },
      }),
    );
    const { audioMs } = createTextSoFar(asked).add(chunks, chunks.length);
    const segments = chunks.flatMap((chunk) => chunk.segments ?? []);
    const ending = endingOf({ request, ...asked, chunks, segments, warnings: [] });
    expect(ending).toMatchObject({ kind: "result", billedMs: audioMs });
  }
});

test("is worded as the result", () => {
  expect(createTextSoFar(recording).add([done("um so um yes", 0)], 1).text).not.toContain("um so");
  expect(createTextSoFar({ ...recording, mode: "verbatim" }).add([done("um so", 0)], 1).text).toBe("um so");
});

test.each(["mix", "separate"] as const)(
  "the text that grows chunk by chunk is always that of all chunks at once, channel mode %s",
  (channelMode) => {
    // A fixed sequence of numbers below 1, from a linear congruential generator.
    let state = 7;
    const next = () => {
      state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
      return state / 2_147_483_648;
    };
    const chunks = Array.from({ length: 60 }, (_, n) => {
      if (next() < 0.1) return failed(n * 5000, n * 5000 + 5000);
      const segments = Array.from({ length: Math.floor(next() * 4) }, (_, part) => ({
        ...said(next() < 0.2 ? "um" : `um word ${n} ${part}`, Math.floor(n * 5000 + next() * 9000))[0],
        ...{ channel: Math.floor(next() * 2) },
      }));
      return { ...done("", n * 5000), segments: segments as LooseSegment[] };
    });
    const asked = { ...recording, channelMode, channels: 2 };
    const growing = createTextSoFar(asked);
    for (const [index, chunk] of chunks.entries()) {
      const segments = wordSegments(
        chunks.slice(0, index + 1).flatMap((each) => each.segments ?? []),
        asked.mode,
      );
      const whole = assembleResult({ segments, gaps: [], warnings: [], request: asked, ...asked });
      expect(growing.add([chunk], chunks.length).text).toBe(whole.text);
    }
    expect(growing.chunks()).toBe(60);
  },
);
