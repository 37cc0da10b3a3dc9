import { chmodSync, existsSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Config } from "../../config/schema.ts";
import type { Clock } from "../../lib/clock.ts";
import { freeBytesOf } from "../../lib/disk-space.ts";
import { syncPathNow, unfinishedPath } from "../../lib/durable-files.ts";
import { giveToOwner, makeFolder } from "../../lib/give-to-owner.ts";
import type { Log } from "../../lib/log.ts";
import { asOwnerOf, asUser, ownerOf } from "../../lib/rights.ts";
import { audioDirectory } from "../../store/audio-files.ts";
import { restoringPath } from "../../store/backup.ts";
import { type Database, databasePath, openAnyVersion, openDatabase } from "../../store/database.ts";
import { sha256OfFile } from "../../store/file-hash.ts";
import { versionOf } from "../../store/upgrade.ts";
import type { AdminDeps } from "../admin.ts";
import { dataDirOf } from "../data-dir.ts";
import { lockDataDir, lockPathOf } from "../data-dir-lock.ts";
import { JOURNAL_FOLDER } from "../journal/journal-file.ts";
import { findLaterDeletions, repeatDeletions } from "../later-deletions.ts";
import { modelDirectoryOf } from "../models/model-registry.ts";
import { createReceiptService } from "../receipts.ts";
import { addName, type Names, noNames } from "./backup-create.ts";
import { CONFIG, DATABASE, FLEET, MODELS, SIGNING_KEY, STORE_BACKUPS, UPLOADS } from "./backup-format.ts";
import { type BackupFile, type BackupReader, openBackup } from "./backup-reader.ts";
import type { BackupSignature, KnownKeys } from "./backup-signature.ts";
import { modelsIn, recordingsIn } from "./backup-sources.ts";
import { copyOut, textOf, type VerifiedBackup, verifyBackup } from "./backup-verify.ts";
import { type RestoreDeps, type Restored, restoreDatabase } from "./database-restore.ts";
import { holdWorkers, removeWorkers, WORKERS } from "./held-workers.ts";
import type { RestoredAccess } from "./restored-access.ts";

export type RestoreOptions = {
  config: Config;
  /** Absolute. It is made where there is none. */
  dataDir: string;
  clock: Clock;
  log: Log;
  /** Keys that the signature is compared with. */
  keys?: KnownKeys;
} & Pick<RestoreDeps, "confirmKeys">;

/** What a restore has done, and what this machine still lacks. */
export type RestoredAll = Restored & {
  verified: VerifiedBackup;
  /** Deletions from after the backup that were repeated; undefined: a start of the server upgrades and repeats them. */
  deletionsRepeated: number | undefined;
  /** Workers of the fleet that are held back, as keys are. */
  workersHeld: number;
  /** Files that were written, and files that were there already with the same content. */
  written: number;
  kept: number;
  /** Recordings that the database has and neither the backup nor this machine. */
  missingRecordings: Names;
  /** Installed models of the old machine without their weights here. */
  missingModels: { id: string; version: string; sha256: string; source: string }[];
  /** Models and keys of this machine that differ from those of the backup. They were left as they are. */
  otherFiles: string[];
  /** Files with keys that the backup left out and this machine lacks. */
  missingKeys: string[];
  /** GPU backends of the old machine that this one lacks. */
  missingBackends: string[];
  /** The config file of the backup, as text; undefined: it had none. */
  configText: string | undefined;
};

const FOLDER_MODE = 0o700;
/** Weights are not secret, and `models.dir` may belong to root. */
const MODEL_FOLDER_MODE = 0o755;
const MODEL_MODE = 0o644;

/**
 * Restores everything: verifies the whole backup, then writes recordings and models, then exchanges the database. Until
 * that last step the old state is in force. Recordings that were written before a failure are removed by the next start of
 * the server, because the old database does not know them.
 *
 * @throws BackupError, AppError `invalid_request` for a backup that fails a check: nothing has changed then; AppError
 *   `conflict` while a server uses the data directory; the system's error
 */
