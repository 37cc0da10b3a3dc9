import { type ChunkLimits, createFilling, SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import type { SpeechRegion } from "../../domain/speech.ts";

/** Levels over a whole recording. */
export type LevelEnvelope = {
  /** Length of a frame. Frame n covers the samples from n × frameSamples to (n + 1) × frameSamples. */
  frameSamples: number;
  /** One value for each frame, in half decibels; lower is quieter. */
  values: ArrayLike<number>;
};

/** The level of a frame is averaged over this span, because a single quiet frame is not a pause. */
const PAUSE_SAMPLES = 0.12 * SAMPLE_RATE_HZ;
/** The shortest rest of a cut region, as a share of the longest part: shorter speech is hard to recognize. */
const SHORTEST_REST = 1 / 8;
/** A beginning of a region that is shorter than this does not go into the rest of a chunk. */
const SHORTEST_BEGINNING_SAMPLES = 2 * SAMPLE_RATE_HZ;
/** A region of this length is cut to fill a chunk, even if the next chunk could hold all of it. */
const DIVIDED_SAMPLES = 12 * SAMPLE_RATE_HZ;
/**
 * A frame is a pause if its level is in the lowest quarter between the quietest and the median level. Speech is cut in
 * the latest pause, because a short window takes as long to recognize as a full one.
 */
const PAUSE_LEVEL = 0.25;
/** Half decibels by which a pause must be quieter than the median when a region is cut without need. */
const PAUSE_DEPTH = 16;

/**
 * Cuts long speech in pauses, so that chunks that are filled with the parts in order become full. A region that is
 * longer than a chunk must be cut. A shorter one is cut if its beginning fills the rest of the chunk before.
 *
 * @param regions in order
 * @param limits limits of the chunks that will hold the parts; `maxSamples` of at least 16 frames
 */
export function cutLongRegions(
  regions: readonly SpeechRegion[],
  limits: ChunkLimits,
  levels: LevelEnvelope,
): SpeechRegion[] {
  const cutter = createCutter(limits, levels);
  for (const region of regions) cutter.take(region);
  return cutter.parts;
}

/** Cuts regions as `cutLongRegions` does, one after the other. */
export type Cutter = {
  /** The parts so far, in order. It only grows. */
  parts: SpeechRegion[];
  /** Takes the next region whole. Its beginning may have been taken already. */
  take(region: SpeechRegion): void;
  /**
   * Takes the next region as far as it is known, and cuts what does not depend on its end. Levels reach that far, too.
   */
  takeBeginning(region: SpeechRegion): void;
};

export function createCutter(limits: ChunkLimits, levels: LevelEnvelope): Cutter {
  const { maxSamples } = limits;
  const filling = createFilling(limits);
  const shortestRest = Math.ceil(maxSamples * SHORTEST_REST);
  const shortestBeginning = Math.min(SHORTEST_BEGINNING_SAMPLES, maxSamples >> 1);
  const parts: SpeechRegion[] = [];
  /** The sample up to which a region without a known end has been cut. */
  let begun: number | undefined;

  function put(startSample: number, endSample: number): number {
    const part = { startSample, endSample };
    if (endSample - startSample > filling.spaceFrom(startSample)) filling.next();
    filling.add(part);
    parts.push(part);
    return endSample;
  }

  /** Puts the beginning of a region that is longer than a chunk, and returns the sample after it. */
  function putBeginning(start: number, end: number): number {
    if (filling.spaceFrom(start) < shortestBeginning) filling.next();
    const longest = Math.min(filling.spaceFrom(start), end - start - shortestRest);
    const second = { first: start + (longest >> 1), last: start + longest };
    const cut = latestPause(levels, second, second, 0) ?? start + longest;
    put(start, cut);
    filling.next();
    return cut;
  }

  /** Returns a pause in a shorter region, so that its beginning fills this chunk; undefined: the region stays whole. */
  function cutToFillChunk(start: number, end: number): number | undefined {
    const space = filling.spaceFrom(start);
    if (
      filling.isEmpty() ||
      end - start <= space ||
      end - start < DIVIDED_SAMPLES ||
      space < shortestBeginning
    )
      return undefined;
    const last = Math.min(start + space, end - shortestRest);
    return latestPause(
      levels,
      { first: start + (space >> 1), last },
      { first: start, last: end },
      PAUSE_DEPTH,
    );
  }

  return {
    parts,
    take({ startSample, endSample }) {
      let start = begun ?? startSample;
      begun = undefined;
      while (endSample - start > maxSamples) start = putBeginning(start, endSample);
      const cut = cutToFillChunk(start, endSample);
      if (cut !== undefined) {
        start = put(start, cut);
        filling.next();
      }
      put(start, endSample);
    },
    takeBeginning({ startSample, endSample }) {
      begun ??= startSample;
      while (endSample - begun >= maxSamples + shortestRest) begun = putBeginning(begun, endSample);
    },
  };
}

type Range = { first: number; last: number };

/**
 * Finds the quietest point of the latest pause within a range, in samples.
 *
 * @param measure range whose quietest and median level decide what a pause is
 * @param depth half decibels by which the quietest level there must be below the median
 * @returns undefined when there is no pause, or no frame lies wholly inside
 */
function latestPause(levels: LevelEnvelope, range: Range, measure: Range, depth: number): number | undefined {
  const measured = smoothLevels(levels, measure).levels.toSorted((a, b) => a - b);
  const [quietest] = measured;
  const middle = measured[measured.length >> 1];
  if (quietest === undefined || middle === undefined || middle - quietest < depth) return undefined;
  const pauseLevel = quietest + PAUSE_LEVEL * (middle - quietest);
  const { firstFrame, levels: smooth } = smoothLevels(levels, range);
  let best = smooth.findLastIndex((level) => level <= pauseLevel);
  if (best < 0) return undefined;
  while (best > 0 && (smooth[best - 1] ?? 0) < (smooth[best] ?? 0)) best--;
  return Math.round((firstFrame + best + 0.5) * levels.frameSamples);
}

/** Returns the levels of the frames in a range, each averaged with its neighbours. */
function smoothLevels({ frameSamples, values }: LevelEnvelope, { first, last }: Range) {
  const reach = Math.round(PAUSE_SAMPLES / frameSamples / 2);
  const firstFrame = Math.ceil(first / frameSamples);
  const frames = Math.max(0, Math.min(values.length, Math.floor(last / frameSamples)) - firstFrame);
  const levels = Array.from({ length: frames }, (_, n) => {
    const frame = firstFrame + n;
    let level = 0;
    for (let near = frame - reach; near <= frame + reach; near++) level += values[near] ?? values[frame] ?? 0;
    return level / (2 * reach + 1);
  });
  return { firstFrame, levels };
}
