import { Database as SqliteDatabase } from "bun:sqlite";
import { readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Act } from "../domain/audit.ts";
import { MAX_DIFFERENCE_MS } from "../domain/clock-trust.ts";
import { AppError } from "../domain/errors.ts";
import { freeBytesOf } from "../lib/disk-space.ts";
import { syncPathNow, writeDurably } from "../lib/durable-files.ts";
import { errorMessage } from "../lib/error-message.ts";
import { giveToOwner } from "../lib/give-to-owner.ts";
import { readRegularFile } from "../lib/regular-file.ts";
import { toFileStamp } from "../lib/time.ts";
import { recordIn } from "./audit-in-file.ts";
import { requireUnused, writeBackup } from "./backup.ts";
import { applyMigrations, setUp } from "./database.ts";
import {
  type DatabaseVersion,
  DatabaseVersionError,
  peekVersion,
  readVersion,
  UpgradeError,
} from "./database-version.ts";
import { isDiskFull } from "./disk-full.ts";
import { sha256OfFile } from "./file-hash.ts";
import { isUpgradeCopy, type KeptCopy, listUpgradeCopies } from "./kept-copies.ts";
import { MIGRATIONS } from "./migrations/index.ts";
import { rowsOnce } from "./once.ts";
import { withPath, withSettledPath } from "./with-path.ts";

/**
 * Upgrades of a database to this program's version, and the way back. Callers hold the lock of the data directory, so
 * no server runs and no other process upgrades.
 */

/** So many backups of upgrades are kept beside the database, the newest ones. */
export const KEPT_UPGRADE_BACKUPS = 3;

/** An upgrade that has been made. */
export type Upgrade = {
  /** Last migration before and after. */
  from: string;
  to: string;
  /** The copy from before: a file beside the database. */
  backup: string;
};

/** What the record beside the database says of an upgrade that no server has confirmed yet. */
type UpgradeRecord = Upgrade & {
  /** SHA-256 of the database file right after the upgrade; null where another process has written meanwhile. */
  sha256: string | null;
};

export type UpgradeOptions = {
  nowMs: number;
  migrations?: typeof MIGRATIONS;
  /** Called before the work begins, with the size of the database in bytes. */
  onBegin?: (version: DatabaseVersion, bytes: number) => void;
};

const MAX_RECORD_BYTES = 16 * 1024;
const BUSY_TIMEOUT_MS = 10_000;
const recordPath = (path: string) => `${path}.upgraded`;

/**
 * Upgrades a database of an older version: a backup beside it, then all migrations in one transaction. No other process
 * can write between the two.
 *
 * @returns undefined when the database has this program's version already
 * @throws DatabaseVersionError for a newer or foreign database; UpgradeError when backup or migration failed
 */
export async function upgradeDatabase(
  path: string,
  { nowMs, migrations = MIGRATIONS, onBegin }: UpgradeOptions,
): Promise<Upgrade | undefined> {
  const seen = peekVersion(path, migrations);
  if (seen?.state === "current" || seen?.state === "empty") return undefined;
  if (seen !== undefined && seen.state !== "older") throw new DatabaseVersionError(path, seen);
  requireSpace(path);
  if (seen) onBegin?.(seen, statSync(path).size);
  const sqlite = withPath(
    path,
    () => new SqliteDatabase(path, { readwrite: true, create: false, strict: true }),
  );
  try {
    withSettledPath(path, () => {
      sqlite.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
      setUp(sqlite);
      sqlite.run("BEGIN IMMEDIATE");
    });
    // From here on, no other process writes.
    const version = readVersion(sqlite, migrations);
    if (version.state === "current") return undefined;
    if (version.state !== "older" || version.found === undefined)
      throw new DatabaseVersionError(path, version);
    const backup = `${path}.version-${version.found.slice(0, 4)}.${toFileStamp(nowMs)}`;
    const upgrade = { from: version.found, to: version.needed, backup };
    await migrateWithBackup(sqlite, path, upgrade, { migrations, nowMs });
    return upgrade;
  } finally {
    if (sqlite.inTransaction) sqlite.run("ROLLBACK");
    sqlite.close();
  }
}