export async function restoreAll(path: string, options: RestoreOptions): Promise<RestoredAll> {
  const backup = openBackup(path);
  try {
    return await asOwnerOf(options.dataDir, async () => {
      makeFolder(options.dataDir, FOLDER_MODE);
      const lock = lockDataDir(options.dataDir);
      try {
        giveToOwner(lockPathOf(options.dataDir));
        return await restoreFrom(backup, options);
      } finally {
        lock.release();
      }
    });
  } finally {
    backup.close();
  }
}

async function restoreFrom(backup: BackupReader, options: RestoreOptions): Promise<RestoredAll> {
  const { dataDir, config } = options;
  const copy = restoringPath(databasePath(dataDir), ".source");
  rmSync(copy, { force: true });
  try {
    const verified = await verifyBackup(backup, { databaseCopy: copy, keys: options.keys ?? {} });
    requireSpace(backup, options);
    const written = await writeFiles(backup, options);
    const deps = { ...options, config: withDataDir(config, dataDir), journalFolder: journalOf(backup.path) };
    const restored = restoreDatabase(deps, copy, backup.path, () => ({
      signature: () => verified.signature,
    }));
    const workersHeld = closeWorkers(restored.access, dataDir, written);
    const deletionsRepeated = await repeatLaterDeletions(deps);
    return {
      ...restored,
      ...written,
      workersHeld,
      ...{ verified, deletionsRepeated },
      missingRecordings: missingRecordings(restored.databasePath, dataDir),
      ...missingParts(backup, options),
    };
  } finally {
    for (const ending of ["", "-journal", "-wal", "-shm"]) rmSync(copy + ending, { force: true });
  }
}

/** Removes the fleet's workers that were removed after the backup, and holds the others back. @returns how many are held */
function closeWorkers(access: RestoredAccess, dataDir: string, { otherFiles }: Written): number {
  for (const id of removeWorkers(dataDir, access.removedWorkers))
    access.closed.push({ kind: "fleet_worker", change: "removed", id, organization_id: "" });
  // A list of this machine, which differs from that of the backup, was not replaced.
  return access.isHeld && !otherFiles.includes(WORKERS) ? holdWorkers(dataDir) : 0;
}

/** Returns the folder with the copies of the files of deletions and closings, where the backup is in a folder of backups. */
function journalOf(path: string): string | undefined {
  const folder = dirname(path);
  return basename(folder) === STORE_BACKUPS ? join(dirname(folder), JOURNAL_FOLDER) : undefined;
}

/** Repeats deletions from after the backup. @returns how many; undefined when the database must be upgraded first */
export async function repeatLaterDeletions({ config, clock }: AdminDeps): Promise<number | undefined> {
  const dataDir = dataDirOf(config);
  const path = databasePath(dataDir);
  if (versionOf(path).state !== "current") return undefined;
  const database = openDatabase(path);
  try {
    const receipts = createReceiptService({ database, clock, dataDir });
    const deps = { database, clock, config, dataDir, receipts };
    const found = await findLaterDeletions(deps);
    repeatDeletions(deps, found);
    return found.length;
  } finally {
    database.close();
  }
}

const withDataDir = (config: Config, dataDir: string): Config => ({
  ...config,
  storage: { ...config.storage, data_dir: dataDir },
});

/** @throws Error when the disk cannot take what is not there yet */
function requireSpace(backup: BackupReader, options: RestoreOptions): void {
  let needed = 0;
  for (const file of backup.files()) {
    const target = targetOf(file.name, backup, options);
    const found = target === undefined ? undefined : statSync(target, { throwIfNoEntry: false });
    // A restore copies the database twice more, to check it and to leave nothing in unused parts of its pages.
    if (file.name === DATABASE) needed += 3 * file.bytes;
    else if (found?.size !== file.bytes) needed += file.bytes;
  }
  if (freeBytesOf(options.dataDir) >= needed) return;
  throw new Error(
    `The disk of ${options.dataDir} has not enough space: ${Math.ceil(needed / 1e6)} MB are needed. Nothing was changed.`,
  );
}

type Written = Pick<RestoredAll, "written" | "kept" | "otherFiles" | "configText">;

