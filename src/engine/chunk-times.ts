import { createRatio, type Ratio } from "../lib/ratio.ts";

/** What the time of an attempt at a chunk depends on. */
export type TimedChunk = {
  modelId: string;
  /** The model's window. A chunk takes the time of whole windows, however little speech they hold. */
  windowMs: number;
  audioMs: number;
  threads: number;
};

/** How fast this machine has recognized chunks of each model. Time limits follow from it. */
export type ChunkTimes = {
  /** Records the time that a recognized chunk took. */
  observe(chunk: TimedChunk, elapsedMs: number): void;
  /** Records that a chunk was killed as hung. The next limits are longer, in case the machine is only slow. */
  observeTimeout(modelId: string): void;
  /** Returns the milliseconds after which an attempt counts as hung. */
  timeoutMs(chunk: TimedChunk): number;
};

/**
 * An attempt that is this much slower than the mean is hung. Fallbacks repeat a window up to six times, with five
 * samples each.
 */
const HUNG_FACTOR = 20;
/** The shortest time after which an attempt counts as hung, milliseconds. */
export const SHORTEST_TIMEOUT_MS = 120_000;
/** The limit for one window before a chunk was timed: large weights on an old processor need a large part of it. */
const FIRST_TIMEOUT_MS = 30 * 60_000;
const LONGEST_TIMEOUT_MS = 12 * 3_600_000;
/** A bound on memory: few models are installed at once, but they may change for years. */
const MAX_MODELS = 100;
const MAX_DOUBLINGS = 10;

export function createChunkTimes(): ChunkTimes {
  const models = new Map<string, { ratio: Ratio; timeouts: number }>();

  function timesOf(modelId: string) {
    const times = models.get(modelId) ?? { ratio: createRatio(), timeouts: 0 };
    if (models.size >= MAX_MODELS) models.clear();
    models.set(modelId, times);
    return times;
  }

  return {
    observe({ modelId, threads, ...audio }, elapsedMs) {
      const times = timesOf(modelId);
      times.ratio.add(windowsMs(audio), elapsedMs * threads);
      times.timeouts = 0;
    },
    observeTimeout(modelId) {
      timesOf(modelId).timeouts++;
    },
    timeoutMs({ modelId, threads, ...audio }) {
      const { ratio, timeouts } = timesOf(modelId);
      const known = ratio.value();
      const windows = windowsMs(audio);
      const expectedMs =
        known === undefined
          ? (windows / audio.windowMs) * FIRST_TIMEOUT_MS
          : Math.max(SHORTEST_TIMEOUT_MS, (windows / (known * threads)) * HUNG_FACTOR);
      return Math.min(LONGEST_TIMEOUT_MS, expectedMs * 2 ** Math.min(timeouts, MAX_DOUBLINGS));
    },
  };
}

function windowsMs({ audioMs, windowMs }: Pick<TimedChunk, "audioMs" | "windowMs">): number {
  return Math.max(1, Math.ceil(audioMs / windowMs)) * windowMs;
}
