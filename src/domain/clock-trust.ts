import type { SinceBoot } from "../lib/clock.ts";
import { DAY_MS } from "../lib/time.ts";

/**
 * When the clock can be trusted (docs/decisions/clock.md). Each reading of the clock is compared with what is
 * known: with the time since the machine's start while it runs, and with the last trusted reading after a start. All
 * functions are pure.
 */

/** A clock that differs by more from what is known is in doubt. */
export const MAX_DIFFERENCE_MS = 2 * DAY_MS;
/** A clock in doubt that agrees with what is known for so long is trusted again. */
export const AGREES_FOR_MS = DAY_MS;
/** Readings come each minute. What is written in between may have a time that is so far from them. */
const MARGIN_MS = 10 * 60_000;
const MAX_PERIODS = 32;

/** What the clock said at an instant. */
export type ClockReading = { atMs: number; since: SinceBoot };

/** Times that a clock in doubt has said between two leaps. */
type Period = { fromMs: number; toMs: number };

/**
 * Times of the clock that were wrong. What was written at such a time is younger than it says, by at most `shiftMs`.
 */
export type WrongPeriod = Period & { shiftMs: number };

/** Why the clock is in doubt, and since when. */
export type Doubt = {
  /** What the clock should say: the last trusted reading, and the running time since then. Epoch milliseconds. */
  knownMs: number;
  /** False: the machine was off meanwhile, so `knownMs` is only the earliest time that is possible. */
  isExact: boolean;
  /** For how long the clock has agreed with `knownMs`. */
  agreedMs: number;
  /** What the clock has said since then. The last period is that of the newest reading. */
  periods: Period[];
};

export type ClockState = {
  /** A trusted time. Later readings of the same run of the machine are compared with it. */
  anchor: ClockReading;
  /** The newest reading. */
  last: ClockReading;
  doubt: Doubt | null;
  wrong: WrongPeriod[];
};

/**
 * Begins with the first reading.
 *
 * @param newestMs the time of the newest entry that was written before; undefined: there is none
 */
export function beginClock(reading: ClockReading, newestMs: number | undefined): ClockState {
  const trusted: ClockState = { anchor: reading, last: reading, doubt: null, wrong: [] };
  if (newestMs === undefined || isNear(reading.atMs, newestMs)) return trusted;
  return { ...trusted, doubt: beginDoubt(reading, newestMs, undefined) };
}

/** Follows the clock by one reading. */
export function followClock(state: ClockState, reading: ClockReading): ClockState {
  return state.doubt ? followDoubt(state, state.doubt, reading) : followTrusted(state, reading);
}

/**
 * Trusts the reading, because an administrator says that it is right. A clock that leaps afterwards is in doubt again.
 * When the clock was put forward while the machine ran, it was wrong before, and all that was written is younger than it
 * says.
 */
export function confirmClock(before: ClockState, reading: ClockReading): ClockState {
  const state = followClock(before, reading);
  if (!state.doubt) return state;
  const { knownMs, isExact } = state.doubt;
  const trusted = trustAgain(state, state.doubt, reading);
  const shiftMs = reading.atMs - knownMs;
  if (!isExact || shiftMs <= MAX_DIFFERENCE_MS) return trusted;
  const earlier = { fromMs: 0, toMs: knownMs + MARGIN_MS, shiftMs };
  return { ...trusted, wrong: bounded([...trusted.wrong, earlier], joinPeriods) };
}

/** How far the newest reading is ahead of what is known, milliseconds; negative: behind; 0 without a doubt. */
export function offsetOf({ doubt, last }: ClockState): number {
  return doubt ? last.atMs - doubt.knownMs : 0;
}

/** Returns the running time between two readings; undefined when the machine was started in between. */
function elapsedBetween(from: ClockReading, to: ClockReading): number | undefined {
  const elapsedMs = to.since.ms - from.since.ms;
  return from.since.boot === to.since.boot && elapsedMs >= 0 ? elapsedMs : undefined;
}

const isNear = (oneMs: number, otherMs: number) => Math.abs(oneMs - otherMs) <= MAX_DIFFERENCE_MS;

function followTrusted(state: ClockState, reading: ClockReading): ClockState {
  const elapsedMs = elapsedBetween(state.last, reading);
  const sinceAnchorMs = elapsedBetween(state.anchor, reading);
  const isSameRun = elapsedMs !== undefined && sinceAnchorMs !== undefined;
  // Small steps of the clock add up, because all readings of a run are compared with its first one.
  const knownMs = state.anchor.atMs + (sinceAnchorMs ?? elapsedBetween(state.anchor, state.last) ?? 0);
  if (isNear(reading.atMs, knownMs)) {
    return { ...state, anchor: isSameRun ? state.anchor : reading, last: reading };
  }
  return { ...state, last: reading, doubt: beginDoubt(reading, knownMs, isSameRun ? elapsedMs : undefined) };
}

/** @param elapsedMs running time since the last trusted reading; undefined: the machine was off meanwhile */
function beginDoubt(reading: ClockReading, knownMs: number, elapsedMs: number | undefined): Doubt {
  return {
    knownMs,
    isExact: elapsedMs !== undefined,
    agreedMs: 0,
    periods: [periodAt(reading, elapsedMs ?? 0)],
  };
}

