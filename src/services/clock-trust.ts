import { statSync } from "node:fs";
import {
  type Ages,
  beginClock,
  type ClockReading,
  type ClockState,
  confirmClock,
  followClock,
  MAX_DIFFERENCE_MS,
  offsetOf,
} from "../domain/clock-trust.ts";
import type { Clock, SinceBoot } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import { toTimestamp } from "../lib/time.ts";
import { audioDirectory } from "../store/audio-files.ts";
import { recordAct } from "../store/audit-log.ts";
import { type Database, type Store, transaction } from "../store/database.ts";
import { newestEntryMs } from "../store/newest-entry.ts";
import { findSetting, putSetting, SETTING_NAMES } from "../store/settings.ts";

/** What is said about the clock. Times are epoch milliseconds. */
export type ClockVerdict = {
  isDoubtful: boolean;
  atMs: number;
  /** What the clock should say; the earliest possible time where the machine was off meanwhile. */
  knownMs: number;
  /** How far the clock is ahead of that; negative: behind; 0 without a doubt. */
  offsetMs: number;
  /** For how long the clock has agreed again. A day ends the doubt. */
  agreedMs: number;
};

/**
 * Decides whether the clock can be trusted (docs/decisions/clock.md). While it is in doubt, nothing is removed
 * because of its age. The state is in the database, so that a restart does not end a doubt, and a command can.
 */
export type ClockTrust = {
  /**
   * Reads the clock, and returns what counts as old by that reading; undefined while the clock is in doubt. All removals
   * by age use the returned time: the clock may leap right after it. Not to be called inside a transaction.
   */
  ages(): Ages | undefined;
  /** Returns the same for a command, and writes nothing. */
  peekAges(): Ages | undefined;
  /** Returns what would count as old if the present reading were confirmed, and writes nothing. */
  agesIfConfirmed(): Ages;
  /** Returns what is known of the clock, and writes nothing. */
  verdict(): ClockVerdict;
  /** Reads the clock each minute from now on, notes it, and writes a doubt to the log, once and then daily. */
  start(): void;
  stop(): void;
  /** Trusts the present reading, and records who said so. Returns the doubt that ended; undefined: there was none. */
  confirm(): ClockVerdict | undefined;
  /**
   * The time for ends of access, such as those of keys and sessions: never earlier than what is known. What has ended
   * stays so when the clock is put back.
   */
  access: Clock;
};

export type ClockTrustDeps = {
  database: Database;
  clock: Clock;
  log: Log;
  /** Returns the time of the newest file of the data directory; undefined: there is none. */
  newestFileMs?: () => number | undefined;
  /** Returns whether the database must not be written to at the moment. */
  isHeld?: () => boolean;
};

const LOOK_EVERY_MS = 60_000;
/**
 * A trusted reading is stored so often. Together with the last one, a start knows how long the machine was off at most.
 */
const STORE_EVERY_MS = 5 * 60_000;
const LOG_EVERY_MS = 24 * 3_600_000;
const ACCESS_KEPT_MS = 1_000;

