import { createRatio } from "../lib/ratio.ts";

/** Measures how fast recordings are recognized, and estimates from it. */
export type Throughput = {
  /**
   * Adds a finished chunk to the measurement.
   *
   * @param recordingMs the part of the recording that the chunk accounts for, silence included
   * @param workMs work as the executor reports it
   */
  observe(recordingMs: number, workMs: number): void;
  /**
   * Adds what it took to distinguish the speakers of a recording: 0 where no request asked for them. Each recording has all
   * threads for that, one at a time.
   */
  observeSpeakers(recordingMs: number, elapsedMs: number): void;
  /** Returns recording per time when all slots are taken, as a ratio, or undefined before the first chunk. */
  realTimeFactor(): number | undefined;
  /**
   * Estimates the milliseconds in which this much recording is recognized when nothing else runs, with the time for
   * speakers that recordings took of late.
   */
  estimateMs(recordingMs: number): number;
};

/** The ratio assumed before the first chunk: one thread of a small processor with a large model. */
const FIRST_GUESS = 0.5;
/** Size of the weights of that model. A model with a tenth of them is about ten times as fast. */
const LARGE_MODEL_BYTES = 1e9;

/**
 * @param power returns the work that the executor does per millisecond when all slots are taken
 * @param weightBytes returns the size of the default model's weights, for the time before the first chunk
 */
export function createThroughput(power: () => number, weightBytes: () => number): Throughput {
  const recordings = createRatio();
  const speakers = createRatio({ countsZero: true });
  const firstGuess = () => FIRST_GUESS * Math.max(1, LARGE_MODEL_BYTES / Math.max(1, weightBytes()));
  return {
    observe: recordings.add,
    // A clock that was put back takes no time away.
    observeSpeakers: (recordingMs, elapsedMs) => speakers.add(Math.max(0, elapsedMs), recordingMs),
    realTimeFactor() {
      const ratio = recordings.value();
      return ratio === undefined ? undefined : ratio * power();
    },
    estimateMs: (recordingMs) =>
      recordingMs / ((recordings.value() ?? firstGuess()) * power()) + recordingMs * (speakers.value() ?? 0),
  };
}
