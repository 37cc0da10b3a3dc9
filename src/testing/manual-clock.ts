import type { Clock } from "../lib/clock.ts";

export type ManualClock = Clock & {
  /** Moves time forward. */
  advance(milliseconds: number): void;
};

/** Creates a clock whose time changes only when a test advances it. */
export function manualClock(startMs = Date.UTC(2026, 10, 21, 4, 5, 6, 789)): ManualClock {
  let nowMs = startMs;
  return {
    now: () => nowMs,
    advance(milliseconds) {
      nowMs += milliseconds;
    },
  };
}
