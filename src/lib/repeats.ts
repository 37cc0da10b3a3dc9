type RepeatsOptions = {
  /** The least time between two reports of the same thing. */
  everyMs: number;
  /** A bound on memory: with more things than this, all are forgotten. */
  maxKeys: number;
  /** Milliseconds, as `performance.now()`. */
  now: () => number;
};

/**
 * Counts what happens again and again, so that it is reported at first and then only from time to time.
 *
 * @returns a function that is called each time. It returns how often the thing has happened since its last report, with
 *   this time; undefined where it is too soon for another report
 */
export function createRepeats({
  everyMs,
  maxKeys,
  now,
}: RepeatsOptions): (key: string) => number | undefined {
  const known = new Map<string, { reportedAt: number; leftOut: number }>();
  return (key) => {
    const earlier = known.get(key);
    if (earlier && now() - earlier.reportedAt < everyMs) {
      earlier.leftOut += 1;
      return undefined;
    }
    if (!earlier && known.size >= maxKeys) known.clear();
    known.set(key, { reportedAt: now(), leftOut: 0 });
    return (earlier?.leftOut ?? 0) + 1;
  };
}
