import { resolve } from "node:path";
import packageJson from "../../../package.json" with { type: "json" };
import type { Config } from "../../config/schema.ts";
import type { Clock } from "../../lib/clock.ts";
import { recordAct } from "../../store/audit-log.ts";
import { openAnyVersion, openDatabase, type Store, transaction } from "../../store/database.ts";
import { DatabaseVersionError } from "../../store/database-version.ts";
import { findSetting, putSetting, SETTING_NAMES } from "../../store/settings.ts";
import { unconfirmedUpgrade } from "../../store/upgrade.ts";
import { dataDirOf, requireDatabase } from "../admin.ts";
import { backUpToArchive } from "./backup-archive.ts";
import { type BackupContents, type BackupRequest, joinNames, type Names } from "./backup-create.ts";
import { type BackupSigner, backupSigner } from "./backup-signature.ts";
import { backUpToStore, type StoredBackup } from "./backup-store.ts";

/** Backups of everything, for an admin's command. Their forms: backup-format.ts. */

export type BackupOptions = {
  config: Config;
  /** Absolute path of the config file; undefined: there is none. */
  configPath: string | undefined;
  environment: Record<string, string | undefined>;
  clock: Clock;
  /** With the weights of models, which are otherwise only named. */
  weights: boolean;
  /** With the secrets of the config file. */
  secrets: boolean;
};

/** Where a backup goes: a new archive, or a store, of which the newest `keep` backups are kept. */
export type BackupTarget = { file: string } | { store: string; keep: number | undefined };

/** A backup that was made. */
export type MadeBackup = ((BackupContents & { path: string }) | StoredBackup) & { signer: BackupSigner };

/**
 * Makes a backup of everything while a server may be running, and notes its time in the database for
 * `shruti_backup_age_seconds`.
 *
 * @throws AppError `not_found` without a database, `conflict` when the file exists or another backup to the store runs; the
 *   system's error
 */
export async function backUpEverything(options: BackupOptions, target: BackupTarget): Promise<MadeBackup> {
  const { config, configPath, clock } = options;
  const nowMs = clock.now();
  const dataDir = dataDirOf(config);
  const signer = backupSigner(dataDir);
  const live = openAnyVersion(requireDatabase(config));
  try {
    const request: BackupRequest = {
      ...{ config, configPath, nowMs, database: live },
      ...{ weights: options.weights, secrets: options.secrets },
      dataDir,
      signer,
      version: packageJson.version,
      variables: Object.keys(options.environment)
        .filter((name) => /^SHRUTI_[A-Z]+_/.test(name))
        .sort(),
    };
    const made =
      "file" in target
        ? { ...(await backUpToArchive(resolve(target.file), request)), path: resolve(target.file) }
        : await backUpToStore(resolve(target.store), request, target.keep);
    const { path, files, bytes, lacking } = made;
    const faulty = joinNames(made.missing, made.unreadable, made.damaged);
    noteBackup(config, { at_ms: nowMs, path, files, bytes, lacking, faulty });
    return { ...made, signer: signer() };
  } finally {
    live.sqlite.close();
  }
}

/**
 * The last backup of everything that was made. `at_ms` is the moment of the copy of the database, epoch milliseconds;
 * `faulty` is what could not be read on this machine or has changed there, `lacking` that part of it of which no earlier
 * backup had the right copy (older versions did not note them).
 */
export type LastBackup = {
  at_ms: number;
  path: string;
  files: number;
  bytes: number;
  lacking?: Names;
  faulty?: Names;
};

function noteBackup(config: Config, last: LastBackup): void {
  const path = requireDatabase(config);
  // A write would be in the way of `shruti migrate --undo`.
  if (unconfirmedUpgrade(path)) return;
  try {
    const database = openDatabase(path);
    try {
      const { path: object, bytes, files, lacking } = last;
      const after = { bytes, files, ...(lacking?.count ? { lacking: lacking.count } : {}) };
      transaction(database.store, (tx) => {
        putSetting(tx, SETTING_NAMES.lastBackup, last, last.at_ms);
        recordAct(tx, { action: "database.backup", object, after }, last.at_ms);
      });
    } finally {
      database.close();
    }
  } catch (error) {
    // A database of another version is backed up, too, and not written to.
    if (!(error instanceof DatabaseVersionError)) throw error;
  }
}

/** Returns what is known of the last backup of everything. */
export function lastBackup(store: Store): LastBackup | undefined {
  return findSetting(store, SETTING_NAMES.lastBackup) as LastBackup | undefined;
}
