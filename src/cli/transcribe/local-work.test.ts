import { expect, test } from "bun:test";
import { describeGaps } from "./local-work.ts";

test("speech that could not be transcribed is named by its times, its channel and the reason", () => {
  const result = {
    ...{ status: "partial" as const, durationMs: 20_000, channels: 2, languages: [], text: "" },
    ...{ segments: [], warnings: [] },
    gaps: [
      { startMs: 5_000, endMs: 10_250, reason: "engine_error" as const },
      { startMs: 0, endMs: 5_000, reason: "time_limit" as const, channel: 1 },
    ],
  };
  expect(describeGaps(result)).toEqual([
    "5 s to 10.25 s could not be transcribed (engine_error)",
    "0 s to 5 s of channel 1 could not be transcribed (time_limit)",
  ]);
});
