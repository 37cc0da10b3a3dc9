import { accessSync, existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Config } from "../config/schema.ts";
import type { Act } from "../domain/audit.ts";
import { AppError } from "../domain/errors.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import { asUser, asWriterOf } from "../lib/rights.ts";
import { toFileStamp } from "../lib/time.ts";
import { recordAct } from "../store/audit-log.ts";
import { restoreBackup, writeBackup } from "../store/backup.ts";
import { noteMoment } from "../store/copy-moment.ts";
import { type Database, databasePath, openAnyVersion, openDatabase, transaction } from "../store/database.ts";
import type { AuditReport } from "../store/ledger-audit.ts";
import { checkRestored } from "../store/restore-check.ts";
import { versionOf } from "../store/upgrade.ts";
import { createWebhookService, type WebhookService } from "../webhooks/webhooks.ts";
import { type AccountService, createAccountService } from "./accounts.ts";
import { type ApiKeyService, createApiKeyService } from "./api-keys.ts";
import { beginAuditHeads, signAuditHeadOfBackup } from "./audit-heads.ts";
import { type BackupSignature, type BackupSigner, backupSigner } from "./backups/backup-signature.ts";
import { sealDatabase } from "./backups/database-seal.ts";
import { closeAgain, type RestoredAccess } from "./backups/restored-access.ts";
import { failureToRecord } from "./ballast.ts";
import { type ClockTrust, createClockTrust } from "./clock-trust.ts";
import { type ConsoleSessionService, createConsoleSessionService } from "./console-sessions.ts";
import { type CreditService, createCreditService } from "./credit.ts";
import { ownerOfData } from "./data-owner.ts";
import { saveClosings } from "./journal/closings.ts";
import { noteKnownBackup } from "./backups/known-backups.ts";
import { keptCopiesOf } from "./kept-copies.ts";
import { requireFolderOf } from "./output-folder.ts";
import { saveReceipts } from "./receipts.ts";

export type AdminDeps = { config: Config; clock: Clock; log: Log };

/** What an admin's command uses: the database, and the services that need no engine. */
export type Admin = AdminDeps & {
  /** Absolute path of the data directory. */
  dataDir: string;
  database: Database;
  apiKeys: ApiKeyService;
  accounts: AccountService;
  credit: CreditService;
  webhooks: WebhookService;
  consoleSessions: ConsoleSessionService;
  trust: ClockTrust;
  /** Records an act that has changed only files, right after it (`recordAct` of store/audit-log.ts). */
  record(act: Act): void;
  close(): void;
};

/** Returns the data directory, absolute. A relative one begins at the working directory. */
export function dataDirOf(config: Config): string {
  return resolve(config.storage.data_dir);
}

/**
 * Returns the path of an existing database. Only `shruti init` creates one: a mistyped directory, or one whose disk is
 * not mounted, must not become an empty service.
 *
 * @throws AppError `not_found` when there is none; Error when this user may not read its directory
 */
export function requireDatabase(config: Config): string {
  const path = databasePath(dataDirOf(config));
  try {
    accessSync(path);
    return path;
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code !== "ENOENT" && code !== "ENOTDIR")
      throw new Error(`${path} cannot be reached by this user (${code}); run the command with sudo`, {
        cause,
      });
  }
  throw new AppError("not_found", {
    message: `There is no database ${path}; \`shruti init\` makes one, --config names another.`,
  });
}

/**
 * Opens the database for an admin's command. A server may be running on the same data directory.
 *
 * @throws AppError `not_found` when there is no database yet
 */
export function openAdmin({ config, clock, log }: AdminDeps): Admin {
  const dataDir = dataDirOf(config);
  const path = requireDatabase(config);
  const database = openDatabase(path);
  const trust = createClockTrust({ database, clock, log });
  const apiKeys = createApiKeyService({ database, clock: trust.access });
  return {
    config,
    clock,
    log,
    dataDir,
    database,
    apiKeys,
    accounts: createAccountService({ database, clock, onChange: apiKeys.forgetCached }),
    credit: createCreditService({ database, clock, config }),
    webhooks: createWebhookService({ database, clock, config }),
    consoleSessions: createConsoleSessionService({ database, clock: trust.access }),
    trust,
    record: (act) => void transaction(database.store, (tx) => recordAct(tx, act, clock.now())),
    close() {
      apiKeys.close();
      database.close();
    },
  };
}

/**
 * Copies the database to a new file, whatever its version, and signs the copy. A server may be running.
 *
 * @returns the file's size in bytes, and with what it is signed; `unrecorded`: why the audit log has no entry of the backup,
 *   which is whole all the same
 * @throws AppError `not_found` without a database, `conflict` when the file exists
 */
