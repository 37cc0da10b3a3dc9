import { type ChunkRegion, SAMPLE_RATE_HZ } from "../domain/chunk.ts";

/**
 * Silence kept between two regions of a chunk. Enough for the decoder to hear a pause, too short to cost anything.
 * The layout of a chunk depends on it: whoever lays audio out and whoever restores times use this one value.
 */
export const CHUNK_GAP_SAMPLES = 0.4 * SAMPLE_RATE_HZ;

/** One stretch to copy from the recording into the decoder's audio. */
export type AudioPiece = { sourceStartSample: number; samples: number; targetStartSample: number };

/** Where each sample of the decoder's audio comes from; the pieces follow each other without holes. */
export type ChunkLayout = { pieces: AudioPiece[]; totalSamples: number };

/**
 * How a chunk's audio is put together: its regions in order, and between two of them at most `gapSamples` of silence.
 * A longer silence loses its middle; what stays is the recording's own room tone on both sides, because the decoder
 * takes a hard step to digital zero for an event. Nothing is added before the first region and after the last.
 *
 * @param regions samples, in order, not overlapping, none empty
 * @param gapSamples whole samples, not negative
 * @throws RangeError for regions that are empty, overlap or are out of order
 */
export function layoutChunk(regions: readonly ChunkRegion[], gapSamples = CHUNK_GAP_SAMPLES): ChunkLayout {
  requireInOrder(regions);
  const pieces: AudioPiece[] = [];
  let targetStartSample = 0;
  let startSample = regions[0]?.startSample ?? 0;
  const addPiece = (endSample: number) => {
    const samples = endSample - startSample;
    if (samples === 0) return;
    pieces.push({ sourceStartSample: startSample, samples, targetStartSample });
    targetStartSample += samples;
  };
  for (const [index, region] of regions.entries()) {
    const next = regions[index + 1];
    if (next === undefined) {
      addPiece(region.endSample);
    } else if (next.startSample - region.endSample > gapSamples) {
      const before = Math.ceil(gapSamples / 2);
      addPiece(region.endSample + before);
      startSample = next.startSample - (gapSamples - before);
    }
  }
  return { pieces, totalSamples: targetStartSample };
}

/** Samples of the decoder's audio that these regions come to; equals `layoutChunk(…).totalSamples`. */
export function laidOutSamples(regions: readonly ChunkRegion[], gapSamples = CHUNK_GAP_SAMPLES): number {
  let total = 0;
  let previousEnd: number | undefined;
  for (const { startSample, endSample } of regions) {
    total += endSample - startSample;
    if (previousEnd !== undefined) total += Math.min(gapSamples, startSample - previousEnd);
    previousEnd = endSample;
  }
  return total;
}

/**
 * A time within the decoder's audio as a time on the recording's clock: the inverse of `layoutChunk`.
 *
 * @param chunkMs milliseconds, also fractions; outside the audio it counts as its first or last instant
 * @param edge which side of a splice is meant: what starts there starts after the silence that was left out, what
 *   ends there ends before it
 * @returns milliseconds on the recording's clock, not rounded
 */
export function restoreTime(layout: ChunkLayout, chunkMs: number, edge: "start" | "end" = "start"): number {
  const { pieces, totalSamples } = layout;
  const target = Math.min(Math.max((chunkMs * SAMPLE_RATE_HZ) / 1000, 0), totalSamples);
  let low = 0;
  let high = pieces.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    const start = pieces[middle]?.targetStartSample ?? 0;
    if (edge === "start" ? start <= target : start < target) low = middle;
    else high = middle - 1;
  }
  const piece = pieces[low];
  if (piece === undefined) return 0;
  return ((piece.sourceStartSample + target - piece.targetStartSample) * 1000) / SAMPLE_RATE_HZ;
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
