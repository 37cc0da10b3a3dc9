import { Database as SqliteDatabase } from "bun:sqlite";
import {
  closeSync,
  existsSync,
  linkSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { AppError } from "../domain/errors.ts";
import { isUnfinishedName, syncPathNow } from "../lib/durable-files.ts";
import { giveToOwner } from "../lib/give-to-owner.ts";
import { isRunning } from "../lib/is-running.ts";
import { openRegularFile } from "../lib/regular-file.ts";
import { asOwnerOf } from "../lib/rights.ts";
import { backupDatabase, type Database, migrate, openDatabase } from "./database.ts";
import { peekVersion } from "./database-version.ts";
import { isLocked } from "./disk-full.ts";
import { makePrivateFile } from "./private-file.ts";
import { checkBackupFile } from "./restore-check.ts";

/** How long a restore waits for another process to close the database, milliseconds. */
const EXCLUSIVE_WAIT_MS = 500;
const COPY_BYTES = 1024 * 1024;

/**
 * Writes a consistent copy of the database to a new file. A server may be using the database.
 *
 * @param complete is called with the path of the copy before it gets its name
 * @returns the copy's size in bytes
 * @throws AppError `conflict` when the file exists already
 */
export function writeBackup(
  database: Pick<Database, "sqlite">,
  path: string,
  complete: (copy: string) => void = () => {},
): number {
  const unfinished = `${path}.${process.pid}.partial`;
  refuseExisting(path);
  removeAbandonedParts(path);
  try {
    // The copy has the secrets that sign webhooks. SQLite gives its journal the mode of the database file, so an empty
    // private file is created first.
    rmSync(unfinished, { force: true });
    makePrivateFile(unfinished);
    backupDatabase(database, unfinished);
    complete(unfinished);
    syncPathNow(unfinished);
    // Unlike a rename, a link never replaces a file that another process has made meanwhile.
    linkNew(unfinished, path);
    syncPathNow(dirname(path));
    return statSync(path).size;
  } finally {
    rmSync(unfinished, { force: true });
  }
}

/** Removes what a killed backup to the same file has left. */
export function removeAbandonedParts(path: string): void {
  const folder = dirname(path);
  const prefix = `${basename(path)}.`;
  for (const name of readdirSync(folder)) {
    const pid = /^(\d+)\.partial(\.db|\.list)?(-journal)?$/.exec(name.slice(prefix.length))?.[1];
    if (name.startsWith(prefix) && pid !== undefined && !isRunning(Number(pid)))
      rmSync(join(folder, name), { force: true });
  }
}

function refuseExisting(path: string): void {
  if (existsSync(path)) throw new AppError("conflict", { message: `${path} exists already.` });
}

/** Gives a finished file its name. Never replaces a file. @throws AppError `conflict` when there is one of that name */
export function linkNew(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    // Some file systems have no links.
    refuseExisting(to);
    renameSync(from, to);
  }
}

/**
 * Replaces a database by a copy of a backup. It only reads the backup, and keeps the previous database under another
 * name. A backup of an older version keeps its version: the next start of the server upgrades it.
 *
 * @param stamp becomes a part of the previous database's new name
 * @param check is called with a copy of this program's version before anything is replaced; when it throws, nothing
 *   changes
 * @param prepare is called with the path of the checked copy, which has the version of the backup
 * @param receive is called with the path of the private copy, before anything reads it
 * @returns the path of the previous database; undefined when there was none
 * @throws AppError `not_found` when there is no such file, `invalid_request` when it is not a backup,
 *   `conflict` while another process has the database open
 */
export function restoreBackup(
  backupPath: string,
  databaseFile: string,
  stamp: string,
  check: (copy: Database) => void,
  prepare: (copyPath: string) => void = () => {},
  receive: (copyPath: string) => void = () => {},
): string | undefined {
  if (!asOwnerOf(backupPath, () => existsSync(backupPath)))
    throw new AppError("not_found", { message: `There is no file ${backupPath}.` });
  if (existsSync(databaseFile)) requireUnused(databaseFile);
  removeAbandonedCopies(databaseFile);
  const copyPath = restoringPath(databaseFile);
  const cleanPath = restoringPath(databaseFile, ".clean");
  try {
    copyPrivately(backupPath, copyPath);
    giveToOwner(copyPath);
    receive(copyPath);
    checkCopy(copyPath, backupPath, check);
    prepare(copyPath);
    copyCleanly(copyPath, cleanPath);
    giveToOwner(cleanPath);
    syncPathNow(cleanPath);
    return exchange(cleanPath, databaseFile, stamp);
  } finally {
    removeDatabase(copyPath);
    removeDatabase(cleanPath);
  }
}

/**
 * Copies a database row by row into pages that hold nothing else. A backup of an older version may have texts in the
 * unused parts of its pages, which no later deletion would reach.
 */
function copyCleanly(from: string, to: string): void {
  rmSync(to, { force: true });
  makePrivateFile(to);
  const sqlite = new SqliteDatabase(from, { readwrite: true, create: false });
  try {
    backupDatabase({ sqlite }, to);
  } finally {
    sqlite.close();
  }
}

/**
 * Checks a private copy of a backup: schema, integrity, and what `check` reads of it. The copy may be of an older
 * version.
 *
 * @param name what messages call it
 * @throws AppError `invalid_request` with what is wrong
 */
export function checkCopy(path: string, name: string, check: (copy: Database) => void): void {
  checkBackupFile(path, name);
  checkContent(path, check);
}

