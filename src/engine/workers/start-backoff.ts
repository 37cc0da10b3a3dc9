const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 30_000;

/** The pause before the next start of a worker process. It grows with each unexpected end. */
export type StartBackoff = {
  /** Makes the next start wait: 250 ms at first, twice as long after each further call, at most 30 s. */
  lengthen(): void;
  /** Makes the pause after the next unexpected end short again. A pause that has begun is kept. */
  reset(): void;
  /** Returns the milliseconds until a process may start; zero or less: it may start now. */
  remainingMs(): number;
};

export function createStartBackoff(): StartBackoff {
  let pauseMs = 0;
  // Not on the clock: where that is put back, no process would start for as long.
  let startAfterMs = 0;
  return {
    lengthen() {
      pauseMs = Math.min(MAX_PAUSE_MS, Math.max(FIRST_PAUSE_MS, pauseMs * 2));
      startAfterMs = performance.now() + pauseMs;
    },
    reset() {
      pauseMs = 0;
    },
    remainingMs: () => startAfterMs - performance.now(),
  };
}
