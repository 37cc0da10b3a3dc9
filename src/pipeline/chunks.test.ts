import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type ChunkRegion, SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import { packChunks } from "../testing/makers/pack-chunks.ts";
import { layoutChunk, restoreTime } from "./chunk-audio.ts";
import { chunkLimits, withWholeTrack } from "./chunks.ts";

const WINDOW = chunkLimits(29_500);

const seconds = (startS: number, endS: number): ChunkRegion => ({
  startSample: Math.round(startS * SAMPLE_RATE_HZ),
  endSample: Math.round(endS * SAMPLE_RATE_HZ),
});

/** Makes regions in order from pairs of (silence before, length) in samples. */
const regionsArbitrary = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 200_000 }), fc.integer({ min: 1, max: 300_000 })), {
    maxLength: 40,
  })
  .map((pairs) => {
    let at = 0;
    return pairs.map(([silence, length]) => {
      const startSample = at + silence;
      at = startSample + length;
      return { startSample, endSample: at };
    });
  });

/** Counts the samples of a layout without making it. */
function laidOutSamples(regions: readonly ChunkRegion[], gapSamples: number): number {
  let total = 0;
  let previousEnd: number | undefined;
  for (const { startSample, endSample } of regions) {
    total += endSample - startSample;
    if (previousEnd !== undefined) total += Math.min(gapSamples, startSample - previousEnd);
    previousEnd = endSample;
  }
  return total;
}

describe("packChunks", () => {
  test("fills windows and shortens silence", () => {
    const regions = [seconds(10, 20), seconds(120, 130), seconds(300, 308), seconds(400, 405)];
    expect(packChunks(regions, WINDOW)).toEqual([
      { startMs: 10_000, endMs: 308_000, speechMs: 28_000, regions: regions.slice(0, 3) },
      { startMs: 400_000, endMs: 405_000, speechMs: 5_000, regions: regions.slice(3) },
    ]);
  });

  test("makes no chunks from silence", () => {
    expect(packChunks([], WINDOW)).toEqual([]);
    expect(packChunks([{ startSample: 5, endSample: 5 }], WINDOW)).toEqual([]);
  });

  test("cuts long speech into equal parts", () => {
    const lengths = packChunks([seconds(0, 60)], WINDOW).map(({ speechMs }) => speechMs);
    expect(lengths).toEqual([20_000, 20_000, 20_000]);
  });

  test("keeps every sample of speech, in order, within the window", () => {
    fc.assert(
      fc.property(regionsArbitrary, fc.integer({ min: 100, max: 30_000 }), (regions, maxChunkMs) => {
        const chunks = packChunks(regions, chunkLimits(maxChunkMs));
        const parts = chunks.flatMap((chunk) => chunk.regions);
        let at = 0;
        for (const { startSample, endSample } of parts) {
          expect(startSample).toBeGreaterThanOrEqual(at);
          at = endSample;
        }
        const sum = (list: ChunkRegion[]) => list.reduce((n, r) => n + r.endSample - r.startSample, 0);
        expect(sum(parts)).toBe(sum(regions));
        for (const chunk of chunks) {
          expect(layoutChunk(chunk.regions).totalSamples).toBeLessThanOrEqual(
            (maxChunkMs * SAMPLE_RATE_HZ) / 1000,
          );
        }
      }),
    );
  });

  test("packs twelve hours of short turns in little time", () => {
    const regions = Array.from({ length: 30_000 }, (_, i) => seconds(i * 1.4, i * 1.4 + 1));
    const startedMs = performance.now();
    const chunks = packChunks(regions, WINDOW);
    // Measured: 10 ms. A comparison of every region with every other would take many seconds.
    expect(performance.now() - startedMs).toBeLessThan(2_000);
    expect(chunks.length).toBe(Math.ceil(30_000 / 21));
  });
});

describe("withWholeTrack", () => {
  const track = 20 * SAMPLE_RATE_HZ;
  test("gives the only chunk all sound of its track, and its times are those of the recording", () => {
    const chunks = packChunks([seconds(1, 2), seconds(5, 6), seconds(9, 11)], WINDOW);
    const [chunk] = withWholeTrack(chunks, track, WINDOW);
    const layout = layoutChunk(chunk?.regions ?? []);
    expect(layout).toEqual({
      slices: [{ sourceStartSample: 0, samples: track, targetStartSample: 0 }],
      totalSamples: track,
    });
    expect(restoreTime(layout, 9_250)).toBe(9_250);
    expect(chunk).toMatchObject({ startMs: 1_000, endMs: 11_000, speechMs: 4_000 });
  });
  test.each([
    ["a track that is longer than a chunk", [seconds(1, 2)], 29.6 * SAMPLE_RATE_HZ],
    ["several chunks", [seconds(0, 20), seconds(40, 60)], 29 * SAMPLE_RATE_HZ],
    ["no speech", [], track],
  ])("leaves %s as it is", (_name, regions, samples) => {
    const chunks = packChunks(regions, chunkLimits(29_000));
    expect(withWholeTrack(chunks, samples, chunkLimits(29_000))).toEqual(chunks);
  });
});

describe("layoutChunk", () => {
  test("leaves out the middle of a long silence and keeps a short one", () => {
    const regions = [
      { startSample: 1_000, endSample: 2_000 },
      { startSample: 2_050, endSample: 3_000 },
      { startSample: 9_000, endSample: 9_500 },
    ];
    expect(layoutChunk(regions, 101)).toEqual({
      slices: [
        { sourceStartSample: 1_000, samples: 2_051, targetStartSample: 0 },
        { sourceStartSample: 8_950, samples: 550, targetStartSample: 2_051 },
      ],
      totalSamples: 2_601,
    });
  });

  test("refuses regions out of order", () => {
    expect(() => layoutChunk([seconds(2, 3), seconds(1, 2)])).toThrow(RangeError);
    expect(() => layoutChunk([seconds(1, 1)])).toThrow(RangeError);
  });

  test("lays out every sample of speech once, and its time can be restored exactly", () => {
    fc.assert(
      fc.property(
        regionsArbitrary,
        fc.integer({ min: 0, max: 20_000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (regions, gapSamples, share) => {
          const layout = layoutChunk(regions, gapSamples);
          expect(layout.totalSamples).toBe(laidOutSamples(regions, gapSamples));
          for (const { startSample, endSample } of regions) {
            const sample = Math.min(
              Math.floor(startSample + share * (endSample - startSample)),
              endSample - 1,
            );
            const piece = layout.slices.find(
              (p) => p.sourceStartSample <= sample && sample < p.sourceStartSample + p.samples,
            );
            if (!piece) throw new Error("speech was left out");
            const target = piece.targetStartSample + sample - piece.sourceStartSample;
            const restoredMs = restoreTime(layout, (target * 1000) / SAMPLE_RATE_HZ);
            expect(Math.abs(restoredMs - (sample * 1000) / SAMPLE_RATE_HZ)).toBeLessThan(1e-6);
          }
        },
      ),
    );
  });

  test("assigns a splice to the end of one region and to the start of the next", () => {
    const layout = layoutChunk([seconds(1, 2), seconds(60, 61)], 0);
    expect(restoreTime(layout, 1_000, "end")).toBe(2_000);
    expect(restoreTime(layout, 1_000, "start")).toBe(60_000);
    expect(restoreTime(layout, -5)).toBe(1_000);
    expect(restoreTime(layout, 99_000, "end")).toBe(61_000);
    expect(restoreTime(layoutChunk([]), 3)).toBe(0);
  });
});
