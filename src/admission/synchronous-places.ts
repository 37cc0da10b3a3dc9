import { AppError } from "../domain/errors.ts";
import { beginWait } from "../lib/abort.ts";
import type { Clock } from "../lib/clock.ts";

/** The right of one synchronous request to be worked on at once. */
export type SynchronousPlace = {
  /** Gives the place back. Further calls change nothing. */
  release(): void;
};

export type SynchronousPlacesOptions = {
  clock: Clock;
  /** Returns the number of places at this moment. With 0, synchronous work is switched off. */
  count: () => number;
  /** A request is answered after this time at the latest, and its place is free again. */
  timeoutMs: () => number;
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
  /**
   * Takes a place once one is free. Requests that wait get places in the order in which they came, and before others.
   *
   * @param waitMs longest time to wait; 0 does the same as `reserve`
   * @throws AppError as `reserve`, after that time; the signal's reason when it is aborted first
   */
  reserveWithin(recordingMs: number, waitMs: number, signal: AbortSignal): Promise<SynchronousPlace>;
  /** Refuses all requests that wait, and lets no other wait. */
  close(): void;
  /** Returns the number of taken places. */
  taken(): number;
};

type Taken = { sinceMs: number; recordingMs: number };
/** `untilMs`: when it is refused. */
type Waiting = { recordingMs: number; untilMs: number; begin: () => void; refuse: () => void };

/** `Retry-After` where synchronous work is switched off. */
const SWITCHED_OFF_SECONDS = 3_600;

/** The most places that are made without an admin's choice. */
const MOST_PLACES = 64;
/** The rest of the time limit is for other work on the machine, and for errors of the estimate. */
const SHARE_OF_TIME = 0.5;

/**
 * Chooses the number of places: so many that all of them are done in time, when each has the longest recording.
 *
 * @param chunks for which there is memory at once
 * @param longestMs expected time of the longest recording that a request may have, when nothing else runs
 * @param timeoutMs after which a request is answered at the latest
 * @returns at least 1
 */
export function choosePlaces(chunks: number, longestMs: number, timeoutMs: number): number {
  const inTime = Math.floor((timeoutMs * SHARE_OF_TIME) / longestMs);
  return Math.max(1, Math.min(chunks, inTime, MOST_PLACES));
}

export function createSynchronousPlaces(options: SynchronousPlacesOptions): SynchronousPlaces {
  const taken = new Set<Taken>();
  /** Requests that wait for a place, the first to come first. */
  const waiting = new Set<Waiting>();
  let isClosed = false;

  const expectedMsOf = (recordingMs: number) => options.expectedMs(Math.max(recordingMs, options.windowMs()));

  /** Estimates when a place is free. A request that is overdue by t is expected to take another t, up to its timeout. */
  function remainingMs({ sinceMs, recordingMs }: Taken): number {
    // Where the clock was put back, the estimate must not grow by as much.
    const elapsedMs = Math.max(0, options.clock.now() - sinceMs);
    return Math.min(Math.abs(expectedMsOf(recordingMs) - elapsedMs), options.timeoutMs() - elapsedMs);
  }

  /**
   * Estimates when a place is free that none of the waiting requests will have taken, in seconds. A request that will be
   * refused before its turn takes none. So where many come at once, all of them learn when the running work ends.
   */
  function retryAfterSeconds(): number {
    if (options.count() === 0) return SWITCHED_OFF_SECONDS;
    const nowMs = options.clock.now();
    const freeInMs = [...taken].map(remainingMs).sort((a, b) => a - b);
    for (const { recordingMs, untilMs } of waiting) {
      const beginsInMs = freeInMs[0] ?? 0;
      if (beginsInMs > untilMs - nowMs) continue;
      freeInMs.shift();
      freeInMs.push(beginsInMs + expectedMsOf(recordingMs));
      freeInMs.sort((a, b) => a - b);
    }
    return Math.max(1, Math.ceil((freeInMs[0] ?? 0) / 1000));
  }

  function refusal(): AppError {
    return new AppError("capacity_unavailable", { retryAfterSeconds: retryAfterSeconds() });
  }

  function take(recordingMs: number): SynchronousPlace {
    const own = { sinceMs: options.clock.now(), recordingMs };
    taken.add(own);
    return {
      release() {
        if (!taken.delete(own)) return;
        const [next] = waiting;
        next?.begin();
      },
    };
  }

  function reserve(recordingMs: number): SynchronousPlace {
    if (taken.size + waiting.size >= options.count()) throw refusal();
    return take(recordingMs);
  }

  return {
    reserve,
    async reserveWithin(recordingMs, waitMs, signal) {
      signal.throwIfAborted();
      const isFree = taken.size + waiting.size < options.count();
      if (isFree || waitMs === 0 || isClosed || options.count() === 0) return reserve(recordingMs);
      const wait = beginWait<SynchronousPlace>(signal, () => waiting.delete(own));
      const own: Waiting = {
        recordingMs,
        untilMs: options.clock.now() + waitMs,
        begin() {
          waiting.delete(own);
          wait.resolve(take(recordingMs));
        },
        refuse() {
          waiting.delete(own);
          wait.reject(refusal());
        },
      };
      const timer = setTimeout(own.refuse, waitMs);
      waiting.add(own);
      try {
        return await wait.promise;
      } finally {
        waiting.delete(own);
        clearTimeout(timer);
      }
    },
    close() {
      isClosed = true;
      for (const { refuse } of waiting) refuse();
    },
    taken: () => taken.size,
  };
}
