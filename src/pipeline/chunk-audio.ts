import { type ChunkRegion, SAMPLE_RATE_HZ } from "../domain/chunk.ts";

/**
 * Silence kept between two regions of a chunk: long enough for the model to recognize a pause, too short to cost time.
 * The layout of audio and the restoring of times must use the same value.
 */
export const CHUNK_GAP_SAMPLES = 0.4 * SAMPLE_RATE_HZ;

/** Samples to copy from the recording into the chunk's audio. */
export type AudioSlice = { sourceStartSample: number; samples: number; targetStartSample: number };

/** The origin of each sample of a chunk's audio. The slices follow each other without holes. */
export type ChunkLayout = { slices: AudioSlice[]; totalSamples: number };

/**
 * Lays out a chunk's audio: its regions in order, and between two of them at most `gapSamples` of silence. The middle of
 * a longer silence is left out. The recording's own background noise stays on both sides, because the model takes a step
 * to digital zero for a sound. Nothing is added before the first region and after the last, unless a region says so.
 *
 * @param speech samples, in order, not overlapping, none empty
 * @param gapSamples whole samples, not negative
 * @throws RangeError for regions that are empty, overlap or are out of order
 */
export function layoutChunk(speech: readonly ChunkRegion[], gapSamples = CHUNK_GAP_SAMPLES): ChunkLayout {
  const regions = speech.map(({ startSample, endSample, pauseBefore = 0, pauseAfter = 0 }) => ({
    startSample: startSample - pauseBefore,
    endSample: endSample + pauseAfter,
  }));
  requireInOrder(regions);
  const slices: AudioSlice[] = [];
  let targetStartSample = 0;
  let startSample = regions[0]?.startSample ?? 0;
  const addSlice = (endSample: number) => {
    const samples = endSample - startSample;
    if (samples === 0) return;
    slices.push({ sourceStartSample: startSample, samples, targetStartSample });
    targetStartSample += samples;
  };
  for (const [index, region] of regions.entries()) {
    const next = regions[index + 1];
    if (next === undefined) {
      addSlice(region.endSample);
    } else if (next.startSample - region.endSample > gapSamples) {
      const before = Math.ceil(gapSamples / 2);
      addSlice(region.endSample + before);
      startSample = next.startSample - (gapSamples - before);
    }
  }
  return { slices, totalSamples: targetStartSample };
}

/**
 * Converts a time within a chunk's audio to a time of the recording. It is the inverse of `layoutChunk`.
 *
 * @param chunkMs milliseconds, also fractions; times outside the audio are set to its start or end
 * @param edge the side of a splice: a `start` at a splice is after the silence that was left out, an `end` before it
 * @returns milliseconds of the recording, not rounded
 */
export function restoreTime(layout: ChunkLayout, chunkMs: number, edge: "start" | "end" = "start"): number {
  const { slices, totalSamples } = layout;
  const target = Math.min(Math.max((chunkMs * SAMPLE_RATE_HZ) / 1000, 0), totalSamples);
  let low = 0;
  let high = slices.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    const start = slices[middle]?.targetStartSample ?? 0;
    if (edge === "start" ? start <= target : start < target) low = middle;
    else high = middle - 1;
  }
  const slice = slices[low];
  if (slice === undefined) return 0;
  return ((slice.sourceStartSample + target - slice.targetStartSample) * 1000) / SAMPLE_RATE_HZ;
}

function requireInOrder(regions: readonly ChunkRegion[]): void {
  let previousEnd = 0;
  for (const { startSample, endSample } of regions) {
    if (startSample < previousEnd || endSample <= startSample) {
      throw new RangeError(`regions overlap, are empty or out of order at sample ${startSample}`);
    }
    previousEnd = endSample;
  }
}