async function migrateWithBackup(
  sqlite: SqliteDatabase,
  path: string,
  upgrade: Upgrade,
  { migrations = MIGRATIONS, nowMs }: UpgradeOptions,
): Promise<void> {
  removeUnfinished(path);
  prune(path, KEPT_UPGRADE_BACKUPS - 1, nowMs);
  backUp(path, upgrade.backup);
  try {
    // Written before the commit: a server that starts after a crash right behind it must know of the upgrade.
    await writeRecord(path, { ...upgrade, sha256: null });
    applyMigrations(sqlite, migrations);
    recordUpgrade(sqlite, upgrade, nowMs);
  } catch (error) {
    rmSync(recordPath(path), { force: true });
    // The database is still the same as this copy. A server that tries again and again must not fill the disk.
    rmSync(upgrade.backup, { force: true });
    throw new UpgradeError(
      `the upgrade of ${path} to version ${upgrade.to} failed, and nothing was changed: ${errorMessage(error)}`,
      error,
    );
  }
  const writesOfOthers = countWritesOfOthers(sqlite);
  sqlite.run("COMMIT");
  await sealRecord(sqlite, path, upgrade, writesOfOthers);
}

/** @throws UpgradeError when the copy cannot be made */
function backUp(path: string, backup: string): void {
  try {
    // A second connection: SQLite cannot copy within the transaction that keeps other writers out.
    const reader = new SqliteDatabase(path, { readwrite: true, create: false });
    try {
      reader.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
      writeBackup({ sqlite: reader }, backup);
    } finally {
      reader.close();
    }
    giveToOwner(backup);
  } catch (error) {
    throw backupFailure(path, error);
  }
}

const backupFailure = (path: string, error: unknown) =>
  new UpgradeError(
    `${path} must be upgraded, but its backup beside it cannot be written, so nothing was changed: ${errorMessage(error)}`,
    error,
  );

/** Looks before anything is opened. @throws UpgradeError where the copy will not fit */
function requireSpace(path: string): void {
  const free = freeBytesOf(dirname(path));
  const bytes = statSync(path).size;
  if (free >= bytes) return;
  const reason = `it needs ${bytes} bytes, and the disk has ${free} free`;
  throw backupFailure(path, Object.assign(new Error(reason), { code: "ENOSPC" }));
}

/** Counts commits of other connections, as far as this one has noticed. */
function countWritesOfOthers(sqlite: SqliteDatabase): number {
  return rowsOnce<{ data_version: number }>(sqlite, "PRAGMA data_version")[0]?.data_version ?? 0;
}

/** Records the upgrade in its own transaction. */
function recordUpgrade(sqlite: SqliteDatabase, { from, to, backup }: Upgrade, nowMs: number): void {
  const changes = { before: { version: from }, after: { version: to } };
  recordIn(sqlite, { action: "database.upgrade", object: basename(backup), ...changes }, nowMs);
}

/** Adds the hash of the file to the record, unless another process has written since the upgrade. */
async function sealRecord(sqlite: SqliteDatabase, path: string, upgrade: Upgrade, writesBefore: number) {
  sqlite.run("PRAGMA wal_checkpoint(TRUNCATE)");
  sqlite.run("BEGIN IMMEDIATE");
  try {
    if (countWritesOfOthers(sqlite) !== writesBefore || logBytes(path) > 0) return;
    await writeRecord(path, { ...upgrade, sha256: await sha256OfFile(path) });
  } finally {
    sqlite.run("ROLLBACK");
  }
}

const logBytes = (path: string) => statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;

async function writeRecord(path: string, { backup, ...rest }: UpgradeRecord): Promise<void> {
  const record = { ...rest, backup: basename(backup) };
  await writeDurably(recordPath(path), `${JSON.stringify(record)}\n`, 0o600);
}

/** Returns the record of an upgrade that no server has confirmed; undefined when there is none. */
function readRecord(path: string): UpgradeRecord | undefined {
  try {
    const { from, to, backup, sha256 } = JSON.parse(readRegularFile(recordPath(path), MAX_RECORD_BYTES));
    if (typeof backup !== "string" || !isUpgradeCopy(path, backup)) return undefined;
    return { from, to, backup: join(dirname(path), backup), sha256 };
  } catch {
    return undefined;
  }
}

/** Returns the version of an existing database, and leaves the file as it is. @throws SQLite's error */
export function versionOf(path: string): DatabaseVersion {
  const version = peekVersion(path);
  if (version) return version;
  const sqlite = withPath(path, () => new SqliteDatabase(path, { readonly: true }));
  try {
    return withSettledPath(path, () => {
      sqlite.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
      return readVersion(sqlite);
    });
  } finally {
    sqlite.close();
  }
}