async function writeFiles(backup: BackupReader, options: RestoreOptions): Promise<Written> {
  const outcome: Written = { written: 0, kept: 0, otherFiles: [], configText: undefined };
  const folders = new Set<string>();
  const models = modelDirectoryOf(options.config, options.dataDir);
  for (const file of backup.files()) {
    if (file.name === CONFIG) outcome.configText = await textOf(file);
    const target = targetOf(file.name, backup, options);
    if (target === undefined) continue;
    const write = () => writeFile(file, target, outcome);
    // `models.dir` may be elsewhere, and root's.
    const isWritten = file.name.startsWith(MODELS) ? await asUser(ownerOf(models), write) : await write();
    if (isWritten) folders.add(dirname(target));
  }
  for (const folder of folders) syncPathNow(folder);
  return outcome;
}

/** Writes a file where it is not there yet. @returns whether it was written */
async function writeFile(file: BackupFile, target: string, outcome: Written): Promise<boolean> {
  makeFolder(dirname(target), file.name.startsWith(MODELS) ? MODEL_FOLDER_MODE : FOLDER_MODE);
  if (await isThere(target, file)) outcome.kept += 1;
  else if (!file.name.startsWith(UPLOADS) && existsSync(target)) outcome.otherFiles.push(file.name);
  else {
    await putInPlace(file, target);
    outcome.written += 1;
    return true;
  }
  return false;
}

function targetOf(
  name: string,
  { description }: BackupReader,
  { config, dataDir }: RestoreOptions,
): string | undefined {
  if (name.startsWith(UPLOADS)) return join(audioDirectory(dataDir), name.slice(UPLOADS.length));
  if (name.startsWith(FLEET) || name === SIGNING_KEY) return join(dataDir, name);
  // A manifest without weights would only be reported as unusable.
  if (!name.startsWith(MODELS) || !description.models.weights) return undefined;
  return join(modelDirectoryOf(config, dataDir), name.slice(MODELS.length));
}

async function isThere(path: string, { bytes, sha256 }: BackupFile): Promise<boolean> {
  const found = statSync(path, { throwIfNoEntry: false });
  return found?.isFile() === true && found.size === bytes && (await sha256OfFile(path)) === sha256;
}

async function putInPlace(file: BackupFile, target: string): Promise<void> {
  const unfinished = unfinishedPath(dirname(target));
  try {
    await copyOut(file, unfinished);
    if (file.name.startsWith(MODELS)) chmodSync(unfinished, MODEL_MODE);
    giveToOwner(unfinished);
    syncPathNow(unfinished);
    renameSync(unfinished, target);
  } finally {
    rmSync(unfinished, { force: true });
  }
}

function missingRecordings(databasePath: string, dataDir: string): Names {
  const missing = noNames();
  const { sqlite }: Pick<Database, "sqlite"> = openAnyVersion(databasePath);
  try {
    for (const { id } of recordingsIn(sqlite)) {
      if (!existsSync(join(audioDirectory(dataDir), id))) addName(missing, id);
    }
  } finally {
    sqlite.close();
  }
  return missing;
}

function missingParts({ description }: BackupReader, { config, dataDir }: RestoreOptions) {
  const here = modelsIn(modelDirectoryOf(config, dataDir));
  const has = ({ id, sha256 }: { id: string; sha256: string }) =>
    here.some((model) => model.id === id && model.sha256 === sha256);
  return {
    missingModels: description.models.installed.filter((model) => !has(model)),
    missingKeys: description.keys_left_out.filter((name) => !existsSync(join(dataDir, name))),
    missingBackends: description.backends.filter((name) => !existsSync(join(dataDir, "backends", name))),
  };
}

/**
 * Reads the config file of a backup, and finds out who has signed it.
 *
 * @returns undefined as text: it has none
 * @throws BackupError
 */
export async function readConfigOf(
  path: string,
  keys: KnownKeys,
): Promise<{ text: string | undefined; signature: BackupSignature }> {
  const backup = openBackup(path);
  try {
    const signature = backup.signature(keys);
    let text: string | undefined;
    // To the end: only then it is known that the list is the one that was signed.
    for (const file of backup.files()) if (file.name === CONFIG) text = await textOf(file);
    return { text, signature };
  } finally {
    backup.close();
  }
}
