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
 * Cuts regions that are longer than the decoder's window. Each cut falls on the quietest point of the second half of
 * the longest possible part, the latest one where several are equal: between two words, where the speaker leaves any
 * room between them.
 *
 * @param regions in order; those that are short enough stay as they are
 * @param maxSamples longest part, at least 16 frames
 */
export function cutLongRegions(
  regions: readonly Stretch[],
  maxSamples: number,
  levels: LevelEnvelope,
): Stretch[] {
  return regions.flatMap(({ startSample, endSample }) => {
    const parts: Stretch[] = [];
    let start = startSample;
    while (endSample - start > maxSamples) {
      const latest = Math.min(start + maxSamples, endSample - Math.ceil(maxSamples * SHORTEST_REST));
      const cut = quietestPoint(levels, start + Math.ceil(maxSamples / 2), latest) ?? latest;
      parts.push({ startSample: start, endSample: cut });
      start = cut;
    }
    parts.push({ startSample: start, endSample });
    return parts;
  });
}

/** The middle of the quietest stretch within `[earliest, latest]`; undefined where no frame lies wholly inside. */
function quietestPoint(levels: LevelEnvelope, earliest: number, latest: number): number | undefined {
  const { frameSamples, values } = levels;
  const reach = Math.round(PAUSE_SAMPLES / frameSamples / 2);
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
