import { dirname, join, resolve } from "node:path";
import packageJson from "../../../package.json" with { type: "json" };
import type { Config } from "../../config/schema.ts";
import type { Clock } from "../../lib/clock.ts";
import { silentLog } from "../../lib/log.ts";
import { asOwnerOf, asUser, ownerOf } from "../../lib/rights.ts";
import { recordAct } from "../../store/audit-log.ts";
import { openAnyVersion, openDatabase, type Store, transaction } from "../../store/database.ts";
import { DatabaseVersionError } from "../../store/database-version.ts";
import { isWaitedOut } from "../../store/disk-full.ts";
import { findSetting, putSetting, SETTING_NAMES } from "../../store/settings.ts";
import { unconfirmedUpgrade } from "../../store/upgrade.ts";
import { signAuditHeadOfBackup } from "../audit-heads.ts";
import { failureToRecord } from "../ballast.ts";
import { createClockTrust } from "../clock-trust.ts";
import { dataDirOf, requireDatabase } from "../data-dir.ts";
import { ownerOfData } from "../data-owner.ts";
import { backUpToArchive } from "./backup-archive.ts";
import { type BackupContents, type BackupRequest, joinNames, type Names } from "./backup-create.ts";
import { STORE_BACKUPS } from "./backup-format.ts";
import { applianceId, readKnownStores, readLastPath, rememberStore } from "./backup-memory.ts";
import { type BackupSigner, backupSigner } from "./backup-signature.ts";
import { backUpToStore, type StoredBackup } from "./backup-store.ts";
import { noteKnownBackup } from "./known-backups.ts";
import { requireStore } from "./store-identity.ts";

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

/**
 * Where a backup goes: a new archive, or a store, of which the newest `keep` backups are kept. `isNew`: an admin wants a new
 * store there, also where another one is expected.
 */
export type BackupTarget = { file: string } | { store: string; keep: number | undefined; isNew?: boolean };

/** A backup that was made. */
export type MadeBackup = ((BackupContents & { path: string }) | StoredBackup) & {
  signer: BackupSigner;
  /** Why the database has no note of the backup, which is whole all the same; undefined: it has one. */
  unrecorded: unknown;
};

/**
 * Makes a backup of everything while a server may be running, and notes its time in the database for
 * `shruti_backup_age_seconds`.
 *
 * @throws AppError `not_found` without a database or the store that is expected, `conflict` when the file exists, another
 *   backup to the store runs or the store is another appliance's, `invalid_request` for a store in the data directory; the
 *   system's error
 */
export function backUpEverything(options: BackupOptions, target: BackupTarget): Promise<MadeBackup> {
  return asUser(ownerOfData(dataDirOf(options.config)), () => backUp(options, target));
}

/** Does the work with the rights of the data directory's owner; what is written elsewhere, with those of its place. */
async function backUp(options: BackupOptions, target: BackupTarget): Promise<MadeBackup> {
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
        ? { ...(await addArchive(resolve(target.file), request)), path: resolve(target.file) }
        : await addToStore(target, request, clock);
    const { path, files, bytes, lacking } = made;
    const faulty = joinNames(made.missing, made.unreadable, made.damaged);
    const last = { at_ms: nowMs, path, files, bytes, lacking, faulty };
    const note = () =>
      noteBackup(config, last, "file" in target ? "archive" : "store", storeOf(target, made));
    const unrecorded = failureToRecord(dataDir, note);
    // After the commit: a head names only what no crash takes back.
    if (unrecorded === undefined) signHead(config, nowMs);
    return { ...made, signer: signer(), unrecorded };
  } finally {
    live.sqlite.close();
  }
}

const addArchive = (file: string, request: BackupRequest) =>
  asOwnerOf(dirname(file), () => backUpToArchive(file, request));

type StoreTarget = Extract<BackupTarget, { store: string }>;

