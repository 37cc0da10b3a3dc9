import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Config } from "../../config/schema.ts";
import { AppError } from "../../domain/errors.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Log } from "../../lib/log.ts";
import { asUser } from "../../lib/rights.ts";
import { toFileStamp } from "../../lib/time.ts";
import { restoreBackup } from "../../store/backup.ts";
import { type Database, databasePath } from "../../store/database.ts";
import type { AuditReport } from "../../store/ledger-audit.ts";
import { checkRestored } from "../../store/restore-check.ts";
import { beginAuditHeads } from "../audit-heads.ts";
import { dataDirOf } from "../data-dir.ts";
import { ownerOfData } from "../data-owner.ts";
import { saveClosings } from "../journal/closings.ts";
import { keptCopiesOf } from "../kept-copies.ts";
import { saveReceipts } from "../receipts.ts";
import type { BackupSignature, KnownKeys } from "./backup-signature.ts";
import { receiveSealed } from "./database-seal.ts";
import { closeAgain, type RestoredAccess } from "./restored-access.ts";

export type Restored = {
  databasePath: string;
  previousPath: string | undefined;
  ledger: AuditReport;
  access: RestoredAccess;
  signature: BackupSignature;
};

export type RestoreDeps = {
  config: Config;
  clock: Clock;
  log: Log;
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

/**
 * Replaces the database by a copy of the database alone, as `shruti backup FILE` makes it, and says who has signed the copy.
 *
 * @throws as `restoreDatabase`; AppError `invalid_request` for a wrong signature, or another key than the demanded one
 */
export function restoreDatabaseFile(deps: RestoreDeps, file: string, keys: KnownKeys): Restored {
  const name = resolve(file);
  return restoreDatabase(deps, file, name, (copy) => receiveSealed(copy, keys, name));
}
