/** The only source of "now" above the operating system, so that tests can hold time still. */
export type Clock = {
  /** Milliseconds since the Unix epoch. */
  now(): number;
};

export const systemClock: Clock = { now: () => Date.now() };

export type ManualClock = Clock & {
  /** Moves time forward. */
  advance(milliseconds: number): void;
};

/** A clock that stands still until it is moved. */
export function manualClock(startMs = Date.UTC(2026, 10, 21, 4, 5, 6, 789)): ManualClock {
  let nowMs = startMs;
  return {
    now: () => nowMs,
    advance(milliseconds) {
      nowMs += milliseconds;
    },
  };
}
