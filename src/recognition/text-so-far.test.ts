import { expect, test } from "bun:test";
import { assembleResult, type LooseSegment } from "../pipeline/stitch.ts";
import { wordSegments } from "../pipeline/worded.ts";
import { createTextSoFar } from "./text-so-far.ts";

const recording = { mode: "native", channelMode: "mix", durationMs: 60_000, channels: 1 } as const;
const said = (text: string, startMs: number): LooseSegment[] => [
  { startMs, endMs: startMs + 1000, text, language: "en", confidence: 0.9 },
];
const done = (text: string, startMs: number) => ({ state: "done", segments: said(text, startMs) }) as const;
const waiting = { state: "waiting", segments: null } as const;
const failed = { state: "failed", segments: null } as const;

test.each([
  ["no chunk", [], ""],
  ["only waiting ones", [waiting, waiting], ""],
  ["all done", [done("one", 0), done("two", 5000)], "one two"],
  ["one that waits in between", [done("one", 0), waiting, done("three", 9000)], "one"],
  ["one that failed", [done("one", 0), failed, done("three", 9000), waiting], "one three"],
  ["one without speech", [{ state: "done" as const, segments: [] }, done("two", 5000)], "two"],
])("the text of %s", (_, chunks, text) => {
  expect(createTextSoFar(recording).add(chunks)).toBe(text);
  // The same, chunk by chunk, as the outcomes arrive.
  const growing = createTextSoFar(recording);
  for (let known = 0; known <= chunks.length; known += 1) growing.add(chunks.slice(growing.chunks(), known));
  expect(growing.add([])).toBe(text);
});

test("is worded as the result", () => {
  expect(createTextSoFar(recording).add([done("um so um yes", 0)])).not.toContain("um so");
  expect(createTextSoFar({ ...recording, mode: "verbatim" }).add([done("um so", 0)])).toBe("um so");
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
      if (next() < 0.1) return failed;
      const segments = Array.from({ length: Math.floor(next() * 4) }, (_, part) => ({
        ...said(next() < 0.2 ? "um" : `um word ${n} ${part}`, Math.floor(n * 5000 + next() * 9000))[0],
        ...{ channel: Math.floor(next() * 2) },
      }));
      return { state: "done" as const, segments: segments as LooseSegment[] };
    });
    const asked = { ...recording, channelMode, channels: 2 };
    const growing = createTextSoFar(asked);
    for (const [index, chunk] of chunks.entries()) {
      const segments = wordSegments(
        chunks.slice(0, index + 1).flatMap((each) => each.segments ?? []),
        asked.mode,
      );
      const whole = assembleResult({ segments, gaps: [], warnings: [], request: asked, ...asked });
      expect(growing.add([chunk])).toBe(whole.text);
    }
    expect(growing.chunks()).toBe(60);
  },
);
