import { createRatio } from "../lib/ratio.ts";

/** How fast recordings are recognized; estimates follow from it. */
export type Throughput = {
  /**
   * Counts a finished chunk.
   *
   * @param recordingMs the part of the recording that it stands for, silence included
   * @param workMs as the executor reports it
   */
  observe(recordingMs: number, workMs: number): void;
  /** Recording per time when all slots are taken, as a ratio; undefined before the first chunk. */
  realTimeFactor(): number | undefined;
  /** Time until so much recording is recognized when nothing else is. */
  estimateMs(recordingMs: number): number;
};

/** Before anything is known: one thread of a small processor with a large model. */
const FIRST_GUESS = 0.5;

/** @param power work that the executor does per millisecond when all slots are taken, at the moment */
export function createThroughput(power: () => number): Throughput {
  const recordings = createRatio();
  return {
    observe: recordings.add,
    realTimeFactor() {
      const ratio = recordings.value();
      return ratio === undefined ? undefined : ratio * power();
    },
    estimateMs: (recordingMs) => recordingMs / ((recordings.value() ?? FIRST_GUESS) * power()),
  };
}