export function backUpDatabase(
  { config, clock }: Pick<AdminDeps, "config" | "clock">,
  file: string,
): BackedUp {
  return asUser(ownerOfData(dataDirOf(config)), () => copyDatabase(config, clock, resolve(file)));
}

type BackedUp = { bytes: number; signer: BackupSigner; unrecorded: unknown };

function copyDatabase(config: Config, clock: Clock, file: string): BackedUp {
  const path = requireDatabase(config);
  asWriterOf(file, () => requireFolderOf(file));
  const signer = backupSigner(dataDirOf(config));
  const database = openAnyVersion(path);
  try {
    const write = () =>
      writeBackup(database, file, (copy) => {
        noteMoment(copy, clock.now());
        sealDatabase(copy, signer(), clock.now());
      });
    const bytes = asWriterOf(file, write);
    // A database of another version has its log in another form.
    const unrecorded =
      versionOf(path).state === "current"
        ? failureToRecord(dataDirOf(config), () => recordBackup(dataDirOf(config), file, bytes, clock.now()))
        : undefined;
    return { bytes, signer: signer(), unrecorded };
  } finally {
    database.sqlite.close();
  }
}

/** Records that all data were copied to a file. */
function recordBackup(dataDir: string, file: string, bytes: number, nowMs: number): void {
  const database = openDatabase(databasePath(dataDir));
  try {
    transaction(database.store, (tx) => {
      noteKnownBackup(tx, { path: file, kind: "database", at_ms: nowMs });
      recordAct(tx, { action: "database.backup", object: file, after: { bytes } }, nowMs);
    });
    signAuditHeadOfBackup(database.store, dataDir, nowMs);
  } finally {
    database.close();
  }
}

export type Restored = {
  databasePath: string;
  previousPath: string | undefined;
  ledger: AuditReport;
  access: RestoredAccess;
  signature: BackupSignature;
};

export type RestoreDeps = AdminDeps & {
  /** The admin vouches for all keys of the backup, so that none is held. */
  confirmKeys?: boolean;
  /** The folder with the copies of the files of deletions and closings, beside the backup. */
  journalFolder?: string | undefined;
};

/** Receives the private copy of a backup before anything reads it. */
type ReceiveCopy = (copyPath: string) => {
  /** Is called after all other checks. @throws AppError `invalid_request` for a copy that must not be restored */
  signature(): BackupSignature;
};

const UNSIGNED: BackupSignature = { by: "none", fingerprint: null };

/**
 * Replaces the database by a backup, after it has checked the backup's schema, identifiers and ledger. A backup of an
 * older version keeps it: the next start of the server upgrades the database, or `shruti migrate` does. What was closed
 * after the backup stays closed (`closeAgain`).
 *
 * @param backup what the audit log calls the file
 * @param receive is called with the path of the private copy
 * @throws AppError `not_found` without a data directory or such a file, `invalid_request` for a file that fails a
 *   check, `conflict` while another process has the database open
 */
export function restoreDatabase(
  deps: RestoreDeps,
  file: string,
  backup = resolve(file),
  receive: ReceiveCopy = () => ({ signature: () => UNSIGNED }),
): Restored {
  return asUser(ownerOfData(dataDirOf(deps.config)), () => exchangeDatabase(deps, file, backup, receive));
}

function exchangeDatabase(
  { config, clock, confirmKeys = false, journalFolder }: RestoreDeps,
  file: string,
  backup: string,
  receive: ReceiveCopy,
): Restored {
  const dataDir = dataDirOf(config);
  const path = databasePath(dataDir);
  if (!existsSync(dataDir)) {
    throw new AppError("not_found", {
      message: `There is no data directory ${dataDir}; \`shruti init\` makes one.`,
    });
  }
  const source = resolve(file);
  let ledger: AuditReport | undefined;
  let access: RestoredAccess | undefined;
  const nowMs = clock.now();
  // The restored database learns of later deletions and closings from the files alone.
  saveReceipts(dataDir);
  saveClosings(dataDir);
  let received: ReturnType<ReceiveCopy> | undefined;
  let signature: BackupSignature | undefined;
  const check = (copy: Database) => {
    ledger = checkRestored(copy, source);
    signature = received?.signature();
  };
  const kept = keptCopiesOf(path).map((copy) => copy.path);
  const prepare = (copy: string) => {
    access = closeAgain(copy, {
      ...{ nowMs, backup, previousPath: path, keptPaths: kept, confirmKeys },
      ...{ dataDir, journalFolder, signedBy: signature?.fingerprint ?? undefined },
    });
    beginAuditHeads(copy, dataDir, nowMs);
  };
  const previousPath = restoreBackup(source, path, toFileStamp(nowMs), check, prepare, (copy) => {
    received = receive(copy);
  });
  if (!ledger || !access || !signature) throw new Error("the restored database was not audited");
  return { databasePath: path, previousPath, ledger, access, signature };
}
