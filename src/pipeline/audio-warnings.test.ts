import { expect, test } from "bun:test";
import type { AudioMeasurements } from "../domain/audio.ts";
import { audioWarnings } from "./audio-warnings.ts";

const measurements = (more: Partial<AudioMeasurements> = {}): AudioMeasurements => ({
  truncated: false,
  clippedRatio: 0,
  peakDb: -3,
  rmsDb: -22,
  highFrequencyDb: -30,
  identicalChannels: false,
  tracks: [{ peakDb: -3 }],
  ...more,
});

test("clean audio has no warnings", () => {
  expect(audioWarnings(measurements(), "mix")).toEqual([]);
  expect(audioWarnings(measurements({ clippedRatio: 0.0004, peakDb: 0 }), "separate")).toEqual([]);
});

test("each fault has its warning", () => {
  expect(audioWarnings(measurements({ clippedRatio: 0.01, peakDb: 0 }), "mix")).toEqual(["clipped_audio"]);
  expect(audioWarnings(measurements({ peakDb: -34 }), "mix")).toEqual(["low_volume"]);
  expect(audioWarnings(measurements({ highFrequencyDb: -58 }), "mix")).toEqual(["narrowband_audio"]);
  expect(audioWarnings(measurements({ truncated: true }), "mix")).toEqual(["truncated_audio"]);
});

test("a copied channel is a fault only where channels are billed separately", () => {
  expect(audioWarnings(measurements({ identicalChannels: true }), "separate")).toEqual([
    "identical_channels",
  ]);
  expect(audioWarnings(measurements({ identicalChannels: true }), "mix")).toEqual([]);
});

test("one low channel is enough for a warning, and an idle channel is not low", () => {
  const beside = (peakDb: number) =>
    measurements({
      tracks: [{ peakDb: -3 }, { peakDb }],
    });
  expect(audioWarnings(beside(-40), "separate")).toEqual(["low_volume"]);
  expect(audioWarnings(beside(-60), "separate")).toEqual([]);
});

test("silence is quiet, and no bandwidth is reported for it", () => {
  const silent = measurements({ peakDb: -120, rmsDb: -120, highFrequencyDb: -120 });
  expect(audioWarnings(silent, "mix")).toEqual(["low_volume"]);
});
