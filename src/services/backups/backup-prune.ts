import { Database as SqliteDatabase } from "bun:sqlite";
import { closeSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { unfinishedPath } from "../../lib/durable-files.ts";
import { makePrivateFile } from "../../store/private-file.ts";
import { linesOf, openPlainFile } from "./backup-bytes.ts";
import { LIST, MAX_LINE_BYTES, STORE_BACKUPS } from "./backup-format.ts";
import { objectsIn } from "./backup-objects.ts";
import { backupsIn } from "./backup-reader.ts";

/** A line of a list begins with a SHA-256 in hex. */
const HASH_CHARACTERS = 64;

/**
 * Removes old backups of a store, and the objects that no backup needs any more.
 *
 * @param keep number of the newest backups that stay; at least one does
 * @param nowMs when the newest one was made
 * @returns the names of the removed backups
 */
export function prune(store: string, keep: number, nowMs: number): string[] {
  const names = backupsIn(store, nowMs);
  const removed = names.slice(0, Math.max(0, names.length - Math.max(1, keep)));
  for (const name of removed) {
    // From here on it is not a backup any more, even when the removal is interrupted.
    const leaving = unfinishedPath(join(store, STORE_BACKUPS));
    renameSync(join(store, STORE_BACKUPS, name), leaving);
    rmSync(leaving, { recursive: true, force: true });
  }
  if (removed.length > 0) removeUnneededObjects(store);
  return removed;
}

/** Compares the objects with the lists of all backups, in a database: memory does not grow with the store. */
function removeUnneededObjects(store: string): void {
  const path = join(store, ".needed.db");
  const remove = () => {
    for (const ending of ["", "-journal"]) rmSync(path + ending, { force: true });
  };
  // A killed backup may have left one.
  remove();
  makePrivateFile(path);
  const sqlite = new SqliteDatabase(path);
  try {
    noteNeeded(sqlite, store);
    const isNeeded = sqlite.prepare("SELECT 1 FROM needed WHERE sha256 = ?");
    for (const object of objectsIn(store)) {
      if (isNeeded.get(object.sha256) === null) rmSync(object.path, { force: true });
    }
    isNeeded.finalize();
  } finally {
    sqlite.close();
    remove();
  }
}

/** Fills the table `needed` with the hashes that any backup of the store lists. @throws Error for one without a list */
function noteNeeded(sqlite: SqliteDatabase, store: string): void {
  // After a crash the table is made again, so it need not survive one.
  sqlite.run("PRAGMA journal_mode = OFF");
  sqlite.run("PRAGMA synchronous = OFF");
  sqlite.run("CREATE TABLE needed (sha256 TEXT PRIMARY KEY) WITHOUT ROWID");
  const insert = sqlite.prepare("INSERT OR IGNORE INTO needed VALUES (?)");
  for (const name of backupsIn(store)) {
    const file = openPlainFile(join(store, STORE_BACKUPS, name, LIST));
    if (!file) throw new Error(`the backup ${name} lacks ${LIST}: nothing is removed`);
    try {
      const region = { descriptor: file.descriptor, offset: 0, bytes: file.facts.size };
      sqlite.transaction(() => {
        for (const line of linesOf(region, MAX_LINE_BYTES)) insert.run(line.slice(0, HASH_CHARACTERS));
      })();
    } finally {
      closeSync(file.descriptor);
    }
  }
  insert.finalize();
}
