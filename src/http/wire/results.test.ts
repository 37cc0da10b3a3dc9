import { expect, test } from "bun:test";
import type { Segment, TranscriptionResult } from "../../domain/result.ts";
import { resultBody } from "../../pipeline/render.ts";
import type { TranscriptionRow } from "../../store/transcriptions.ts";
import { resultResponse, wantedResult } from "./results.ts";

const SEGMENTS = 5_000;
const segments = Array.from({ length: SEGMENTS }, (_, index): Segment => {
  const words = ["one", "two", "three."].map((text, at) => ({
    ...{ text, startMs: index * 3_000 + at * 900, endMs: index * 3_000 + at * 900 + 800, confidence: 0.9 },
  }));
  const times = { startMs: index * 3_000, endMs: index * 3_000 + 2_600 };
  return { index, ...times, text: "one two three.", language: "en", confidence: 0.9, words };
});
const result: TranscriptionResult = {
  ...{ status: "completed", durationMs: SEGMENTS * 3_000, channels: 1, languages: ["en"], text: "one" },
  ...{ segments, warnings: [], gaps: [] },
};
const transcription = {
  ...{ id: "tr_1", modelId: "demo", modelVersion: "1", mode: "native", timestamps: "word" },
} as TranscriptionRow;

/** Counts the turns of the event loop while a result is written. */
async function written(query: Parameters<typeof wantedResult>[1]) {
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const wanted = wantedResult(new Request("http://shruti.test/"), query);
  const response = await resultResponse({ transcription, result }, wanted);
  isOver = true;
  return { text: await response.text(), turns };
}

test("the JSON of a long recording with words is the whole result, and other work runs meanwhile", async () => {
  const info = { id: "tr_1", model: "demo", version: "1", mode: "native", timestamps: "word" } as const;
  const { text, turns } = await written({});
  expect(text).toBe(JSON.stringify(resultBody(info, result)));
  // Slices of 50 segments give 100 turns; the pieces of the text give more.
  expect(turns).toBeGreaterThan(110);
});

test.each(["srt", "vtt", "ctm"] as const)("other work runs while %s is written", async (format) => {
  const { text, turns } = await written({ format });
  expect(text).toContain("three.");
  expect(turns).toBeGreaterThan(10);
});
