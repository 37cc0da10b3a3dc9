import { createRatio, type Ratio } from "../lib/ratio.ts";

/** An attempt at a chunk, as far as its time depends on it. */
export type TimedChunk = {
  modelId: string;
  /** The model's window: a chunk costs whole ones, however little they hold. */
  windowMs: number;
  audioMs: number;
  threads: number;
};

/** What a machine has shown it can do with chunks; time limits follow from it. */
export type ChunkTimes = {
  /** Counts a recognized chunk and how long it took. */
  observe(chunk: TimedChunk, elapsedMs: number): void;
  /** Counts a chunk that was given up: perhaps it was not hung, and the machine is slower than thought. */
  observeTimeout(modelId: string): void;
  /** Time after which an attempt counts as hung. */
  timeoutMs(chunk: TimedChunk): number;
};

/** Slower than the mean by this factor is hung: fallbacks decode a window up to six times, each with five samples. */
const HUNG_FACTOR = 20;
const SHORTEST_TIMEOUT_MS = 120_000;
/** Before anything is known: large weights on an old processor take a good part of this for one window. */
const FIRST_TIMEOUT_MS = 30 * 60_000;
const LONGEST_TIMEOUT_MS = 12 * 3_600_000;
/** Installed models are few, but may come and go for years. */
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
