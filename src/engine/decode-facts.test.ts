import { expect, test } from "bun:test";
import { readClippedRatio } from "./decode-facts.ts";

/** What ffmpeg prints of parts of a recording: samples, how many of them stand at the highest level, and that. */
const told = (...parts: [samples: number, atPeak: number, peakDb: string][]) => ({
  status: 0,
  signal: null,
  ended: "by itself" as const,
  stderr: parts
    .flatMap(([samples, atPeak, peakDb], index) => [
      `[astats@clipping @ 0x${index}] Number of samples: ${samples}`,
      `[astats@clipping @ 0x${index}] Peak count: ${atPeak}`,
      `[astats@clipping @ 0x${index}] Peak level dB: ${peakDb}`,
    ])
    .join("\n"),
});

test.each([
  ["at full scale", told([1000, 20, "0.000000"]), 0.02],
  ["below full scale", told([1000, 20, "-0.300000"]), 0],
  [
    "a silent part counts as samples, not as clipped ones",
    told([1000, 20, "0.0"], [1000, 1000, "-inf"]),
    0.01,
  ],
  ["nothing", told(), 0],
])("the share of clipped samples: %s", (_, outcome, ratio) => {
  expect(readClippedRatio(outcome)).toBe(ratio);
});
