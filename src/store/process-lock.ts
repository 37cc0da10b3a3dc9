import { Database as SqliteDatabase } from "bun:sqlite";
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
    file.run("PRAGMA busy_timeout = 0");
    // Nothing is ever written, so a journal in a file is not needed.
    file.run("PRAGMA journal_mode = MEMORY");
    file.run("BEGIN EXCLUSIVE");
  } catch (error) {
    file.close();
    if ((error as { code?: string }).code?.startsWith("SQLITE_BUSY")) return undefined;
    throw error;
  }
  return { release: () => file.close() };
}
