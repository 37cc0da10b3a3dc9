/** What this machine has shown it can do; estimates and time limits follow from it. */
export type Speed = {
  /** Counts a decoded chunk: its audio and how long a worker was busy with it. */
  observe(audioMs: number, elapsedMs: number): void;
  /** Audio decoded per time of one worker, as a ratio; undefined before the first chunk. */
  realTimeFactor(): number | undefined;
  /** Time after which a worker that decodes so much audio counts as hung. */
  chunkTimeoutMs(audioMs: number): number;
  /** Time until so much audio is decoded by so many workers. */
  estimateMs(audioMs: number, workers: number): number;
};

/** Weight of the newest chunk in the running mean. */
const SMOOTHING = 0.2;
/** Before anything is known: a small processor with a large model. */
const FIRST_GUESS = 0.5;
/** Slower than the mean by this factor is hung: fallbacks decode a window up to six times. */
const HUNG_FACTOR = 20;
const SHORTEST_TIMEOUT_MS = 120_000;
/** A decoder's window; a chunk costs at least one, however little it holds. */
const WINDOW_MS = 30_000;

export function createSpeed(): Speed {
  let ratio: number | undefined;
  const effective = (audioMs: number) => Math.max(audioMs, WINDOW_MS);
  return {
    observe(audioMs, elapsedMs) {
      if (audioMs <= 0 || elapsedMs <= 0) return;
      const seen = effective(audioMs) / elapsedMs;
      ratio = ratio === undefined ? seen : ratio + SMOOTHING * (seen - ratio);
    },
    realTimeFactor: () => ratio,
    chunkTimeoutMs: (audioMs) =>
      Math.max(SHORTEST_TIMEOUT_MS, (effective(audioMs) / Math.min(ratio ?? FIRST_GUESS, 1)) * HUNG_FACTOR),
    estimateMs: (audioMs, workers) => audioMs / ((ratio ?? FIRST_GUESS) * Math.max(1, workers)),
  };
}
