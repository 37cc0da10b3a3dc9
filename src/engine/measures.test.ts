import { expect, test } from "bun:test";
import { readExact, readLevels, SILENCE_DB } from "./measures.ts";

const outcome = (...lines: string[]) =>
  ({ status: 0, signal: null, ended: "by itself", stderr: lines.join("\n") }) as const;

test("levels come from the filter of that name alone", () => {
  const levels = readLevels(
    outcome(
      "[volumedetect@mix @ 0x1] n_samples: 0",
      "[volumedetect@mix @ 0x2] n_samples: 100000",
      "[volumedetect@mix @ 0x2] mean_volume: -20.0 dB",
      "[volumedetect@mix @ 0x2] max_volume: -0.0 dB",
      "[volumedetect@mix @ 0x2] histogram_0db: 40",
      "[volumedetect@mix @ 0x2] histogram_7db: 90",
      "[volumedetect@high @ 0x3] n_samples: 100000",
      "[volumedetect@high @ 0x3] max_volume: -3.0 dB",
    ),
    "mix",
  );
  expect({ ...levels, rmsDb: Math.round(levels.rmsDb) }).toEqual({
    samples: 100_000,
    peakDb: -0,
    rmsDb: -20,
    nearFullScale: 40,
    loudDb: -8,
  });
});

test("a stream whose parameters changed is one recording: power is averaged, the loudest counts", () => {
  const levels = readLevels(
    outcome(
      "[volumedetect@mix @ 0x1] n_samples: 1000",
      "[volumedetect@mix @ 0x1] mean_volume: -10.0 dB",
      "[volumedetect@mix @ 0x1] max_volume: -4.0 dB",
      "[volumedetect@mix @ 0x2] n_samples: 9000",
      "[volumedetect@mix @ 0x2] mean_volume: -91.0 dB",
      "[volumedetect@mix @ 0x2] max_volume: -91.0 dB",
    ),
    "mix",
  );
  expect(levels.samples).toBe(10_000);
  expect(levels.rmsDb).toBeCloseTo(-20, 5);
  expect(levels.peakDb).toBe(-4);
});

test("silence, and a filter that heard nothing", () => {
  const silent = { peakDb: SILENCE_DB, rmsDb: SILENCE_DB, nearFullScale: 0 };
  const lines = [
    "n_samples: 16000",
    "mean_volume: -91.0 dB",
    "max_volume: -91.0 dB",
    "histogram_91db: 16000",
  ];
  const heard = outcome(...lines.map((line) => `[volumedetect@mix @ 0x1] ${line}`));
  expect(readLevels(heard, "mix")).toEqual({ ...silent, samples: 16_000, loudDb: -92 });
  expect(readLevels(outcome(), "mix")).toEqual({ ...silent, samples: 0, loudDb: SILENCE_DB });
});

test("exact values: of each filter of the name, numbers alone", () => {
  const heard = outcome(
    "[astats@loudest @ 0x1] RMS peak dB: -inf",
    "[astats@loudest @ 0x2] RMS peak dB: -31.5",
    "[astats@loudest @ 0x2] Noise floor dB: nan",
    "[astats@other @ 0x3] RMS peak dB: -1.0",
  );
  expect(readExact(heard, "loudest")).toEqual([
    new Map([["RMS peak dB", Number.NEGATIVE_INFINITY]]),
    new Map([["RMS peak dB", -31.5]]),
  ]);
  expect(readExact(heard, "nobody")).toEqual([]);
});
