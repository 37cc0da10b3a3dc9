import { expect, test } from "bun:test";
import { fitWindow, recognizeFitted } from "./fit-window.ts";

const RATE_HZ = 16_000;
const WINDOW = 30 * RATE_HZ;

const tone = (samples: number, hertz: number) =>
  Float32Array.from({ length: samples }, (_, n) => 0.5 * Math.sin((2 * Math.PI * hertz * n) / RATE_HZ));

/** Returns the root mean square of the inner samples. The edges have no neighbours on one side. */
function level(samples: Float32Array): number {
  const inner = samples.subarray(100, samples.length - 100);
  return Math.sqrt(inner.reduce((sum, sample) => sum + sample * sample, 0) / inner.length);
}

test.each([1, 29.9, 30, 31.6, 45])("sound of %d s stays as it is", (seconds) => {
  const samples = tone(seconds * RATE_HZ, 440);
  const fitted = fitWindow(samples);
  expect(fitted.samples).toBe(samples);
  expect(fitted.pace).toBe(1);
});

test.each([
  [30.01, 440],
  [30.7, 3_000],
  [31.5, 1_000],
])("%d s become one window in which a tone of %d Hz is as much higher as it is faster", (seconds, hertz) => {
  const { samples, pace } = fitWindow(tone(seconds * RATE_HZ, hertz));
  expect(samples.length).toBe(WINDOW);
  expect(pace).toBeCloseTo(seconds / 30, 6);
  const expected = tone(WINDOW, hertz * pace);
  const difference = samples.map((sample, n) => sample - (expected[n] ?? 0));
  expect(level(difference)).toBeLessThan(level(expected) * 0.02);
});

test("what would be above the highest frequency is damped and not folded down", () => {
  const { samples } = fitWindow(tone(31.5 * RATE_HZ, 7_990));
  expect(level(samples)).toBeLessThan(level(tone(WINDOW, 7_990)) * 0.5);
});

test.each([
  [29.5, 10_000, 20_000],
  [31.2, 10_400, 20_800],
])("times are those of the %d s before they were fitted", async (seconds, startMs, endMs) => {
  const heard = await recognizeFitted(tone(seconds * RATE_HZ, 440), async (fitted) => {
    expect(fitted.length).toBeLessThanOrEqual(WINDOW);
    return [{ startMs: 10_000, endMs: 20_000, text: "words" }];
  });
  expect(heard).toEqual([
    { startMs: expect.closeTo(startMs, 6), endMs: expect.closeTo(endMs, 6), text: "words" },
  ]);
});
