import { Database as SqliteDatabase } from "bun:sqlite";
import { isLocked } from "./disk-full.ts";
import { rowsOnce } from "./once.ts";
import { withPath } from "./with-path.ts";

/** A lock that a server holds on its data directory. The operating system releases it when the process ends. */
export type ProcessLock = { release(): void };

/**
 * Takes the lock of a file. It uses SQLite's file lock, which works on each system that the database works on.
 *
 * @returns undefined when another process holds it
 * @throws Error when the file cannot be made or opened
 */
export function takeProcessLock(path: string): ProcessLock | undefined {
  const file = withPath(path, () => new SqliteDatabase(path, { create: true }));
  try {
    // `isLockHeld` has a lock of its own for an instant.
    file.run("PRAGMA busy_timeout = 100");
    // Nothing is ever written, so a journal in a file is not needed.
    file.run("PRAGMA journal_mode = MEMORY");
    file.run("BEGIN EXCLUSIVE");
  } catch (error) {
    file.close();
    if (isLocked(error)) return undefined;
    throw error;
  }
  return { release: () => file.close() };
}

/** Reports whether another process holds the lock of a file. The lock stays as it is. */
export function isLockHeld(path: string): boolean {
  let file: SqliteDatabase | undefined;
  try {
    file = new SqliteDatabase(path, { readonly: true });
    file.run("PRAGMA busy_timeout = 0");
    rowsOnce(file, "SELECT count(*) FROM sqlite_schema");
    return false;
  } catch (error) {
    return isLocked(error);
  } finally {
    file?.close();
  }
}
