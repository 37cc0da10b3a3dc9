import { AppError } from "../domain/errors.ts";
import type { Clock } from "../lib/clock.ts";

/** A synchronous request's right to be worked on at once. */
export type SynchronousPlace = { release(): void };

export type PlacesOptions = {
  clock: Clock;
  /** Places there are; 0: synchronous work is switched off. */
  count: number;
  /** After so long a request is answered in any case, and its place is free. */
  timeoutMs: number;
  /** Time in which so much recording, over its channels, should be transcribed as busy as the machine is now. */
  expectedMs: (recordingMs: number) => number;
  /** Window of the default model: a short recording costs a whole one. */
  windowMs: () => number;
};

type Taken = { sinceMs: number; recordingMs: number };

/** What a client is told to wait where there never is a place. */
const SWITCHED_OFF_SECONDS = 3_600;

/** Places reserved for synchronous requests, and when the next one should be free. */
export function createPlaces(options: PlacesOptions) {
  const taken = new Set<Taken>();

  /**
   * Until a place is expected to be free. A request that takes longer than expected tells that the expectation was
   * wrong: it is given as long again as it is late, at most its deadline.
   */
  function restMs({ sinceMs, recordingMs }: Taken): number {
    const elapsedMs = options.clock.now() - sinceMs;
    const expectedMs = options.expectedMs(Math.max(recordingMs, options.windowMs()));
    return Math.min(Math.abs(expectedMs - elapsedMs), options.timeoutMs - elapsedMs);
  }

  function retryAfterSeconds(): number {
    if (options.count === 0) return SWITCHED_OFF_SECONDS;
    return Math.max(1, Math.ceil(Math.min(...[...taken].map(restMs)) / 1000));
  }

  return {
    /**
     * Takes a place for a recording of so many milliseconds over its channels.
     *
     * @throws AppError `capacity_unavailable`, with the time after which a place should be free
     */
    reserve(recordingMs: number): SynchronousPlace {
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
