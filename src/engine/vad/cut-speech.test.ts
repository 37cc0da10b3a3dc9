import { expect, test } from "bun:test";
import fc from "fast-check";
import { packChunks } from "../../testing/makers/pack-chunks.ts";
import { cutLongRegions } from "./cut-speech.ts";

const RATE_HZ = 16_000;
const frameSamples = 320;
const gapSamples = 0.4 * RATE_HZ;
const WINDOW = { maxSamples: 29.5 * RATE_HZ, gapSamples };
const FRAMES_PER_SECOND = RATE_HZ / frameSamples;
const evenLevels = (seconds: number) => new Float32Array(seconds * FRAMES_PER_SECOND).fill(0.5);

test("speech is cut at its quietest point, and a single quiet frame is not a pause", () => {
  const values = evenLevels(48);
  values[28 * FRAMES_PER_SECOND] = 0;
  for (let frame = 20 * FRAMES_PER_SECOND; frame < 20 * FRAMES_PER_SECOND + 10; frame++) values[frame] = 0.05;
  const whole = { startSample: 0, endSample: 48 * RATE_HZ };
  const [first, second, ...more] = cutLongRegions([whole], WINDOW, { frameSamples, values });
  expect(more).toEqual([]);
  expect((first?.endSample ?? 0) / RATE_HZ).toBeGreaterThan(20);
  expect((first?.endSample ?? 0) / RATE_HZ).toBeLessThan(20.2);
  expect(second).toEqual({ startSample: first?.endSample ?? 0, endSample: 48 * RATE_HZ });
});

test("of equally quiet pauses the latest is chosen, because a full window costs no more than a short one", () => {
  const values = evenLevels(48);
  const pauseAt = (second: number, level: number) =>
    values.fill(level, second * FRAMES_PER_SECOND, second * FRAMES_PER_SECOND + 10);
  pauseAt(17, 0.02);
  pauseAt(26, 0.06);
  pauseAt(28, 0.3);
  const whole = { startSample: 0, endSample: 48 * RATE_HZ };
  const [first] = cutLongRegions([whole], WINDOW, { frameSamples, values });
  expect((first?.endSample ?? 0) / RATE_HZ).toBeGreaterThan(26);
  expect((first?.endSample ?? 0) / RATE_HZ).toBeLessThan(26.2);
});

test("no short remainder is left, short regions are not cut, and missing levels do no harm", () => {
  const short = { startSample: 0, endSample: 100 };
  const long = { startSample: 1_000, endSample: 1_000 + 5.1 * RATE_HZ };
  const levels = { frameSamples, values: evenLevels(10) };
  const parts = cutLongRegions([short, long], { maxSamples: 5 * RATE_HZ, gapSamples }, levels);
  expect(parts[0]).toEqual(short);
  expect(parts).toHaveLength(3);
  const rest = parts[2];
  expect((rest?.endSample ?? 0) - (rest?.startSample ?? 0)).toBeGreaterThan(0.6 * RATE_HZ);
  const blind = cutLongRegions([long], { maxSamples: 5 * RATE_HZ, gapSamples }, { frameSamples, values: [] });
  expect(blind.at(-1)?.endSample).toBe(long.endSample);
});

test("the parts add up to the regions, and none is too long", () => {
  const level = fc.integer({ min: 0, max: 240 });
  const region = fc.tuple(fc.integer({ min: 0, max: 9_000 }), fc.integer({ min: 1, max: 90_000 }));
  fc.assert(
    fc.property(
      fc.array(region, { maxLength: 5 }),
      fc.integer({ min: 16 * frameSamples, max: 40_000 }),
      fc.array(level, { maxLength: 600 }),
      (pairs, maxSamples, values) => {
        let at = 0;
        const regions = pairs.map(([silence, length]) => {
          const startSample = at + silence;
          at = startSample + length;
          return { startSample, endSample: at };
        });
        const parts = cutLongRegions(regions, { maxSamples, gapSamples }, { frameSamples, values });
        const merged: typeof parts = [];
        const starts = new Set(regions.map(({ startSample }) => startSample));
        for (const part of parts) {
          expect(part.endSample - part.startSample).toBeGreaterThan(0);
          expect(part.endSample - part.startSample).toBeLessThanOrEqual(maxSamples);
          const last = merged.at(-1);
          if (last && last.endSample === part.startSample && !starts.has(part.startSample)) {
            last.endSample = part.endSample;
          } else {
            merged.push({ ...part });
          }
        }
        expect(merged).toEqual(regions);
      },
    ),
  );
});

test("a region of at least half a chunk is divided when its beginning fills the previous chunk", () => {
  const values = evenLevels(120).fill(180);
  const pauseAt = (second: number) =>
    values.fill(120, second * FRAMES_PER_SECOND, second * FRAMES_PER_SECOND + 6);
  for (const second of [28, 33, 52]) pauseAt(second);
  const stretch = (start: number, end: number) => ({
    startSample: start * RATE_HZ,
    endSample: end * RATE_HZ,
  });
  const cutsOf = (...regions: { startSample: number; endSample: number }[]) => {
    const starts = new Set(regions.map(({ startSample }) => startSample));
    return cutLongRegions(regions, WINDOW, { frameSamples, values })
      .map(({ startSample }) => startSample)
      .filter((start) => !starts.has(start))
      .map((start) => Math.floor(start / RATE_HZ));
  };
  expect(cutsOf(stretch(0, 15), stretch(20, 40))).toEqual([33]);
  // Eleven seconds without a pause.
  expect(cutsOf(stretch(0, 20), stretch(24, 35))).toEqual([]);
  // Speech without any pause stays whole if it fits into a chunk.
  expect(cutsOf(stretch(0, 15), stretch(60, 80))).toEqual([]);
  // A second and a half of free space is too little to begin in.
  expect(cutsOf(stretch(0, 27.6), stretch(28, 50))).toEqual([]);
});

test("after packing, parts of one region meet only at the ends of chunks", () => {
  const region = fc.tuple(fc.integer({ min: 400, max: 90_000 }), fc.integer({ min: 1, max: 1_500_000 }));
  fc.assert(
    fc.property(
      fc.array(region, { maxLength: 8 }),
      fc.array(fc.integer({ min: 0, max: 240 }), { minLength: 1, maxLength: 300 }),
      (pairs, pattern) => {
        let at = 0;
        const regions = pairs.map(([silence, length]) => {
          const startSample = at + silence;
          at = startSample + length;
          return { startSample, endSample: at };
        });
        const values = Array.from(
          { length: Math.ceil(at / frameSamples) },
          (_, n) => pattern[n % pattern.length] ?? 0,
        );
        const chunks = packChunks(cutLongRegions(regions, WINDOW, { frameSamples, values }), WINDOW);
        for (const chunk of chunks) {
          for (const [index, { startSample }] of chunk.regions.entries()) {
            const previous = chunk.regions[index - 1];
            if (previous) expect(startSample).toBeGreaterThan(previous.endSample);
          }
        }
      },
    ),
  );
});