/** Runs a check that reads tables of this program's version. A copy of an older version is copied again for that. */
function checkContent(path: string, check: (copy: Database) => void): void {
  const isOlder = peekVersion(path)?.state === "older";
  const checked = isOlder ? `${path}.checked` : path;
  try {
    if (isOlder) {
      copyPrivately(path, checked);
      migrateFile(checked);
    }
    const copy = openDatabase(checked);
    try {
      check(copy);
      // Without this, closing checkpoints the log only once the garbage collector has freed each statement.
      copy.sqlite.run("PRAGMA journal_mode = DELETE");
    } finally {
      copy.close();
    }
  } finally {
    if (isOlder) removeDatabase(checked);
  }
}

function migrateFile(path: string): void {
  const sqlite = new SqliteDatabase(path, { readwrite: true, create: false });
  try {
    migrate(sqlite);
  } finally {
    sqlite.close();
  }
}

function removeDatabase(path: string): void {
  for (const suffix of ["", "-wal", "-shm", "-journal"]) rmSync(path + suffix, { force: true });
}

function exchange(copyPath: string, databaseFile: string, stamp: string): string | undefined {
  let previous: string | undefined;
  if (existsSync(databaseFile)) {
    foldLog(databaseFile);
    previous = `${databaseFile}.before-${stamp}`;
  }
  replaceKeeping(copyPath, databaseFile, previous);
  syncPathNow(dirname(databaseFile));
  return previous;
}

/**
 * Puts a file in the place of another one, which keeps a second name. There is a file at `target` at each moment: after a
 * crash in between, a server must not find an empty place and begin with a new database.
 *
 * @param kept the second name; undefined: there is nothing at `target`
 * @param replace is replaced in tests
 * @throws AppError `conflict` when there is a file of the second name
 */
export function replaceKeeping(
  from: string,
  target: string,
  kept: string | undefined,
  replace = renameSync,
): void {
  if (kept !== undefined) linkNew(target, kept);
  replace(from, target);
}

/** A file with a temporary name that is older belongs to a process that was killed. */
const ABANDONED_AFTER_MS = 24 * 3_600_000;
/** The first bytes of each database of SQLite. */
const MAGIC = Buffer.from("SQLite format 3\0");

/** Returns the path of a private copy that a restore of this process makes beside the database. */
export function restoringPath(databaseFile: string, step: "" | ".source" | ".clean" = ""): string {
  return `${databaseFile}.${process.pid}.restoring${step}`;
}

/**
 * Removes the private copies that a killed restore has left beside the database.
 *
 * @param isServer the caller is the server of this data directory, beside which no restore runs. The number of a process
 *   that was killed may be another one's by now, so only a server can be sure
 * @returns how many files were removed
 */
export function removeAbandonedCopies(databaseFile: string, isServer = false): number {
  if (databaseFile === ":memory:") return 0;
  const folder = dirname(databaseFile);
  const abandoned = readdirSync(folder).filter(
    (name) =>
      isCopyOfDead(basename(databaseFile), name, isServer) ||
      isOldUnfinished(folder, name) ||
      isUnfinishedDatabase(folder, name),
  );
  for (const name of abandoned) rmSync(join(folder, name), { force: true, recursive: true });
  return abandoned.length;
}

function isCopyOfDead(databaseName: string, name: string, isServer: boolean): boolean {
  if (!name.startsWith(`${databaseName}.`)) return false;
  const copy = /^(\d+)\.restoring(\.[a-z]+)*(-wal|-shm|-journal)?$/;
  const pid = copy.exec(name.slice(databaseName.length + 1))?.[1];
  return pid !== undefined && (isServer || !isRunning(Number(pid)));
}

/** Only restores of older versions have written databases under such names. */
function isUnfinishedDatabase(folder: string, name: string): boolean {
  if (!isUnfinishedName(name)) return false;
  try {
    const file = openRegularFile(join(folder, name));
    try {
      const head = Buffer.alloc(MAGIC.length);
      return readSync(file, head) === MAGIC.length && head.equals(MAGIC);
    } finally {
      closeSync(file);
    }
  } catch {
    return false;
  }
}

function isOldUnfinished(folder: string, name: string): boolean {
  if (!isUnfinishedName(name.replace(/-(wal|shm|journal)$/, ""))) return false;
  const facts = statSync(join(folder, name), { throwIfNoEntry: false });
  return facts !== undefined && Date.now() - facts.mtimeMs > ABANDONED_AFTER_MS;
}

/**
 * Checks that no other process has the file open. Each connection in WAL mode holds a shared lock.
 *
 * @throws AppError `conflict`
 */
export function requireUnused(path: string): void {
  withExclusive(path, () => {});
}

/** Checkpoints the write-ahead log into the database file, so that the database is one file. */
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
    if (isLocked(error)) {
      throw new AppError("conflict", { message: "The database is in use; stop the server first." });
    }
    throw error;
  } finally {
    sqlite.close();
  }
}

/** Copies a file into a new one that only its owner may read, from its first byte on. */
export function copyPrivately(from: string, to: string): void {
  const source = openRegularFile(from);
  try {
    // A link at this path must not be followed.
    rmSync(to, { force: true });
    makePrivateFile(to);
    const target = openSync(to, "r+");
    try {
      const buffer = new Uint8Array(COPY_BYTES);
      for (;;) {
        const count = readSync(source, buffer);
        if (count === 0) return;
        for (let written = 0; written < count; )
          written += writeSync(target, buffer, written, count - written);
      }
    } finally {
      closeSync(target);
    }
  } finally {
    closeSync(source);
  }
}
