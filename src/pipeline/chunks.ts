import { type Chunk, type ChunkRegion, SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import type { ModelDecoding } from "../domain/model.ts";
import { CHUNK_GAP_SAMPLES } from "./chunk-audio.ts";

/** Loudness over the whole recording, for cutting long speech at its quietest point. */
export type LevelEnvelope = {
  /** Length of a frame; frame n covers samples n × frameSamples to (n + 1) × frameSamples. */
  frameSamples: number;
  /** One value a frame; only their order matters, lower is quieter. */
  values: ArrayLike<number>;
};

export type PackOptions = {
  /** Most audio in a chunk, kept silence included; Whisper's window is 30 000. */
  maxChunkMs?: number;
  /** Most silence kept between two regions. Must be what `layoutChunk` is given; its default is. */
  gapSamples?: number;
  levels?: LevelEnvelope;
};

/** How a model's recordings are packed. */
export function chunkOptions(decoding: Pick<ModelDecoding, "maxChunkMs">): PackOptions {
  return decoding.maxChunkMs === undefined ? {} : { maxChunkMs: decoding.maxChunkMs };
}

/** Half a second below Whisper's window, so that rounding of times never opens a second window. */
const DEFAULT_MAX_CHUNK_MS = 29_500;
/** Frames are judged together with their neighbours over this span: one quiet frame is no pause. */
const PAUSE_MS = 120;

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
    for (const part of cutRegion(region, maxSamples, options.levels)) {
      const previous = current.at(-1);
      const silence = previous ? Math.min(gapSamples, part.startSample - previous.endSample) : 0;
      const added = silence + part.endSample - part.startSample;
      if (previous && filled + added > maxSamples) {
        chunks.push(toChunk(current));
        current = [part];
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
 * A region in parts of at most `maxSamples`. With levels each cut falls on the quietest point of the second half of
 * the longest possible part, the latest one where several are equal. Without, or where the levels end before it, the
 * region is cut into equal parts, so that no short rest is left over that would be hard to understand.
 */
function cutRegion(
  region: ChunkRegion,
  maxSamples: number,
  levels: LevelEnvelope | undefined,
): ChunkRegion[] {
  const parts: ChunkRegion[] = [];
  let start = region.startSample;
  const addPart = (endSample: number) => {
    const isFirst = start === region.startSample;
    const isLast = endSample === region.endSample;
    parts.push({
      startSample: start,
      endSample,
      ...(isFirst ? atStart(region) : { isCutAtStart: true }),
      ...(isLast ? atEnd(region) : { isCutAtEnd: true }),
    });
    start = endSample;
  };
  while (region.endSample - start > maxSamples) {
    const rest = region.endSample - start;
    const equal = start + Math.ceil(rest / Math.ceil(rest / maxSamples));
    const cut = levels && quietestPoint(levels, start + Math.ceil(maxSamples / 2), start + maxSamples);
    addPart(cut ?? equal);
  }
  if (region.endSample > start) addPart(region.endSample);
  return parts;
}

function atStart({ isCutAtStart }: ChunkRegion): Pick<ChunkRegion, "isCutAtStart"> {
  return isCutAtStart ? { isCutAtStart } : {};
}

function atEnd({ isCutAtEnd }: ChunkRegion): Pick<ChunkRegion, "isCutAtEnd"> {
  return isCutAtEnd ? { isCutAtEnd } : {};
}

/** The middle of the quietest stretch within `[earliest, latest]`; undefined where no frame lies wholly inside. */
function quietestPoint(levels: LevelEnvelope, earliest: number, latest: number): number | undefined {
  const { frameSamples, values } = levels;
  const reach = Math.round((PAUSE_MS * SAMPLE_RATE_HZ) / 1000 / frameSamples / 2);
  const last = Math.min(values.length, Math.floor(latest / frameSamples)) - 1;
  let best: number | undefined;
  let bestLevel = Number.POSITIVE_INFINITY;
  for (let frame = Math.ceil(earliest / frameSamples); frame <= last; frame++) {
    let level = 0;
    for (let near = frame - reach; near <= frame + reach; near++) level += values[near] ?? values[frame] ?? 0;
    if (level <= bestLevel) {
      bestLevel = level;
      best = frame;
    }
  }
  return best === undefined ? undefined : Math.round((best + 0.5) * frameSamples);
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
