import { expect, test } from "bun:test";
import type { LooseSegment } from "../pipeline/stitch.ts";
import { textSoFar } from "./text-so-far.ts";

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
  expect(textSoFar(chunks, recording)).toBe(text);
});

test("is worded as the result", () => {
  expect(textSoFar([done("um so um yes", 0)], recording)).not.toContain("um so");
  expect(textSoFar([done("um so", 0)], { ...recording, mode: "verbatim" })).toBe("um so");
});
