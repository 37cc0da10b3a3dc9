import { isDeepStrictEqual } from "node:util";
import type { NewChunk } from "./checkpoint.ts";

/** A chunk that has a position and is not recorded yet. */
export type PositionedChunk = NewChunk & { position: number };

/** Recognizes the first chunks of a recording while the speech detector still reads the rest. */
export type Prefetch<Outcome> = {
  /** Receives all final chunks so far, in order of position. Each call repeats the earlier chunks. */
  offer(chunks: readonly NewChunk[]): void;
  /** Returns the attempt that began for exactly this chunk, once; else undefined. The caller handles its failure. */
  take(chunk: PositionedChunk): Promise<Outcome> | undefined;
  /** Aborts all attempts, and waits until none uses the engine any more. */
  stop(): Promise<void>;
};

type Run<Outcome> = { chunk: NewChunk; outcome: Promise<Outcome> };

/**
 * Keeps the outcomes in memory until their chunks are recorded. After a restart the work begins again.
 *
 * @param limit most chunks to run at once
 * @param recognize makes one attempt at a chunk, and ends when the signal is aborted
 */
export function createPrefetch<Outcome>(
  limit: number,
  recognize: (chunk: PositionedChunk, signal: AbortSignal) => Promise<Outcome>,
  signal: AbortSignal,
): Prefetch<Outcome> {
  const stopping = new AbortController();
  const either = AbortSignal.any([signal, stopping.signal]);
  const runs: Run<Outcome>[] = [];
  const taken = new Set<number>();
  let offered: readonly NewChunk[] = [];
  let running = 0;
  let hasFailed = false;

  /** Begins more attempts. After a failure nothing more begins: the caller that takes the chunk handles the failure. */
  function beginMore(): void {
    while (running < limit && !hasFailed && !either.aborted && runs.length < offered.length) {
      const position = runs.length;
      const chunk = offered[position];
      if (!chunk) return;
      running++;
      const outcome = recognize({ ...chunk, position }, either);
      runs.push({ chunk, outcome });
      outcome
        .catch(() => {
          hasFailed = true;
        })
        .finally(() => {
          running--;
          beginMore();
        });
    }
  }

  return {
    offer(chunks) {
      offered = chunks;
      beginMore();
    },
    take({ position, channel, startMs, endMs, regions }) {
      const run = runs[position];
      if (!run || taken.has(position)) return undefined;
      const { chunk } = run;
      const isSame =
        chunk.channel === channel &&
        chunk.startMs === startMs &&
        chunk.endMs === endMs &&
        isDeepStrictEqual(chunk.regions, regions);
      if (!isSame) return undefined;
      taken.add(position);
      return run.outcome;
    },
    async stop() {
      stopping.abort(new Error("not needed"));
      await Promise.allSettled(runs.map(({ outcome }) => outcome));
    },
  };
}
