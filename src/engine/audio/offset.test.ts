import { expect, test } from "bun:test";
import { offsetRemover, removeOffset, sumsOf } from "./offset.ts";

const RATE = 16_000;
/** A second of a tone on a constant offset, in units of 16-bit samples. */
const tone = (offset: number, amplitude = 3000, samples = RATE) =>
  Int16Array.from(
    { length: samples },
    (_, n) => offset + amplitude * Math.sin((2 * Math.PI * 200 * n) / RATE),
  );
const meanOf = (samples: Iterable<number>) => {
  const all = [...samples];
  return all.reduce((sum, sample) => sum + sample, 0) / all.length;
};

test("a chunk loses its offset, and the gaps between its slices stay silent", () => {
  const samples = new Float32Array(3 * RATE);
  for (const [start, pcm] of [
    [0, tone(800)],
    [2 * RATE, tone(800)],
  ] as const)
    samples.set(
      Float32Array.from(pcm, (sample) => sample / 32_768),
      start,
    );
  removeOffset(samples);
  expect(Math.abs(meanOf(samples.subarray(0, RATE)))).toBeLessThan(0.0001);
  expect(samples.subarray(RATE, 2 * RATE).every((sample) => sample === 0)).toBe(true);
  expect(Math.abs(meanOf(samples.subarray(2 * RATE)))).toBeLessThan(0.0001);
});

test("sound without an offset keeps every bit", () => {
  for (const offset of [0, 20, -20, 150]) {
    const samples = Float32Array.from(tone(offset), (sample) => sample / 32_768);
    const before = samples.slice();
    removeOffset(samples);
    expect(samples).toEqual(before);
    const block = tone(offset);
    expect(offsetRemover(RATE)(block, sumsOf(block))).toBe(false);
    expect(block).toEqual(tone(offset));
  }
});

test("blocks have offsets of their own; a short last one takes that of the block before it", () => {
  const remove = offsetRemover(RATE);
  const [first, second] = [tone(1000), tone(-4000)];
  // Too short for a mean: half a wave.
  const last = tone(-4000, 3000, 40);
  for (const block of [first, second, last]) remove(block, sumsOf(block));
  expect(Math.abs(meanOf(first))).toBeLessThan(1);
  expect(Math.abs(meanOf(second))).toBeLessThan(1);
  expect([...last]).toEqual([...tone(-4000, 3000, 40)].map((sample) => sample + 4000));
});

test("a short recording has the offset of its only block", () => {
  const block = tone(1000, 3000, 8000);
  expect(offsetRemover(RATE)(block, sumsOf(block))).toBe(true);
  expect(Math.abs(meanOf(block))).toBeLessThan(1);
});

test("samples at full scale do not change their sign, and an empty block stays empty", () => {
  const block = new Int16Array(2 * RATE).fill(-30_000, 0, RATE - 10).fill(32_767, RATE - 10, RATE);
  offsetRemover(1)(block, sumsOf(block));
  expect(block[RATE - 1]).toBe(32_767);
  expect(block.subarray(RATE).every((sample) => sample === 0)).toBe(true);
  removeOffset(new Float32Array(0));
  offsetRemover(RATE)(new Int16Array(0), sumsOf(new Int16Array(0)));
});
