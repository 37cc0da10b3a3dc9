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

/**
 * Packs speech regions into chunks that fill the model's window (docs/engine.md section 3). Each chunk takes regions as
 * long as they fit, with the silences between them shortened. The order is kept. Only regions longer than a chunk are
 * divided. Such greedy filling gives the fewest chunks. Time and memory are linear in the number of regions.
 *
 * @param regions samples, in order, not overlapping; empty regions are left out
 * @returns chunks in order of time; none when there is no speech
 * @throws RangeError when a chunk could hold nothing
 */
export function packChunks(regions: readonly ChunkRegion[], limits: ChunkLimits): Chunk[] {
  if (limits.maxSamples < 1) throw new RangeError("a chunk must hold at least one sample");
  const filling = createFilling(limits);
  const chunks: Chunk[] = [];
  let current: ChunkRegion[] = [];
  for (const region of regions) {
    for (let part of cutRegion(region, limits.maxSamples)) {
      const previous = current.at(-1);
      if (previous && part.endSample - part.startSample > filling.spaceFrom(part.startSample)) {
        if (part.startSample - previous.endSample <= SPLICE_SAMPLES) {
          current[current.length - 1] = { ...previous, isCutAtEnd: true };
          part = { ...part, isCutAtStart: true };
        }
        chunks.push(toChunk(current));
        current = [];
        filling.next();
      }
      current.push(part);
      filling.add(part);
    }
  }
  if (current.length > 0) chunks.push(toChunk(current));
  return chunks;
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
