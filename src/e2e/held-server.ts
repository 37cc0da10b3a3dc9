import { Database, SQLiteError } from "bun:sqlite";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { mountSmallDisk } from "../testing/boxes/small-disk.ts";
import { placeBinary } from "./binary.ts";
import type { RunningServer } from "./kit.ts";

/** Tools for tests that hold a server at a moment of its work, such as to fill its disk. */

/**
 * Lets a server go on step by step until a transcription is as wanted, and leaves it held with SIGSTOP.
 *
 * @param look reads the transcription from the database
 * @returns false when the transcription has completed before; the server is not held then
 */
export async function heldAt<T extends { state: string }>(
  server: RunningServer,
  look: () => T,
  isWanted: (now: T) => boolean,
): Promise<boolean> {
  while (true) {
    server.process.kill("SIGSTOP");
    const now = unlessLocked(() => {
      const found = look();
      return { state: found.state, isWanted: isWanted(found) };
    });
    if (now?.isWanted) return true;
    server.process.kill("SIGCONT");
    if (now?.state === "completed") return false;
    await Bun.sleep(1);
  }
}

/** Uses the database; undefined: the server was stopped while it held a lock that this needs. */
function unlessLocked<T>(use: () => T): T | undefined {
  try {
    return use();
  } catch (error) {
    if (error instanceof SQLiteError && /^SQLITE_(BUSY|PROTOCOL)/.test(error.code ?? "")) return undefined;
    throw error;
  }
}

/** Moves the write-ahead log into the database, so that nothing can be written without new space. Returns whether it could. */
export function emptyLog(dataDir: string): boolean {
  const database = new Database(join(dataDir, "shruti.db"));
  try {
    const busy = database.query<{ busy: number }, []>("PRAGMA wal_checkpoint(TRUNCATE)").get()?.busy;
    return busy === 0;
  } finally {
    database.close();
  }
}

/** Provides the executable for `install`, and a disk of its own for the data directory, which the test unmounts. */
export function placeWithSmallDisk(megabytes: number): (path: string) => Promise<void> {
  return async (path) => {
    const disk = join(dirname(dirname(path)), "data");
    mkdirSync(disk);
    if (!mountSmallDisk(disk, megabytes)) throw new Error("the small disk cannot be mounted");
    await placeBinary(path);
  };
}
