import { resolve } from "node:path";
import type { Config } from "../../config/schema.ts";
import type { Clock } from "../../lib/clock.ts";
import { asUser, asWriterOf } from "../../lib/rights.ts";
import { recordAct } from "../../store/audit-log.ts";
import { writeBackup } from "../../store/backup.ts";
import { noteMoment } from "../../store/copy-moment.ts";
import { databasePath, openAnyVersion, openDatabase, transaction } from "../../store/database.ts";
import { versionOf } from "../../store/upgrade.ts";
import { signAuditHeadOfBackup } from "../audit-heads.ts";
import { failureToRecord } from "../ballast.ts";
import { dataDirOf, requireDatabase } from "../data-dir.ts";
import { ownerOfData } from "../data-owner.ts";
import { requireFolderOf } from "../output-folder.ts";
import { type BackupSigner, backupSigner } from "./backup-signature.ts";
import { sealDatabase } from "./database-seal.ts";
import { noteKnownBackup } from "./known-backups.ts";

/**
 * Copies the database to a new file, whatever its version, and signs the copy. A server may be running.
 *
 * @returns the file's size in bytes, and with what it is signed; `unrecorded`: why the audit log has no entry of the backup,
 *   which is whole all the same
 * @throws AppError `not_found` without a database, `conflict` when the file exists
 */
export function backUpDatabase({ config, clock }: { config: Config; clock: Clock }, file: string): BackedUp {
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
