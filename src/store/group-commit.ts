import { type Database, gatedTransaction, type Store, transaction } from "./database.ts";

/** Runs small writes that come at the same time in one transaction, because each commit waits for the disk. */
export type GroupCommit = {
  /**
   * Runs a synchronous function inside the next transaction, in a savepoint of its own: its error rolls back its own
   * writes alone. Resolves with its value after the commit. Rejects with its error, or with the error of the commit. While
   * another program holds the write lock, the commit waits.
   */
  run<T>(work: (tx: Store) => T): Promise<T>;
};

/** Writes in one transaction at most. Later ones wait for the next. */
const MOST_WRITES = 16;
/** A write waits at most this long for others. One that comes after a pause does not wait. */
const LONGEST_WAIT_MS = 5;

type Write = { run: (tx: Store) => void; settle: () => void; fail: (error: unknown) => void };

export function createGroupCommit(database: Pick<Database, "store" | "gate">): GroupCommit {
  let waiting: Write[] = [];
  let timer: Timer | undefined;
  let lastCommit = Number.NEGATIVE_INFINITY;

  function commit(): void {
    clearTimeout(timer);
    timer = undefined;
    const writes = waiting;
    waiting = [];
    const write = (tx: Store) => {
      for (const { run } of writes) run(tx);
    };
    gatedTransaction(database, write).then(
      () => {
        for (const { settle } of writes) settle();
      },
      (error: unknown) => {
        for (const { fail } of writes) fail(error);
      },
    );
    lastCommit = performance.now();
  }

  function plan(): void {
    if (waiting.length >= MOST_WRITES) commit();
    else timer ??= setTimeout(commit, Math.max(0, lastCommit + LONGEST_WAIT_MS - performance.now()));
  }

  return {
    run: (work) =>
      new Promise((resolve, reject) => {
        waiting.push(writeOf(work, resolve, reject));
        plan();
      }),
  };
}

/** Returns a write that keeps the function's outcome until the commit. */
function writeOf<T>(work: (tx: Store) => T, resolve: (value: T) => void, fail: Write["fail"]): Write {
  let settle = () => {};
  return {
    run(tx) {
      try {
        const value = transaction(tx, work);
        settle = () => resolve(value);
      } catch (error) {
        settle = () => fail(error);
      }
    },
    settle: () => settle(),
    fail,
  };
}