/** The clock has said all this since its leap, which was at most `elapsedMs` ago. */
function periodAt({ atMs }: ClockReading, elapsedMs: number): Period {
  return { fromMs: atMs - elapsedMs - MARGIN_MS, toMs: atMs + MARGIN_MS };
}

function followDoubt(state: ClockState, doubt: Doubt, reading: ClockReading): ClockState {
  const measuredMs = elapsedBetween(state.last, reading);
  const elapsedMs = measuredMs ?? 0;
  const knownMs = doubt.knownMs + elapsedMs;
  const hasAgreed = isNear(state.last.atMs, doubt.knownMs);
  const agrees = isNear(reading.atMs, knownMs);
  const next: Doubt = {
    // The machine was off for a while, and a clock that agrees knows for how long.
    knownMs: measuredMs === undefined && agrees ? Math.max(knownMs, reading.atMs) : knownMs,
    isExact: doubt.isExact && measuredMs !== undefined,
    agreedMs: agrees && hasAgreed ? doubt.agreedMs + elapsedMs : 0,
    periods: extended(doubt.periods, state.last, reading, elapsedMs),
  };
  const followed = { ...state, last: reading, doubt: next };
  if (next.agreedMs < AGREES_FOR_MS) return followed;
  // Differences that are too small for a doubt must not add up either.
  return trustAgain(followed, next, next.isExact ? { ...reading, atMs: knownMs } : reading);
}

function extended(
  periods: readonly Period[],
  last: ClockReading,
  reading: ClockReading,
  elapsedMs: number,
): Period[] {
  const current = periods.at(-1);
  const here = periodAt(reading, elapsedMs);
  const before = periods.slice(0, -1);
  if (current && isNear(reading.atMs, last.atMs + elapsedMs)) {
    return [
      ...before,
      { fromMs: Math.min(current.fromMs, reading.atMs - MARGIN_MS), toMs: Math.max(current.toMs, here.toMs) },
    ];
  }
  // The clock has run on until it leapt, at the latest just before this reading.
  const ended = current && { ...current, toMs: current.toMs + elapsedMs };
  return [...bounded([...before, ...(ended ? [ended] : [])], joinTimes), here];
}

/** Trusts the clock again. What was written at other readings since the doubt began has a wrong time. */
function trustAgain({ last, wrong }: ClockState, { periods }: Doubt, anchor: ClockReading): ClockState {
  const wrongPeriods = periods
    .slice(0, -1)
    .map((period) => ({ ...period, shiftMs: last.atMs - period.fromMs }))
    .filter(({ shiftMs }) => shiftMs > 0);
  return { anchor, last, doubt: null, wrong: bounded([...wrong, ...wrongPeriods], joinPeriods) };
}

const joinTimes = (one: Period, other: Period): Period => ({
  fromMs: Math.min(one.fromMs, other.fromMs),
  toMs: Math.max(one.toMs, other.toMs),
});
const joinPeriods = (one: WrongPeriod, other: WrongPeriod): WrongPeriod => ({
  ...joinTimes(one, other),
  shiftMs: Math.max(one.shiftMs, other.shiftMs),
});

/**
 * Joins periods where there are too many: those that are closest to each other, so that little else counts as younger.
 */
function bounded<P extends Period & { shiftMs?: number }>(
  periods: readonly P[],
  join: (one: P, other: P) => P,
): P[] {
  const kept = [...periods].sort((one, other) => one.fromMs - other.fromMs);
  while (kept.length > MAX_PERIODS) {
    let nearest = 0;
    let least = Number.POSITIVE_INFINITY;
    for (const [index, one] of kept.slice(0, -1).entries()) {
      const other = kept[index + 1] as P;
      const between = other.fromMs - one.toMs;
      const distance = Math.max(0, between) + Math.abs((one.shiftMs ?? 0) - (other.shiftMs ?? 0));
      if (distance < least) [nearest, least] = [index, distance];
    }
    kept.splice(nearest, 2, join(kept[nearest] as P, kept[nearest + 1] as P));
  }
  return kept;
}

/** What is old now. The time is checked: there is none while the clock is in doubt. */
export type Ages = {
  /** What ended before this time is over, epoch milliseconds. */
  nowMs: number;
  wrong: readonly WrongPeriod[];
};

/** Returns what was old some time ago: what has been over for a period. */
export function before({ nowMs, wrong }: Ages, periodMs: number): Ages {
  return { nowMs: nowMs - periodMs, wrong };
}

/**
 * Reports whether the time of something is over. What was made while the clock was wrong ends later than it says.
 *
 * @param madeMs when it was made, and `endsMs` when its time ends, as the clock said it
 */
export function isOver(madeMs: number, endsMs: number, { nowMs, wrong }: Ages): boolean {
  if (endsMs > nowMs) return false;
  return !wrong.some(
    ({ fromMs, toMs, shiftMs }) => madeMs >= fromMs && madeMs <= toMs && endsMs + shiftMs > nowMs,
  );
}
