import { Database as SqliteDatabase } from "bun:sqlite";
import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import { AppError } from "../domain/errors.ts";
import { giveToOwner } from "../lib/give-to-owner.ts";
import { backupDatabase, type Database, openDatabase } from "./database.ts";

/** How long a restore waits for somebody else's connection to go away, milliseconds. */
const EXCLUSIVE_WAIT_MS = 500;

/**
 * Writes a consistent copy of the database to a new file, also while a server works on it.
 *
 * @returns the copy's size in bytes
 * @throws AppError `conflict` when the file exists already
 */
export function writeBackup(database: Database, path: string): number {
  const unfinished = `${path}.${process.pid}.partial`;
  refuseExisting(path);
  try {
    backupDatabase(database, unfinished);
    chmodSync(unfinished, 0o600);
    syncFile(unfinished);
    // A link, unlike a rename, never replaces what somebody put there meanwhile.
    link(unfinished, path);
    syncFile(dirname(path));
    return statSync(path).size;
  } finally {
    rmSync(unfinished, { force: true });
  }
}

function refuseExisting(path: string): void {
  if (existsSync(path)) throw new AppError("conflict", { message: `${path} exists already.` });
}

function link(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    // Not every file system knows links.
    refuseExisting(to);
    renameSync(from, to);
  }
}

/**
 * Puts a backup into a database's place. The backup itself is only read; what stood there before is kept
 * beside it under another name.
 *
 * @param check is given the copy, brought up to date, before it takes the place; a throw leaves everything as it was
 * @param stamp makes the name of what stood there before
 * @returns where the database that stood there lies now; undefined when there was none
 * @throws AppError `not_found` without such a file, `invalid_request` for a file that is no backup,
 *   `conflict` while another process has the database open
 */
export function restoreBackup(
  backupPath: string,
  databaseFile: string,
  stamp: string,
  check: (copy: Database) => void,
): string | undefined {
  if (!existsSync(backupPath))
    throw new AppError("not_found", { message: `There is no file ${backupPath}.` });
  if (existsSync(databaseFile)) requireUnused(databaseFile);
  const copyPath = `${databaseFile}.${process.pid}.restoring`;
  try {
    // Never through a link that somebody has laid there.
    rmSync(copyPath, { force: true });
    copyFileSync(backupPath, copyPath, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
    chmodSync(copyPath, 0o600);
    giveToOwner(copyPath);
    requireShrutiDatabase(copyPath, backupPath);
    const copy = openDatabase(copyPath);
    try {
      check(copy);
    } finally {
      copy.close();
    }
    syncFile(copyPath);
    return exchange(copyPath, databaseFile, stamp);
  } finally {
    for (const suffix of ["", "-wal", "-shm"]) rmSync(copyPath + suffix, { force: true });
  }
}

function exchange(copyPath: string, databaseFile: string, stamp: string): string | undefined {
  let previous: string | undefined;
  if (existsSync(databaseFile)) {
    foldLog(databaseFile);
    previous = `${databaseFile}.before-${stamp}`;
    refuseExisting(previous);
    renameSync(databaseFile, previous);
  }
  renameSync(copyPath, databaseFile);
  syncFile(dirname(databaseFile));
  return previous;
}

/** Fails unless nobody else has the file open: every connection in WAL mode holds a shared lock while it lives. */
function requireUnused(path: string): void {
  withExclusive(path, () => {});
}

/** Brings the write-ahead log home, so that the database is one file again. */
function foldLog(path: string): void {
  withExclusive(path, (sqlite) => {
    sqlite.run("PRAGMA journal_mode = DELETE");
  });
}

function withExclusive(path: string, work: (sqlite: SqliteDatabase) => void): void {
  const sqlite = new SqliteDatabase(path, { readwrite: true, create: false });
  try {
    sqlite.run(`PRAGMA busy_timeout = ${EXCLUSIVE_WAIT_MS}`);
    sqlite.run("PRAGMA locking_mode = EXCLUSIVE");
    sqlite.run("BEGIN EXCLUSIVE");
    sqlite.run("COMMIT");
    work(sqlite);
  } catch (error) {
    if ((error as { code?: string }).code?.startsWith("SQLITE_BUSY")) {
      throw new AppError("conflict", { message: "The database is in use; stop the server first." });
    }
    throw error;
  } finally {
    sqlite.close();
  }
}

/** Opening would make an empty database of any file that can be made one; so look before. */
function requireShrutiDatabase(path: string, name: string): void {
  let sqlite: SqliteDatabase | undefined;
  try {
    sqlite = new SqliteDatabase(path, { readonly: true });
    sqlite.query("SELECT 1 FROM schema_migrations LIMIT 1").get();
    const state = sqlite.query<{ integrity_check: string }, []>("PRAGMA integrity_check(1)").get();
    if (state?.integrity_check === "ok") return;
  } catch {
    // Whatever SQLite says about the file, it is none of ours.
  } finally {
    sqlite?.close();
  }
  throw new AppError("invalid_request", {
    message: `${name} is not a valid backup of this program, or is damaged.`,
  });
}

function syncFile(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
