import { type ChunkLimits, createFilling, SAMPLE_RATE_HZ } from "../domain/chunk.ts";

/** A stretch of samples; the end is exclusive. */
type Stretch = { startSample: number; endSample: number };

/** Loudness over a whole recording. */
export type LevelEnvelope = {
  /** Length of a frame; frame n covers samples n × frameSamples to (n + 1) × frameSamples. */
  frameSamples: number;
  /** One value a frame, in half decibels; lower is quieter. */
  values: ArrayLike<number>;
};

/** Frames are judged together with their neighbours over this span: one quiet frame is no pause. */
const PAUSE_SAMPLES = 0.12 * SAMPLE_RATE_HZ;
/** As a share of the longest part: less than this is not left over at the end, where it would be hard to understand. */
const SHORTEST_REST = 1 / 8;
/** A shorter beginning of a region is not put into what a chunk has left. */
const SHORTEST_BEGINNING_SAMPLES = 5 * SAMPLE_RATE_HZ;
/** Speech so long is divided to fill a chunk even where the next chunk could hold it whole. */
const DIVIDED_SAMPLES = 12 * SAMPLE_RATE_HZ;
/**
 * Of the levels that come into question, from the quietest (0) to the middle one (1): what is no louder than this
 * counts as a pause. The latest pause is taken: a window that is cut early costs as much to decode as a full one.
 */
const PAUSE_LEVEL = 0.25;
/** Half decibels by which a pause is quieter than the speech around it where speech is cut without need. */
const PAUSE_DEPTH = 16;

/**
 * Cuts long speech in pauses, so that chunks filled with the parts in order come out full: a region that is longer
 * than a chunk must be cut, one of half a chunk is cut where its beginning fills what the chunk before has left.
 *
 * @param regions in order
 * @param limits of the chunks that the parts will be packed into; `maxSamples` of at least 16 frames
 */
export function cutLongRegions(
  regions: readonly Stretch[],
  limits: ChunkLimits,
  levels: LevelEnvelope,
): Stretch[] {
  const cutter = createCutter(limits, levels);
  for (const region of regions) cutter.take(region);
  return cutter.parts;
}

/** `cutLongRegions` for regions that come one after the other. `parts` only grows. */
export function createCutter(limits: ChunkLimits, levels: LevelEnvelope) {
  const { maxSamples } = limits;
  const filling = createFilling(limits);
  const shortestRest = Math.ceil(maxSamples * SHORTEST_REST);
  const shortestBeginning = Math.min(SHORTEST_BEGINNING_SAMPLES, maxSamples >> 1);
  const parts: Stretch[] = [];
  /** Up to where the region that has not ended yet is cut. */
  let begun: number | undefined;

  function put(startSample: number, endSample: number): number {
    const part = { startSample, endSample };
    if (endSample - startSample > filling.roomFrom(startSample)) filling.next();
    filling.add(part);
    parts.push(part);
    return endSample;
  }

  /** Puts the beginning of speech that is longer than a chunk. */
  function putBeginning(start: number, end: number): number {
    if (filling.roomFrom(start) < shortestBeginning) filling.next();
    const longest = Math.min(filling.roomFrom(start), end - start - shortestRest);
    const second = { first: start + (longest >> 1), last: start + longest };
    const cut = latestPause(levels, second, second, 0) ?? start + longest;
    put(start, cut);
    filling.next();
    return cut;
  }

  /** Where a region that the next chunk could hold whole has a pause that lets it fill this one. */
  function welcomeCut(start: number, end: number): number | undefined {
    const room = filling.roomFrom(start);
    if (filling.isEmpty() || end - start <= room || end - start < DIVIDED_SAMPLES || room < shortestBeginning)
      return undefined;
    const last = Math.min(start + room, end - shortestRest);
    return latestPause(
      levels,
      { first: start + (room >> 1), last },
      { first: start, last: end },
      PAUSE_DEPTH,
    );
  }

  return {
    parts,
    /** The next region, whole; its beginning may have been taken already. */
    take({ startSample, endSample }: Stretch): void {
      let start = begun ?? startSample;
      begun = undefined;
      while (endSample - start > maxSamples) start = putBeginning(start, endSample);
      const cut = welcomeCut(start, endSample);
      if (cut !== undefined) {
        start = put(start, cut);
        filling.next();
      }
      put(start, endSample);
    },
    /** As much of the next region as is the same wherever it ends; levels are known up to its end so far. */
    takeBeginning({ startSample, endSample }: Stretch): void {
      begun ??= startSample;
      while (endSample - begun >= maxSamples + shortestRest) begun = putBeginning(begun, endSample);
    },
  };
}

type Range = { first: number; last: number };

/**
 * The quietest point of the latest pause within a range.
 *
 * @param measure where levels are compared: what is a pause there counts as one
 * @param depth half decibels by which the quietest must lie below the middle there
 * @returns undefined where there is none, or no frame lies wholly inside
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

/** Levels of the frames that lie in a range, each together with its neighbours'. */
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
