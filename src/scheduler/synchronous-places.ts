import { AppError } from "../domain/errors.ts";
import type { Clock } from "../lib/clock.ts";

/** The right of one synchronous request to be worked on at once. */
export type SynchronousPlace = {
  /** Gives the place back. Further calls change nothing. */
  release(): void;
};

export type SynchronousPlacesOptions = {
  clock: Clock;
  /** Number of places. With 0, synchronous work is switched off. */
  count: number;
  /** A request is answered after this time at the latest, and its place is free again. */
  timeoutMs: number;
  /** Estimates how long a recording takes at the present load, from its milliseconds over all channels. */
  expectedMs: (recordingMs: number) => number;
  /** Returns the window of the default model: a short recording costs a whole window. */
  windowMs: () => number;
};

/** Limits how many synchronous requests are worked on at once, and estimates when the next one can start. */
export type SynchronousPlaces = {
  /**
   * Takes a place for a recording, given in milliseconds over its channels. The caller releases it.
   *
   * @throws AppError `capacity_unavailable` when all places are taken, with the seconds until one should be free
   */
  reserve(recordingMs: number): SynchronousPlace;
  /** Returns the number of taken places. */
  taken(): number;
};

type Taken = { sinceMs: number; recordingMs: number };

/** `Retry-After` where synchronous work is switched off. */
const SWITCHED_OFF_SECONDS = 3_600;

export function createSynchronousPlaces(options: SynchronousPlacesOptions): SynchronousPlaces {
  const taken = new Set<Taken>();

  /** Estimates when a place is free. A request that is overdue by t is expected to take another t, up to its timeout. */
  function remainingMs({ sinceMs, recordingMs }: Taken): number {
    const elapsedMs = options.clock.now() - sinceMs;
    const expectedMs = options.expectedMs(Math.max(recordingMs, options.windowMs()));
    return Math.min(Math.abs(expectedMs - elapsedMs), options.timeoutMs - elapsedMs);
  }

  function retryAfterSeconds(): number {
    if (options.count === 0) return SWITCHED_OFF_SECONDS;
    return Math.max(1, Math.ceil(Math.min(...[...taken].map(remainingMs)) / 1000));
  }

  return {
    reserve(recordingMs) {
      if (taken.size >= options.count) {
        throw new AppError("capacity_unavailable", { retryAfterSeconds: retryAfterSeconds() });
      }
      const own = { sinceMs: options.clock.now(), recordingMs };
      taken.add(own);
      return { release: () => void taken.delete(own) };
    },
    taken: () => taken.size,
  };
}
