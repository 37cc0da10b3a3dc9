import { rmSync } from "node:fs";
import type { Config } from "../config/schema.ts";
import { AppError } from "../domain/errors.ts";
import type { DeletionReceipt } from "../domain/receipt.ts";
import { isFinal } from "../domain/transcription.ts";
import type { Clock } from "../lib/clock.ts";
import { audioFilePath } from "../store/audio-files.ts";
import { recordAct } from "../store/audit-log.ts";
import { deleteChunks } from "../store/chunks.ts";
import { type Database, type Store, transaction } from "../store/database.ts";
import { findOrganization, markPurgeStarted } from "../store/organizations.ts";
import { deleteOutline } from "../store/outlines.ts";
import { insertReceipt } from "../store/receipts.ts";
import { deleteResult, hashOfResult } from "../store/results.ts";
import {
  findTranscription,
  isUploadInUse,
  markContentDeleted,
  type TranscriptionRow,
} from "../store/transcriptions.ts";
import { findUpload, markAudioDeleted, moveUpload, type UploadRow } from "../store/uploads.ts";
import { noteLowCredit } from "./low-credit.ts";
import type { ReceiptService } from "./receipts.ts";
import { settleTranscription } from "./transcriptions/settlement.ts";

/** What happens in the database when content is deleted: for requests, admins, retention and restored databases. */

export type Deleting = { receipts: Pick<ReceiptService, "write">; nowMs: number };

/**
 * Removes result, chunks and outline of a finished transcription, and marks its recording. Writes the receipt and the
 * entry of the audit log. The caller removes the files after the transaction.
 *
 * @returns the row afterwards; undefined when its content had been deleted before
 */
export function deleteTranscriptionContent(
  tx: Store,
  row: TranscriptionRow,
  { receipts, nowMs }: Deleting,
): TranscriptionRow | undefined {
  const sha256 = hashOfResult(tx, row.id);
  const marked = markContentDeleted(tx, row.id, nowMs);
  if (!marked) return undefined;
  const { id, organizationId, uploadId } = row;
  removeContent(tx, id);
  const recording = markRecordingDeleted(tx, uploadId, nowMs);
  const transcript = sha256 === undefined ? null : { sha256 };
  const deleted = { kind: "transcription", id, organization_id: organizationId } as const;
  const receipt = receipts.write(tx, { deleted, recording, transcript, removed: null });
  const after = { upload_id: uploadId, receipt: receipt.id };
  recordAct(tx, { action: "transcription.delete", object: id, organizationId, after }, nowMs);
  return marked;
}

function removeContent(tx: Store, id: string): void {
  deleteResult(tx, id);
  deleteChunks(tx, id);
  deleteOutline(tx, id);
}

function markRecordingDeleted(tx: Store, uploadId: string, nowMs: number): DeletionReceipt["recording"] {
  const upload = findUpload(tx, uploadId);
  if (!upload || !markAudioDeleted(tx, uploadId, nowMs)) return null;
  return { upload_id: uploadId, sha256: upload.storedSha256 ?? upload.sha256, bytes: upload.bytes };
}

/**
 * Deletes the recording of an upload that no unfinished transcription needs; an upload that is not complete is rejected.
 * Transcripts stay. Writes the receipt and the entry of the audit log. The caller removes the file afterwards.
 *
 * @returns false when it had been deleted before
 * @throws AppError `conflict` while an unfinished transcription uses it
 */
export function deleteUploadRecording(tx: Store, upload: UploadRow, { receipts, nowMs }: Deleting): boolean {
  const { id, organizationId } = upload;
  if (isUploadInUse(tx, id)) {
    throw new AppError("conflict", { message: `An unfinished transcription uses ${id}; cancel it first.` });
  }
  const rejection = { errorCode: "upload_rejected", errorMessage: "The upload was deleted." } as const;
  const trigger = upload.state === "allocated" ? "expire" : "reject";
  moveUpload(tx, id, trigger, nowMs, { finishedAt: nowMs, ...rejection });
  const recording = markRecordingDeleted(tx, id, nowMs);
  if (!recording) return false;
  const deleted = { kind: "upload", id, organization_id: organizationId } as const;
  const receipt = receipts.write(tx, { deleted, recording, transcript: null, removed: null });
  recordAct(
    tx,
    { action: "upload.delete", object: id, organizationId, after: { receipt: receipt.id } },
    nowMs,
  );
  return true;
}

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
    const row = findTranscription(tx, id);
    if (row && !isFinal(row.state)) {
      const message = "The transcription was deleted before its database was restored.";
      const ending = { kind: "cancelled", code: "content_deleted", message } as const;
      settleTranscription(tx, id, ending, { nowMs, timeZone: billing.timezone });
      // A stream may have sent some of it before the backup, and that is charged.
      noteLowCredit(tx, row.organizationId, billing.low_credit_paise, nowMs);
    }
    if (row) {
      removeContent(tx, id);
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
