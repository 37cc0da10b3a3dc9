import { AppError } from "../domain/errors.ts";
import type { DeletionReceipt } from "../domain/receipt.ts";
import { recordAct } from "../store/audit-log.ts";
import { deleteChunks } from "../store/chunks.ts";
import type { Store } from "../store/database.ts";
import { deleteFetch } from "../store/fetches.ts";
import { deleteOutline } from "../store/outlines.ts";
import { deleteResultCopy } from "../store/result-copies.ts";
import { deleteResult, hashOfResult } from "../store/results.ts";
import { isUploadInUse, markContentDeleted, type TranscriptionRow } from "../store/transcriptions.ts";
import { findUpload, markAudioDeleted, moveUpload, type UploadRow } from "../store/uploads.ts";
import { forgetMetadata } from "../webhooks/event-rows.ts";
import type { ReceiptService } from "./receipts.ts";

/** What happens in the database when content is deleted: for requests, admins and retention. */

export type Deleting = { receipts: Pick<ReceiptService, "write">; nowMs: number };

/**
 * Removes result, chunks, outline and metadata of a finished transcription, and marks its recording. Writes the receipt and the
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
  removeContent(tx, marked);
  const recording = markRecordingDeleted(tx, uploadId, nowMs);
  const transcript = sha256 === undefined ? null : { sha256 };
  const deleted = { kind: "transcription", id, organization_id: organizationId } as const;
  const receipt = receipts.write(tx, { deleted, recording, transcript, removed: null });
  const after = { upload_id: uploadId, receipt: receipt.id };
  recordAct(tx, { action: "transcription.delete", object: id, organizationId, after }, nowMs);
  return marked;
}

/** Removes result, chunks, outline and addresses of a transcription, and its metadata from its events. */
export function removeContent(tx: Store, row: TranscriptionRow): void {
  deleteResult(tx, row.id);
  deleteChunks(tx, row.id);
  deleteOutline(tx, row.id);
  deleteFetch(tx, row.id);
  deleteResultCopy(tx, row.id);
  forgetMetadata(tx, row);
}

function markRecordingDeleted(tx: Store, uploadId: string, nowMs: number): DeletionReceipt["recording"] {
  const upload = findUpload(tx, uploadId);
  if (upload) rejectUnfinished(tx, upload, nowMs);
  if (!upload || !markAudioDeleted(tx, uploadId, nowMs)) return null;
  return { upload_id: uploadId, sha256: upload.storedSha256 ?? upload.sha256, bytes: upload.bytes };
}

/** Rejects an upload that takes bytes or is verified: no more of them are stored. */
function rejectUnfinished(tx: Store, { id, state }: UploadRow, nowMs: number): void {
  const rejection = { errorCode: "upload_rejected", errorMessage: "The upload was deleted." } as const;
  moveUpload(tx, id, state === "allocated" ? "expire" : "reject", nowMs, { finishedAt: nowMs, ...rejection });
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
