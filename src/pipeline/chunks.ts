import { type Chunk, type ChunkRegion, SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import type { ModelDecoding } from "../domain/model.ts";
import { CHUNK_GAP_SAMPLES } from "./chunk-audio.ts";

export type PackOptions = {
  /** Most audio in a chunk, kept silence included; Whisper's window is 30 000. */
  maxChunkMs?: number;
  /** Most silence kept between two regions. Must be what `layoutChunk` is given; its default is. */
  gapSamples?: number;
};

/** Longest stretch of speech that a model is given at once: what the speech detector is asked to cut at. */
export function maxSpeechMs(decoding: Pick<ModelDecoding, "maxChunkMs">): number {
  return decoding.maxChunkMs ?? DEFAULT_MAX_CHUNK_MS;
}

/** How a model's recordings are packed. */
export function chunkOptions(decoding: Pick<ModelDecoding, "maxChunkMs">): PackOptions {
  return decoding.maxChunkMs === undefined ? {} : { maxChunkMs: decoding.maxChunkMs };
}

/** Regions that lie no further apart were one, or share the silence between them: neither has its whole padding. */
const SPLICE_SAMPLES = 1;
/** Half a second below Whisper's window, so that rounding of times never opens a second window. */
const DEFAULT_MAX_CHUNK_MS = 29_500;

/**
 * Packs speech regions into chunks that fill the decoder's window (engine-notes, "Chunks"): each takes regions as
 * long as they fit, silences between them shortened. The order is kept and no region is divided without need, which
 * with greedy filling gives the fewest chunks. Regions longer than a chunk are cut first.
 *
 * Time and memory are linear in the number of regions.
 *
 * @param regions samples, in order, not overlapping; empty ones are left out
 * @returns chunks in order of time; none when there is no speech
 */
export function packChunks(regions: readonly ChunkRegion[], options: PackOptions = {}): Chunk[] {
  const maxSamples = Math.floor(((options.maxChunkMs ?? DEFAULT_MAX_CHUNK_MS) * SAMPLE_RATE_HZ) / 1000);
  const gapSamples = options.gapSamples ?? CHUNK_GAP_SAMPLES;
  if (maxSamples < 1) throw new RangeError("a chunk must hold at least one sample");
  const chunks: Chunk[] = [];
  let current: ChunkRegion[] = [];
  let filled = 0;
  for (const region of regions) {
    for (const part of cutRegion(region, maxSamples)) {
      const previous = current.at(-1);
      const silence = previous ? Math.min(gapSamples, part.startSample - previous.endSample) : 0;
      const added = silence + part.endSample - part.startSample;
      if (previous && filled + added > maxSamples) {
        const isCut = part.startSample - previous.endSample <= SPLICE_SAMPLES;
        if (isCut) current[current.length - 1] = { ...previous, isCutAtEnd: true };
        chunks.push(toChunk(current));
        current = [isCut ? { ...part, isCutAtStart: true } : part];
        filled = part.endSample - part.startSample;
      } else {
        current.push(part);
        filled += added;
      }
    }
  }
  if (current.length > 0) chunks.push(toChunk(current));
  return chunks;
}

/**
 * A region in equal parts of at most `maxSamples`, so that no short rest is left over that would be hard to
 * understand. The speech detector cuts at quiet points (`maxSpeechMs`); this is for regions of other origin.
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
