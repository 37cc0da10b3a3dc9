import { isDeepStrictEqual } from "node:util";
import type { NewChunk } from "./checkpoint.ts";

/** A chunk whose position is known, and which has no record yet. */
export type PositionedChunk = NewChunk & { position: number };

/** Chunks that are recognized while the rest of their recording is still searched for speech. */
export type Prefetch<Outcome> = {
  /** Receives all chunks so far that nothing will change any more, by position; each call repeats the earlier ones. */
  offer(chunks: readonly NewChunk[]): void;
  /** Hands over the attempt at this very chunk where one began. The caller then handles its failure. */
  take(chunk: PositionedChunk): Promise<Outcome> | undefined;
  /** Aborts what nobody took, and waits until it no longer uses the engine. */
  stop(): Promise<void>;
};

type Run<Outcome> = { chunk: NewChunk; outcome: Promise<Outcome> };

/**
 * Begins with a recording's first chunks before its last are known. Nothing of it is stored: outcomes wait in memory
 * until their chunks are recorded, and a restart begins again.
 *
 * @param side most chunks to run at once
 * @param recognize makes one attempt at a chunk, and ends when the signal is aborted
 */
export function createPrefetch<Outcome>(
  side: number,
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

  /** After a failure nothing more begins: who takes the chunk receives the failure and decides. */
  function pump(): void {
    while (running < side && !hasFailed && !either.aborted && runs.length < offered.length) {
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
          pump();
        });
    }
  }

  return {
    offer(chunks) {
      offered = chunks;
      pump();
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