/** Returns the upgrade that has been made and that no server has confirmed yet. */
export function unconfirmedUpgrade(path: string): Upgrade | undefined {
  const record = readRecord(path);
  // A record of an upgrade that a crash has rolled back is not one.
  return record && peekVersion(path)?.found === record.to ? record : undefined;
}

/** Confirms an upgrade: from now on, `undoUpgrade` refuses. */
export function confirmUpgrade(path: string): void {
  rmSync(recordPath(path), { force: true });
  syncPathNow(dirname(path));
}

/** Records an act in a database that nothing else has open. */
function recordInFile(path: string, act: Act, nowMs: number): void {
  const sqlite = new SqliteDatabase(path, { readwrite: true, create: false });
  try {
    sqlite.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    sqlite.run("BEGIN IMMEDIATE");
    recordIn(sqlite, act, nowMs);
    sqlite.run("COMMIT");
  } finally {
    if (sqlite.inTransaction) sqlite.run("ROLLBACK");
    sqlite.close();
  }
}

/** Confirms an upgrade at once, and records it. Does nothing where no upgrade waits. @returns the upgrade */
export function keepUpgrade(path: string, nowMs: number): Upgrade | undefined {
  const upgrade = unconfirmedUpgrade(path);
  if (upgrade) {
    const act = { action: "database.keep_upgrade", object: basename(upgrade.backup) } as const;
    recordInFile(path, { ...act, after: { version: upgrade.to } }, nowMs);
  }
  confirmUpgrade(path);
  return upgrade;
}

/**
 * Puts the backup of an unconfirmed upgrade back, if nothing has been written since the upgrade, and records that in it.
 *
 * @returns the upgrade; `isRecorded` is false where a full disk has not taken the entry of the audit log
 * @throws AppError `not_found` without such an upgrade, `conflict` when the database has changed or is in use
 */
export async function undoUpgrade(path: string, nowMs: number): Promise<Upgrade & { isRecorded: boolean }> {
  const upgrade = unconfirmedUpgrade(path) && readRecord(path);
  if (!upgrade) throw new AppError("not_found", { message: `${path} has no upgrade that could be undone.` });
  requireUnused(path);
  if (logBytes(path) > 0 || upgrade.sha256 === null || (await sha256OfFile(path)) !== upgrade.sha256) {
    throw new AppError("conflict", {
      message: `${path} has been written to since its upgrade, so it stays; its backup from before is ${upgrade.backup}.`,
    });
  }
  const isRecorded = recordUndo(upgrade, nowMs);
  for (const suffix of ["-wal", "-shm"]) rmSync(path + suffix, { force: true });
  renameSync(upgrade.backup, path);
  syncPathNow(dirname(path));
  confirmUpgrade(path);
  return { ...upgrade, isRecorded };
}

/** Records the undoing in the backup before it takes its place. A full disk must not be in the way of going back. */
function recordUndo({ from, to, backup }: Upgrade, nowMs: number): boolean {
  const changes = { before: { version: to }, after: { version: from } };
  const act = { action: "database.undo_upgrade", object: basename(backup), ...changes } as const;
  try {
    recordInFile(backup, act, nowMs);
    return true;
  } catch (error) {
    if (isDiskFull(error)) return false;
    throw error;
  }
}

/** Removes copies that a kill has left unfinished. */
function removeUnfinished(path: string): void {
  for (const name of readdirSync(dirname(path))) {
    const [, backup] = /^(.*)\.\d+\.partial(-journal)?$/.exec(name) ?? [];
    if (backup !== undefined && isUpgradeCopy(path, backup))
      rmSync(join(dirname(path), name), { force: true });
  }
}

/** Removes the oldest backups of upgrades. */
function prune(path: string, kept: number, nowMs: number): void {
  // A copy from the future was made under a clock that was ahead, so it is older than all others.
  const isAhead = ({ atMs }: KeptCopy) => Number(atMs > nowMs + MAX_DIFFERENCE_MS);
  const copies = listUpgradeCopies(path).sort((a, b) => isAhead(a) - isAhead(b) || b.atMs - a.atMs);
  for (const copy of copies.slice(kept)) rmSync(copy.path, { force: true });
}