async function addToStore(target: StoreTarget, request: BackupRequest, clock: Clock): Promise<StoredBackup> {
  const { config, dataDir, nowMs } = request;
  const store = resolve(target.store);
  const { sqlite } = request.database;
  const remembered = { known: readKnownStores(sqlite), lastPath: readLastPath(sqlite) };
  const storeUser = ownerOf(join(store, STORE_BACKUPS));
  asUser(storeUser, () => requireStore({ store, dataDir, ...remembered, isNew: target.isNew ?? false }));
  // Under a wrong clock it is not known which backups are the oldest ones: none is removed.
  const keep = isClockDoubtful(config, clock) ? undefined : target.keep;
  const appliance = findAppliance(config, nowMs);
  return asUser(storeUser, () => backUpToStore(store, request, keep, appliance));
}

/**
 * Reports whether the clock may be wrong. Nothing is known of it where the database is of another version, and before a
 * server has read it.
 */
function isClockDoubtful(config: Config, clock: Clock): boolean {
  try {
    const database = openDatabase(requireDatabase(config));
    try {
      const isKnown = findSetting(database.store, SETTING_NAMES.clock) !== undefined;
      return isKnown && createClockTrust({ database, clock, log: silentLog }).verdict().isDoubtful;
    } finally {
      database.close();
    }
  } catch (error) {
    if (error instanceof DatabaseVersionError) return false;
    // It is not known then, and the disk of the backups may have space.
    if (isWaitedOut(error)) return true;
    throw error;
  }
}

/** Returns the identifier of this appliance; undefined where the database cannot be written. */
function findAppliance(config: Config, nowMs: number): string | undefined {
  try {
    return inDatabase(config, (tx) => applianceId(tx, nowMs));
  } catch (error) {
    // The disk of the backups may have space, and the lock of another program ends.
    if (isWaitedOut(error)) return undefined;
    throw error;
  }
}

function storeOf(target: BackupTarget, made: object): { path: string; id: string } | undefined {
  if (!("store" in target) || !("storeId" in made) || typeof made.storeId !== "string") return undefined;
  return { path: resolve(target.store), id: made.storeId };
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

function noteBackup(
  config: Config,
  last: LastBackup,
  kind: "archive" | "store",
  store: { path: string; id: string } | undefined,
): void {
  const { path: object, bytes, files, lacking } = last;
  const after = { bytes, files, ...(lacking?.count ? { lacking: lacking.count } : {}) };
  inDatabase(config, (tx) => {
    putSetting(tx, SETTING_NAMES.lastBackup, last, last.at_ms);
    noteKnownBackup(tx, { path: last.path, kind, at_ms: last.at_ms });
    if (store) rememberStore(tx, store, last.at_ms);
    recordAct(tx, { action: "database.backup", object, after }, last.at_ms);
  });
}

/** Signs the head of the audit log. Where the database cannot be written now, the next start of the server does it. */
function signHead(config: Config, nowMs: number): void {
  try {
    inDatabase(config, (tx) => signAuditHeadOfBackup(tx, dataDirOf(config), nowMs));
  } catch (error) {
    if (!isWaitedOut(error)) throw error;
  }
}

/** Runs a transaction in the database. @returns undefined, and nothing is done, where it must not be written to */
function inDatabase<T>(config: Config, work: (tx: Store) => T): T | undefined {
  const path = requireDatabase(config);
  // A write would be in the way of `shruti migrate --undo`.
  if (unconfirmedUpgrade(path)) return undefined;
  try {
    const database = openDatabase(path);
    try {
      return transaction(database.store, work);
    } finally {
      database.close();
    }
  } catch (error) {
    // A database of another version is backed up, too, and not written to.
    if (error instanceof DatabaseVersionError) return undefined;
    throw error;
  }
}

/** Returns what is known of the last backup of everything. */
export function lastBackup(store: Store): LastBackup | undefined {
  return findSetting(store, SETTING_NAMES.lastBackup) as LastBackup | undefined;
}
