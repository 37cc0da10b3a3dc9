import { asFailure } from "./api.ts";

/** Refusals that pass by themselves. */
const PASSING: ReadonlySet<string> = new Set(["rate_limited", "capacity_unavailable", "too_many_queued"]);
/** Without any answer, another try comes after this time. */
export const OFFLINE_SECONDS = 3;
/** A longer wait is a person's decision. */
const LONGEST_WAIT_SECONDS = 120;
/** Uploads that wait together come back at different moments: each adds up to this much for every try that failed. */
const SPREAD_SECONDS = 1;
const MOST_SPREAD_SECONDS = 8;

/**
 * Returns how long to wait before another try, seconds: what the server has asked for, and a random part.
 *
 * @param tries that have failed so far, 1 or more
 * @param random 0 to 1
 * @returns undefined where another try changes nothing, or would be too late
 */
export function secondsToWait(thrown: unknown, tries: number, random = Math.random()): number | undefined {
  const { code, options } = asFailure(thrown);
  const asked = options.retryAfterSeconds ?? 1;
  if (!PASSING.has(code) || asked > LONGEST_WAIT_SECONDS) return undefined;
  return asked + random * Math.min(MOST_SPREAD_SECONDS, tries * SPREAD_SECONDS);
}

/**
 * Does something, and again as often as the server asks to come back later.
 *
 * @param isWanted whether its result is still wanted; where it is not, the refusal is thrown
 * @throws what `act` throws, where waiting does not help
 */
export async function patiently<T>(act: () => Promise<T>, isWanted: () => boolean): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await act();
    } catch (error) {
      const seconds = secondsToWait(error, tries);
      if (seconds === undefined || !isWanted()) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
      if (!isWanted()) throw error;
    }
  }
}

/** Makes a function that acts at its first call. It acts on the calls of the next `everyMs` once, at the end of that time. */
export function seldom(everyMs: number, act: () => void): () => void {
  let isWaiting = false;
  let lastAt = Number.NEGATIVE_INFINITY;
  const run = () => {
    isWaiting = false;
    lastAt = performance.now();
    act();
  };
  return () => {
    if (isWaiting) return;
    const leftMs = lastAt + everyMs - performance.now();
    if (leftMs <= 0) return run();
    isWaiting = true;
    setTimeout(run, leftMs);
  };
}
