import { isDeepStrictEqual } from "node:util";
import type { NewChunk } from "../store/chunks.ts";

/** What a chunk is before it is a row. */
export type AheadChunk = NewChunk & { position: number };

/** Chunks that are decoded while the rest of their recording is still searched for speech. */
export type Ahead<Outcome> = {
  /** All chunks so far that nothing will change any more, by position; each call repeats what earlier ones gave. */
  offer(chunks: readonly NewChunk[]): void;
  /** The run of this very chunk where one was begun; whoever takes it has its failure to deal with. */
  take(chunk: AheadChunk): Promise<Outcome> | undefined;
  /** Ends what nobody took, and waits until it has let go of the engine. */
  stop(): Promise<void>;
};

type Run<Outcome> = { chunk: NewChunk; outcome: Promise<Outcome> };

/**
 * Begins with a recording's first chunks before its last are known. Nothing of it is stored: outcomes wait in memory
 * until their chunks are rows, and a restart begins anew.
 *
 * @param side chunks to run at once at most
 * @param decode runs a chunk once; it is to end when the signal is aborted
 */
export function createAhead<Outcome>(
  side: number,
  decode: (chunk: AheadChunk, signal: AbortSignal) => Promise<Outcome>,
  signal: AbortSignal,
): Ahead<Outcome> {
  const stopping = new AbortController();
  const either = AbortSignal.any([signal, stopping.signal]);
  const runs: Run<Outcome>[] = [];
  const taken = new Set<number>();
  let offered: readonly NewChunk[] = [];
  let running = 0;
  let hasFailed = false;

  /** A failure is told to whoever takes the chunk; what follows is left to them too. */
  function pump(): void {
    while (running < side && !hasFailed && !either.aborted && runs.length < offered.length) {
      const position = runs.length;
      const chunk = offered[position];
      if (!chunk) return;
      running++;
      const outcome = decode({ ...chunk, position }, either);
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
