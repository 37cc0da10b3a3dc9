import { type Ages, isOver } from "../../domain/clock-trust.ts";
import { audioFilePath, removeFile } from "../../store/audio-files.ts";
import { transaction } from "../../store/database.ts";
import { isWaitedOut } from "../../store/disk-full.ts";
import { listExpiredUploads, moveUpload, type UploadRow } from "../../store/uploads.ts";
import { inBackground, logEnding, type UploadContext } from "./upload-context.ts";

const BATCH = 200;

/**
 * Returns an upload as it is now. Rejects one that has expired, and removes its bytes in the background. While the clock is
 * in doubt none expires.
 */
export function expireUpload(context: UploadContext, upload: UploadRow): UploadRow {
  // Most uploads are young, whatever the clock does: reading it is left out.
  if (upload.state !== "allocated" || upload.expiresAt > context.clock.now()) return upload;
  const ages = context.ages();
  return ages && isOver(upload.createdAt, upload.expiresAt, ages)
    ? rejectExpired(context, upload, ages.nowMs)
    : upload;
}

function rejectExpired(context: UploadContext, upload: UploadRow, nowMs: number): UploadRow {
  const expired = transaction(context.database.store, (tx) =>
    moveUpload(tx, upload.id, "expire", nowMs, {
      finishedAt: nowMs,
      deletedAt: nowMs,
      errorCode: "upload_rejected",
      errorMessage: "The upload did not arrive in time.",
    }),
  );
  if (!expired) return upload;
  logEnding(context, expired);
  inBackground(context, "remove expired bytes", removeBytes(context, upload.id));
  return expired;
}

/**
 * Does what `expireUpload` does, for a client that only asks. While nothing can be written, it returns the upload as the
 * database has it.
 */
export function expireWherePossible(context: UploadContext, upload: UploadRow): UploadRow {
  try {
    return expireUpload(context, upload);
  } catch (error) {
    if (isWaitedOut(error)) return upload;
    throw error;
  }
}

/** Rejects each upload that has expired and removes its bytes. Returns how many. */
export async function expireUploads(context: UploadContext, ages: Ages): Promise<number> {
  let count = 0;
  for (;;) {
    const batch = listExpiredUploads(context.database.store, ages, BATCH);
    for (const upload of batch) rejectExpired(context, upload, ages.nowMs);
    count += batch.length;
    await Promise.all(context.background);
    if (batch.length < BATCH) return count;
  }
}

/** Removes an upload's file. Ends a request that still writes it first. */
export async function removeBytes(context: UploadContext, uploadId: string): Promise<void> {
  const release = await context.locks.acquire(uploadId, () => undefined);
  try {
    await removeFile(audioFilePath(context.dataDir, uploadId));
  } finally {
    release();
  }
}
