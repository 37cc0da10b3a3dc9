import { closeSync, openSync } from "node:fs";
import { join, resolve } from "node:path";
import { AppError } from "../../domain/errors.ts";
import { statRegularFile } from "../../lib/regular-file.ts";
import { makeScratch, removeScratch } from "../../lib/scratch.ts";
import { checkCopy, copyPrivately } from "../../store/backup.ts";
import type { AuditReport } from "../../store/ledger-audit.ts";
import { makePrivateFile } from "../../store/private-file.ts";
import { checkRestored } from "../../store/restore-check.ts";
import { hashRegion, openPlainFile, pause, writeWhole } from "./backup-bytes.ts";
import {
  type BackupDescription,
  BackupError,
  DATABASE,
  DESCRIPTION,
  type Lacking,
  parseLacking,
  STORE_BACKUPS,
  UPLOADS,
  WITHOUT,
} from "./backup-format.ts";
import { objectsIn } from "./backup-objects.ts";
import { type BackupFile, type BackupReader, backupsIn, kindOfBackup, openBackup } from "./backup-reader.ts";
import type { BackupSignature, KnownKeys } from "./backup-signature.ts";
import { receiveSealed } from "./database-seal.ts";

const MAX_TEXT_BYTES = 1024 * 1024;

/** A backup whose files are all there and right, and whose database can be restored. */
export type VerifiedBackup = {
  path: string;
  description: BackupDescription;
  files: number;
  bytes: number;
  recordings: number;
  /** What could not be read, or was damaged, when the backup was made; undefined: the backup is complete. */
  lacking: Lacking | undefined;
  ledger: AuditReport;
  signature: BackupSignature;
};

/** The outcome for one backup. The problem is the end of a sentence that begins with the backup's name. */
export type VerifiedOne = { path: string } & ({ verified: VerifiedBackup } | { problem: string });

type VerifyOptions = {
  /** Keys that the signature is compared with. */
  keys?: KnownKeys;
  /** Where the copy of the database is left; undefined: it is removed. */
  databaseCopy?: string;
  /** Hashes of the objects of a store that are known to be damaged. All others have been read, and are not read again. */
  damagedObjects?: ReadonlySet<string>;
};

/**
 * Reads a backup to its end and compares every file with its SHA-256. Then checks its database as a restore would. Only
 * a copy of the database is written, to a temporary folder. Memory does not grow with the backup.
 *
 * @throws BackupError, AppError `invalid_request` with what is wrong
 */
export async function verifyBackup(
  backup: BackupReader,
  { databaseCopy, damagedObjects, keys = {} }: VerifyOptions = {},
): Promise<VerifiedBackup> {
  const folder = databaseCopy === undefined ? makeScratch() : undefined;
  const copy = databaseCopy ?? join(folder ?? "", DATABASE);
  try {
    const totals = { files: 0, bytes: 0, recordings: 0 };
    const wanted = new Set([DATABASE, DESCRIPTION]);
    let lacking: Lacking | undefined;
    for (const file of backup.files()) {
      const isRead = damagedObjects !== undefined && /^(models|uploads)\//.test(file.name);
      if (file.name === DATABASE) await copyOut(file, copy);
      else if (file.name === WITHOUT) lacking = parseLacking(await textOf(file));
      else if (!isRead) await file.read();
      else if (damagedObjects.has(file.sha256)) throw damage(file.name);
      wanted.delete(file.name);
      totals.files += 1;
      totals.bytes += file.bytes;
      if (file.name.startsWith(UPLOADS)) totals.recordings += 1;
      if (totals.files % 64 === 0) await pause();
    }
    if (wanted.size > 0) throw new BackupError(`it lacks ${[...wanted].join(" and ")}`);
    // Last, because what is wrong with a file says more than that something was changed.
    const signature = backup.signature(keys);
    const ledger = checkDatabase(copy, backup.path);
    return { path: backup.path, description: backup.description, ...totals, lacking, ledger, signature };
  } finally {
    if (folder !== undefined) removeScratch(folder);
  }
}

/** Reads a small file of a backup as text. @throws BackupError */
export async function textOf(file: BackupFile): Promise<string> {
  if (file.bytes > MAX_TEXT_BYTES) throw new BackupError(`its ${file.name} is too large`);
  const blocks: Buffer[] = [];
  await file.read((block) => void blocks.push(Buffer.from(block)));
  return Buffer.concat(blocks).toString("utf8");
}

const damage = (name: string) => new BackupError(`${name} is damaged: its SHA-256 is another`);

/** Writes a file of a backup to a new private file, and verifies it meanwhile. */
export async function copyOut(file: BackupFile, path: string): Promise<void> {
  makePrivateFile(path);
  const target = openSync(path, "r+");
  try {
    await file.read((block) => writeWhole(target, block));
  } finally {
    closeSync(target);
  }
}

function checkDatabase(copy: string, name: string): AuditReport {
  let ledger: AuditReport | undefined;
  checkCopy(copy, name, (database) => {
    ledger = checkRestored(database, name);
  });
  if (ledger === undefined) throw new Error("the database was not audited");
  return ledger;
}

/**
 * Verifies a copy of the database alone, as `shruti backup FILE` makes it.
 *
 * @throws AppError `invalid_request` with what is wrong; RegularFileError
 */
export function verifyDatabaseFile(
  path: string,
  keys: KnownKeys,
): { ledger: AuditReport; signature: BackupSignature } {
  statRegularFile(path);
  const folder = makeScratch();
  try {
    const copy = join(folder, DATABASE);
    copyPrivately(path, copy);
    const unsealed = receiveSealed(copy, keys, path);
    const ledger = checkDatabase(copy, path);
    return { ledger, signature: unsealed.signature() };
  } finally {
    removeScratch(folder);
  }
}

/**
 * Verifies what a path holds: an archive, a folder, or all backups of a store. Objects of a store are read once for all its backups.
 *
 * @throws BackupError when it is not a backup; AppError `not_found`
 */
export async function verifyAll(given: string, keys: KnownKeys = {}): Promise<VerifiedOne[]> {
  const path = resolve(given);
  if (kindOfBackup(path) !== "store") return [await outcomeOf(path, { keys })];
  const names = backupsIn(path);
  if (names.length === 0) throw new BackupError("it holds no complete backup");
  const damagedObjects = await findDamaged(path);
  const outcomes: VerifiedOne[] = [];
  for (const name of names)
    outcomes.push(await outcomeOf(join(path, STORE_BACKUPS, name), { damagedObjects, keys }));
  return outcomes;
}

async function outcomeOf(path: string, options: VerifyOptions): Promise<VerifiedOne> {
  try {
    const backup = openBackup(path);
    try {
      return { path, verified: await verifyBackup(backup, options) };
    } finally {
      backup.close();
    }
  } catch (error) {
    if (error instanceof BackupError) return { path, problem: error.message };
    if (error instanceof AppError && error.code === "invalid_request") {
      return { path, problem: error.message };
    }
    throw error;
  }
}

async function findDamaged(store: string): Promise<Set<string>> {
  const damaged = new Set<string>();
  for (const { sha256, path } of objectsIn(store)) {
    if (!(await hasHash(path, sha256))) damaged.add(sha256);
  }
  return damaged;
}

async function hasHash(path: string, sha256: string): Promise<boolean> {
  const file = openPlainFile(path);
  if (!file) return false;
  try {
    const region = { descriptor: file.descriptor, offset: 0, bytes: file.facts.size };
    return (await hashRegion(region)) === sha256;
  } finally {
    closeSync(file.descriptor);
  }
}
