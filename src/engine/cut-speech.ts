/** A stretch of samples; the end is exclusive. */
type Stretch = { startSample: number; endSample: number };

/** Loudness over a whole recording. */
export type LevelEnvelope = {
  /** Length of a frame; frame n covers samples n × frameSamples to (n + 1) × frameSamples. */
  frameSamples: number;
  /** One value a frame, in steps of decibels of any size; lower is quieter. */
  values: ArrayLike<number>;
};

/** Frames are judged together with their neighbours over this span: one quiet frame is no pause. */
const PAUSE_SAMPLES = 0.12 * 16_000;
/** As a share of the longest part: less than this is not left over at the end, where it would be hard to understand. */
const SHORTEST_REST = 1 / 8;

/**
 * Of the levels in the second half of a part, from the quietest (0) to the middle one (1): what is no louder than this
 * counts as a pause. The latest pause is taken: a window that is cut early costs as much to decode as a full one.
 */
const PAUSE_LEVEL = 0.25;

/**
 * Cuts regions that are longer than the decoder's window. Each cut falls into the latest pause in the second half of
 * the longest possible part: between two words, where the speaker leaves any room between them.
 *
 * @param regions in order; those that are short enough stay as they are
 * @param maxSamples longest part, at least 16 frames
 */
export function cutLongRegions(
  regions: readonly Stretch[],
  maxSamples: number,
  levels: LevelEnvelope,
): Stretch[] {
  return regions.flatMap((region) => {
    const { endSample } = region;
    const parts = firstParts(region, endSample, maxSamples, levels);
    let start = parts.at(-1)?.endSample ?? region.startSample;
    while (endSample - start > maxSamples) {
      const cut = cutPoint(
        levels,
        start,
        Math.min(maxSamples, endSample - start - shortestRest(maxSamples)),
        maxSamples,
      );
      parts.push({ startSample: start, endSample: cut });
      start = cut;
    }
    parts.push({ startSample: start, endSample });
    return parts;
  });
}

/**
 * The parts of a region that will be the same wherever it ends.
 *
 * @param knownSample the region goes on at least until there, and levels are known until there
 */
export function firstParts(
  { startSample }: Pick<Stretch, "startSample">,
  knownSample: number,
  maxSamples: number,
  levels: LevelEnvelope,
): Stretch[] {
  const parts: Stretch[] = [];
  let start = startSample;
  while (knownSample - start >= maxSamples + shortestRest(maxSamples)) {
    const cut = cutPoint(levels, start, maxSamples, maxSamples);
    parts.push({ startSample: start, endSample: cut });
    start = cut;
  }
  return parts;
}

const shortestRest = (maxSamples: number) => Math.ceil(maxSamples * SHORTEST_REST);

/** Where a part that may hold `longest` samples ends. */
function cutPoint(levels: LevelEnvelope, start: number, longest: number, maxSamples: number): number {
  return latestPause(levels, start + Math.ceil(maxSamples / 2), start + longest) ?? start + longest;
}

/** The quietest point of the latest pause within `[earliest, latest]`; undefined where no frame lies wholly inside. */
function latestPause(levels: LevelEnvelope, earliest: number, latest: number): number | undefined {
  const { frameSamples, values } = levels;
  const first = Math.ceil(earliest / frameSamples);
  const end = Math.min(values.length, Math.floor(latest / frameSamples));
  const smooth = Array.from({ length: Math.max(0, end - first) }, (_, n) => levelAround(levels, first + n));
  const sorted = smooth.toSorted((a, b) => a - b);
  const [quietest] = sorted;
  if (quietest === undefined) return undefined;
  const middle = sorted[sorted.length >> 1] ?? quietest;
  const pauseLevel = quietest + PAUSE_LEVEL * (middle - quietest);
  let best = smooth.findLastIndex((level) => level <= pauseLevel);
  while (best > 0 && (smooth[best - 1] ?? 0) < (smooth[best] ?? 0)) best--;
  return Math.round((first + best + 0.5) * frameSamples);
}

/** A frame's level together with its neighbours'. */
function levelAround({ frameSamples, values }: LevelEnvelope, frame: number): number {
  const reach = Math.round(PAUSE_SAMPLES / frameSamples / 2);
  let level = 0;
  for (let near = frame - reach; near <= frame + reach; near++) level += values[near] ?? values[frame] ?? 0;
  return level;
}
