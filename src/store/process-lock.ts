import { Database as SqliteDatabase } from "bun:sqlite";
import { withPath } from "./with-path.ts";

/** Held while a server works on a data directory; the operating system lets go of it when the process dies. */
export type ProcessLock = { release(): void };

/**
 * Takes the lock of a file, or learns that another process has it. SQLite's own file lock is used because it
 * works on every system the database works on.
 *
 * @returns undefined when another process holds it
 * @throws Error when the file cannot be made or opened
 */
export function takeProcessLock(path: string): ProcessLock | undefined {
  const file = withPath(path, () => new SqliteDatabase(path, { create: true }));
  try {
    file.run("PRAGMA busy_timeout = 0");
    // Nothing is ever written: a journal on the disk would only need room there.
    file.run("PRAGMA journal_mode = MEMORY");
    file.run("BEGIN EXCLUSIVE");
  } catch (error) {
    file.close();
    if ((error as { code?: string }).code?.startsWith("SQLITE_BUSY")) return undefined;
    throw error;
  }
  return { release: () => file.close() };
}