export function createClockTrust(deps: ClockTrustDeps): ClockTrust {
  const { database, clock, log } = deps;
  const { store } = database;
  const otherRun: SinceBoot = { boot: `unknown ${crypto.randomUUID()}`, ms: 0 };
  let timer: Timer | undefined;
  let loggedMs: number | undefined;

  const read = (): ClockReading => ({ atMs: clock.now(), since: clock.sinceBoot?.() ?? otherRun });
  const stored = (from: Store) => findSetting(from, SETTING_NAMES.clock) as ClockState | undefined;
  // Read before anything is written under the present clock. A clock that was read before does not need it.
  const newestMs = stored(store) ? undefined : firstKnownMs(deps);
  const follow = (state: ClockState | undefined, reading: ClockReading) =>
    state ? followClock(state, reading) : beginClock(reading, newestMs);

  const peek = () => follow(stored(store), read());

  /** Reads the clock, and stores the new state where it says something new. */
  function look(): ClockState {
    const reading = read();
    const known = stored(store);
    const next = follow(known, reading);
    if (deps.isHeld?.() || !isNews(known, next)) return next;
    try {
      return transaction(store, (tx) => {
        // A command may have confirmed the clock meanwhile.
        const now = follow(stored(tx), reading);
        putSetting(tx, SETTING_NAMES.clock, now, reading.atMs);
        return now;
      });
    } catch (error) {
      // The next look tries again, and comes to the same verdict.
      log.debug({ err: error }, "the reading of the clock cannot be stored");
      return next;
    }
  }

  /** Writes a doubt to the log, once and then daily, and its end. */
  function report(state: ClockState): void {
    const runningMs = performance.now();
    if (!state.doubt) {
      if (loggedMs !== undefined) log.info("the clock is trusted again; what is old is removed");
      loggedMs = undefined;
      return;
    }
    if (loggedMs !== undefined && runningMs - loggedMs < LOG_EVERY_MS) return;
    loggedMs = runningMs;
    const { atMs, knownMs } = verdictOf(state);
    log.warn(
      { clock: toTimestamp(atMs), expected: toTimestamp(knownMs) },
      "the clock is in doubt; nothing is removed because of its age: `shruti clock show`",
    );
  }

  function watch(): void {
    // A failure would end the program: no caller could catch it.
    try {
      report(look());
    } catch (error) {
      log.error({ err: error }, "the clock cannot be compared with what is known");
    }
  }

  return {
    ages() {
      const state = look();
      report(state);
      return agesOf(state);
    },
    peekAges: () => agesOf(peek()),
    agesIfConfirmed() {
      const { last, wrong } = confirmClock(peek(), read());
      return { nowMs: last.atMs, wrong };
    },
    verdict: () => verdictOf(peek()),
    start() {
      watch();
      timer = setInterval(watch, LOOK_EVERY_MS);
      timer.unref();
    },
    stop: () => clearInterval(timer),
    confirm: () =>
      transaction(store, (tx) => {
        const reading = read();
        const before = follow(stored(tx), reading);
        if (!before.doubt) return undefined;
        const ended = verdictOf(before);
        putSetting(tx, SETTING_NAMES.clock, confirmClock(before, reading), reading.atMs);
        const values = { expected: toTimestamp(ended.knownMs) };
        const after = { confirmed: toTimestamp(reading.atMs) };
        recordAct(tx, { action: "clock.confirm", before: values, after }, reading.atMs);
        return ended;
      }),
    access: accessClock(clock, () => verdictOf(peek())),
  };
}

const agesOf = ({ doubt, last, wrong }: ClockState): Ages | undefined =>
  doubt ? undefined : { nowMs: last.atMs, wrong };

/** Makes the clock that is never behind what is known. It is read for each request, so the difference is kept briefly. */
function accessClock(clock: Clock, verdict: () => ClockVerdict): Clock {
  let kept: { runningMs: number; atMs: number; behindMs: number } | undefined;
  return {
    now() {
      const [runningMs, atMs] = [performance.now(), clock.now()];
      const isFresh =
        kept !== undefined &&
        runningMs - kept.runningMs < ACCESS_KEPT_MS &&
        Math.abs(atMs - kept.atMs) < 2 * ACCESS_KEPT_MS;
      if (!kept || !isFresh) kept = { runningMs, atMs, behindMs: Math.max(0, -verdict().offsetMs) };
      return atMs + kept.behindMs;
    },
  };
}

function isNews(known: ClockState | undefined, next: ClockState): boolean {
  if (!known || (known.doubt === null) !== (next.doubt === null)) return true;
  const { last } = known;
  const pauseMs = next.doubt ? LOOK_EVERY_MS / 2 : STORE_EVERY_MS;
  const isOtherRun = last.since.boot !== next.last.since.boot;
  return (
    isOtherRun ||
    Math.abs(next.last.since.ms - last.since.ms) >= pauseMs ||
    Math.abs(next.last.atMs - last.atMs) >= STORE_EVERY_MS
  );
}

function verdictOf(state: ClockState): ClockVerdict {
  const { last, doubt } = state;
  return {
    isDoubtful: doubt !== null,
    atMs: last.atMs,
    knownMs: doubt?.knownMs ?? last.atMs,
    offsetMs: offsetOf(state),
    agreedMs: doubt?.agreedMs ?? 0,
  };
}

/**
 * Returns the time that a clock which was never read is compared with; undefined: there is none. A file from the future
 * tells of a clock that is behind. A file of today tells nothing: a restore under a wrong clock may have written it.
 */
function firstKnownMs({ database, clock, newestFileMs }: ClockTrustDeps): number | undefined {
  const entryMs = newestEntryMs(database.store);
  const fileMs = newestFileMs?.();
  if (entryMs === undefined || fileMs === undefined) return entryMs;
  return fileMs > clock.now() + MAX_DIFFERENCE_MS ? Math.max(entryMs, fileMs) : entryMs;
}

/** Returns when a recording was last added to a data directory, or removed. */
export function newestFileMs(dataDir: string): number | undefined {
  return statSync(audioDirectory(dataDir), { throwIfNoEntry: false })?.mtimeMs;
}
