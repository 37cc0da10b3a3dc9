import type { Clock, SinceBoot } from "../../lib/clock.ts";

export type ManualClock = Clock & {
  sinceBoot(): SinceBoot;
  /** Lets time pass. */
  advance(milliseconds: number): void;
  /** Sets the clock forward, or back with a negative number. No time passes. */
  leap(milliseconds: number): void;
  /** Starts the machine again. */
  reboot(): void;
};

/** Creates a clock whose time changes only when a test advances it. */
export function manualClock(startMs = Date.UTC(2026, 10, 21, 4, 5, 6, 789)): ManualClock {
  let nowMs = startMs;
  const since = { boot: "first", ms: 0 };
  return {
    now: () => nowMs,
    sinceBoot: () => ({ ...since }),
    advance(milliseconds) {
      nowMs += milliseconds;
      since.ms += milliseconds;
    },
    leap(milliseconds) {
      nowMs += milliseconds;
    },
    reboot() {
      Object.assign(since, { boot: crypto.randomUUID(), ms: 0 });
    },
  };
}
