import { rmSync } from "node:fs";
import type { Config } from "../config/schema.ts";
import type { DeletionReceipt } from "../domain/receipt.ts";
import { isFinal } from "../domain/transcription.ts";
import type { Clock } from "../lib/clock.ts";
import { audioFilePath } from "../store/audio-files.ts";
import { recordAct } from "../store/audit-log.ts";
import { type Database, type Store, transaction } from "../store/database.ts";
import { findOrganization, markPurgeStarted } from "../store/organizations.ts";
import { insertReceipt } from "../store/receipts.ts";
import { findTranscription, markContentDeleted } from "../store/transcriptions.ts";
import { findUpload, markAudioDeleted } from "../store/uploads.ts";
import { removeContent } from "./deletions.ts";
import { noteLowCredit } from "./low-credit.ts";
import type { ReceiptService } from "./receipts.ts";
import { settleTranscription } from "./transcriptions/settlement.ts";

/** What was deleted after a backup is deleted again in the database that was restored from it. */

export type LaterDeletions = {
  database: Database;
  clock: Clock;
  config: Config;
  dataDir: string;
  receipts: Pick<ReceiptService, "readUnknown">;
};
export type LaterDeletion = { document: DeletionReceipt; signed: string };

/** Finds the deletions that the database does not know, because it is a backup from before them. It only reads. */
export async function findLaterDeletions({ receipts }: LaterDeletions): Promise<LaterDeletion[]> {
  const later = new Map<string, LaterDeletion>();
  for await (const line of receipts.readUnknown()) later.set(line.document.id, line);
  return [...later.values()];
}

/**
 * Repeats deletions in a database from before them. Unfinished work on what was deleted is cancelled.
 * The purge of an organization begins again, and the server or `shruti orgs purge` completes it.
 */
export function repeatDeletions(
  { database, clock, config, dataDir }: LaterDeletions,
  deletions: readonly LaterDeletion[],
): void {
  for (const { document, signed } of deletions) {
    const { deleted, recording } = document;
    const nowMs = clock.now();
    transaction(database.store, (tx) => {
      repeatDeletion(tx, document, nowMs, config.billing);
      insertReceipt(tx, {
        ...{ id: document.id, object: deleted.id, organizationId: deleted.organization_id },
        ...{ createdAt: Date.parse(document.created_at), signed, mirroredAt: nowMs },
      });
    });
    if (recording) rmSync(audioFilePath(dataDir, recording.upload_id), { force: true });
  }
}

function repeatDeletion(
  tx: Store,
  { id: receipt, deleted, recording }: DeletionReceipt,
  nowMs: number,
  billing: Config["billing"],
): void {
  const { kind, id } = deleted;
  if (kind === "organization") {
    if (findOrganization(tx, id)) markPurgeStarted(tx, id, nowMs);
  } else if (kind === "transcription") {
    let row = findTranscription(tx, id);
    if (row && !isFinal(row.state)) {
      const message = "The transcription was deleted before its database was restored.";
      const ending = { kind: "cancelled", code: "content_deleted", message } as const;
      row = settleTranscription(tx, id, ending, { nowMs, timeZone: billing.timezone }) ?? row;
      // A stream may have sent some of it before the backup, and that is charged.
      noteLowCredit(tx, row.organizationId, billing.low_credit_paise, nowMs);
    }
    if (row) {
      removeContent(tx, row);
      markContentDeleted(tx, id, nowMs);
    }
  }
  if (kind !== "organization") {
    const after = { receipt, repeated: true };
    recordAct(
      tx,
      { action: `${kind}.delete`, object: id, organizationId: deleted.organization_id, after },
      nowMs,
    );
  }
  const upload = recording && findUpload(tx, recording.upload_id);
  if (upload) markAudioDeleted(tx, upload.id, nowMs);
}
