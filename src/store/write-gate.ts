import type { Database as SqliteDatabase } from "bun:sqlite";
import { beginWait } from "../lib/abort.ts";
import { isLocked } from "./disk-full.ts";

/** How long work waits for a write lock that another program holds. */
export type Wait = {
  /** The longest wait, milliseconds; left out: until the lock is free. */
  withinMs?: number;
  /** Ends the wait. */
  signal?: AbortSignal;
};

/** The longest wait of a request. Commands of this program hold the lock for less. */
export const REQUEST_WAIT: Wait = { withinMs: 3_000 };

/** What the server does when another program keeps the write lock, and when that has ended. */
export type GateListener = {
  /** Called once the lock has been held for `NOTICED_AFTER_MS`. */
  onLocked: () => void;
  /** Called after `onLocked`, when the lock is free. @param lockedMs how long it was held */
  onFree: (lockedMs: number) => void;
};

/**
 * Lets a server wait for SQLite's write lock without blocking its event loop. SQLite itself would make the only thread
 * sleep. Commands do not need this: until `serve` is called, nothing waits here, and SQLite waits as the connection says.
 */
export type WriteGate = {
  /** Lets a statement fail soon from now on where another program holds the lock, while this gate waits for the lock. */
  serve(listener: GateListener): void;
  /**
   * Runs synchronous work, and again from its beginning each time that it meets the lock, once the lock is free. The work
   * must have had no effect when it fails like that: a transaction is its first write.
   *
   * @throws what the work throws; SQLite's error of a busy database when the wait was too long; the signal's reason
   */
  run<T>(work: () => T, wait?: Wait): Promise<T>;
  /** Waits until the lock is free. @throws as `run` */
  passed(wait?: Wait): Promise<void>;
  /** Notes that work has met the lock. */
  note(error: unknown): void;
  /** Returns for how long another program has held the lock, milliseconds; 0: it is free. */
  lockedMs(): number;
  /** Ends all waits. Work that meets the lock from now on fails at once: the server stops. */
  giveUp(): void;
};

/** How long SQLite itself may wait. A short write of a command ends within it, and no request notices this time. */
const SHORT_MS = 20;
/** How often the lock is looked at while another program holds it. */
const LOOK_EVERY_MS = 50;
/** A lock that is held for less is nothing that an admin should know of. */
export const NOTICED_AFTER_MS = 1_000;

type Waiter = { untilMs: number; resolve: () => void; reject: (error: unknown) => void };
type Locked = { sinceMs: number; error: unknown; isNoticed: boolean };

/** The gates of databases, for code that knows only the store. */
const gates = new WeakMap<object, WriteGate>();

/** Makes a store's gate known to `noteLocked`. */
export function rememberGate(store: object, gate: WriteGate): void {
  gates.set(store, gate);
}

/** Notes that a transaction has met the lock, where an error says so. */
export function noteLocked(store: object, error: unknown): void {
  if (isLocked(error)) gates.get(store)?.note(error);
}

export function createWriteGate(sqlite: SqliteDatabase): WriteGate {
  const waiting = new Set<Waiter>();
  let listener: GateListener | undefined;
  let locked: Locked | undefined;
  let hasGivenUp = false;
  let timer: Timer | undefined;

  const probe = () => tryLock(sqlite);
  const setTimeoutOfSqlite = (ms: number) => sqlite.run(`PRAGMA busy_timeout = ${ms}`);

  function note(error: unknown): void {
    if (!listener || hasGivenUp) return;
    if (locked) {
      locked.error = error;
      return;
    }
    locked = { sinceMs: performance.now(), error, isNoticed: false };
    // The lock is known to be held, so no statement waits for it inside SQLite.
    setTimeoutOfSqlite(0);
    timer = setTimeout(look, LOOK_EVERY_MS);
  }

  function look(): void {
    if (!locked) return;
    const error = probe();
    if (error === undefined) {
      open(locked);
      return;
    }
    const nowMs = performance.now();
    locked.error = error;
    if (!locked.isNoticed && nowMs - locked.sinceMs >= NOTICED_AFTER_MS) {
      locked.isNoticed = true;
      listener?.onLocked();
    }
    for (const waiter of waiting) if (waiter.untilMs <= nowMs) waiter.reject(error);
    timer = setTimeout(look, LOOK_EVERY_MS);
  }

  function open({ sinceMs, isNoticed }: Locked): void {
    locked = undefined;
    setTimeoutOfSqlite(SHORT_MS);
    if (isNoticed) listener?.onFree(performance.now() - sinceMs);
    releaseNext();
  }

  /** Lets one continue in each turn of the event loop, because each waits for the disk. */
  function releaseNext(): void {
    const [first] = waiting;
    if (!first || locked) return;
    first.resolve();
    setImmediate(releaseNext);
  }

  function place({ untilMs, signal }: { untilMs: number; signal: AbortSignal | undefined }): Promise<void> {
    if (performance.now() >= untilMs) return Promise.reject(locked?.error);
    const { promise, resolve, reject } = beginWait<void>(signal, () => waiting.delete(waiter));
    const waiter = { untilMs, resolve, reject };
    waiting.add(waiter);
    return promise.finally(() => waiting.delete(waiter));
  }

  const placeOf = ({ withinMs = Number.POSITIVE_INFINITY, signal }: Wait) => ({
    untilMs: performance.now() + withinMs,
    signal,
  });

  return {
    serve(given) {
      listener = given;
      setTimeoutOfSqlite(SHORT_MS);
    },
    async run(work, wait = {}) {
      const own = placeOf(wait);
      for (;;) {
        if (locked && !hasGivenUp) await place(own);
        try {
          return work();
        } catch (error) {
          if (!listener || hasGivenUp || !isLocked(error)) throw error;
          note(error);
        }
      }
    },
    async passed(wait = {}) {
      const own = placeOf(wait);
      while (listener && !hasGivenUp) {
        if (locked) await place(own);
        const error = probe();
        if (error === undefined) return;
        note(error);
      }
    },
    note,
    lockedMs() {
      if (!listener) return 0;
      if (!locked) {
        setTimeoutOfSqlite(0);
        const error = probe();
        if (error === undefined) setTimeoutOfSqlite(SHORT_MS);
        else note(error);
      }
      return locked ? performance.now() - (locked as Locked).sinceMs : 0;
    },
    giveUp() {
      hasGivenUp = true;
      clearTimeout(timer);
      for (const waiter of waiting) {
        if (locked) waiter.reject(locked.error);
        else waiter.resolve();
      }
    },
  };
}

/** Takes the write lock and gives it back. @returns the error when another program holds it */
function tryLock(sqlite: SqliteDatabase): unknown {
  try {
    sqlite.run("BEGIN IMMEDIATE");
  } catch (error) {
    // Any other failure is for the work that meets it.
    return isLocked(error) ? error : undefined;
  }
  sqlite.run("ROLLBACK");
  return undefined;
}
