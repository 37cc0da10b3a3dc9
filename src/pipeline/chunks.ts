import {
  type Chunk,
  type ChunkLimits,
  type ChunkRegion,
  createFilling,
  SAMPLE_RATE_HZ,
  SPLICE_SAMPLES,
} from "../domain/chunk.ts";
import { CHUNK_GAP_SAMPLES } from "./chunk-audio.ts";

/** Returns the limits of a chunk for the speech detector, which cuts long speech, and for packing. */
export function chunkLimits(maxChunkMs: number): ChunkLimits {
  return { maxSamples: Math.floor((maxChunkMs * SAMPLE_RATE_HZ) / 1000), gapSamples: CHUNK_GAP_SAMPLES };
}

/** Packs regions one after the other. Time and memory are linear in the number of regions. */
export type Packer = {
  /** Adds the next regions, and returns the chunks that they have filled. */
  add(regions: readonly ChunkRegion[]): Chunk[];
  /** Returns the last chunk, which may still have grown; none when there is no speech. */
  end(): Chunk[];
};

/**
 * Packs speech regions into chunks that fill the model's window (docs/engine.md section 3). Each chunk takes regions as
 * long as they fit, with the silences between them shortened. The order is kept. Only regions longer than a chunk are
 * divided. Such greedy filling gives the fewest chunks.
 *
 * Regions are in samples, in order, and do not overlap. Empty ones are left out. Chunks are in order of time.
 *
 * @throws RangeError when a chunk could hold nothing
 */
export function createPacker(limits: ChunkLimits): Packer {
  if (limits.maxSamples < 1) throw new RangeError("a chunk must hold at least one sample");
  const filling = createFilling(limits);
  let current: ChunkRegion[] = [];

  function addPart(part: ChunkRegion, chunks: Chunk[]): void {
    const previous = current.at(-1);
    let own = part;
    if (previous && part.endSample - part.startSample > filling.spaceFrom(part.startSample)) {
      if (part.startSample - previous.endSample <= SPLICE_SAMPLES) {
        current[current.length - 1] = { ...previous, isCutAtEnd: true };
        own = { ...part, isCutAtStart: true };
      }
      chunks.push(toChunk(current));
      current = [];
      filling.next();
    }
    current.push(own);
    filling.add(own);
  }

  return {
    add(regions) {
      const chunks: Chunk[] = [];
      for (const region of regions)
        for (const part of cutRegion(region, limits.maxSamples)) addPart(part, chunks);
      return chunks;
    },
    end: () => (current.length > 0 ? [toChunk(current)] : []),
  };
}

/**
 * Cuts a region into equal parts of at most `maxSamples`, so that no short rest is left, which would be hard to
 * recognize. The speech detector cuts at pauses. This function is for regions that it has not cut.
 */
function cutRegion(region: ChunkRegion, maxSamples: number): ChunkRegion[] {
  const parts: ChunkRegion[] = [];
  let start = region.startSample;
  while (region.endSample - start > maxSamples) {
    const rest = region.endSample - start;
    const end = start + Math.ceil(rest / Math.ceil(rest / maxSamples));
    parts.push({ startSample: start, endSample: end });
    start = end;
  }
  if (region.endSample > start) parts.push({ startSample: start, endSample: region.endSample });
  return parts;
}

function toChunk(regions: ChunkRegion[]): Chunk {
  const samples = regions.reduce((sum, { startSample, endSample }) => sum + endSample - startSample, 0);
  return {
    startMs: Math.floor(((regions[0]?.startSample ?? 0) * 1000) / SAMPLE_RATE_HZ),
    endMs: Math.ceil(((regions.at(-1)?.endSample ?? 0) * 1000) / SAMPLE_RATE_HZ),
    speechMs: Math.round((samples * 1000) / SAMPLE_RATE_HZ),
    regions,
  };
}

/**
 * Gives the only chunk of a recording all of its sound, where that fits into a chunk. A model that normalizes its input
 * then reads what it would read of the whole file (`FamilyRules.normalizesChunks`).
 *
 * @param chunks all chunks of a track
 * @param samples length of the track
 * @returns the same chunks where there are several, or where the track is longer than a chunk may be
 */
export function withWholeTrack(
  chunks: readonly Chunk[],
  samples: number,
  { maxSamples }: ChunkLimits,
): readonly Chunk[] {
  const [only] = chunks;
  if (!only || chunks.length > 1 || samples > maxSamples) return chunks;
  const { regions } = only;
  const last = regions.length - 1;
  const whole = regions.map((region, index) => ({
    ...region,
    pauseBefore: region.startSample - (regions[index - 1]?.endSample ?? 0),
    ...(index === last ? { pauseAfter: samples - region.endSample } : {}),
  }));
  return [{ ...only, regions: whole }];
}
