import { audioFilePath, removeFile } from "../store/audio-files.ts";
import { transaction } from "../store/database.ts";
import { listExpiredUploads, moveUpload, type UploadRow } from "../store/uploads.ts";
import { inBackground, type UploadContext } from "./upload-context.ts";

const BATCH = 200;

/**
 * An upload as it is at this moment: one whose time to arrive ran out is rejected from that moment on, and its
 * bytes are removed behind it.
 */
export function expireUpload(context: UploadContext, upload: UploadRow): UploadRow {
  const nowMs = context.clock.now();
  if (upload.state !== "allocated" || upload.expiresAt > nowMs) return upload;
  const expired = transaction(context.database.store, (tx) =>
    moveUpload(tx, upload.id, "expire", {
      finishedAt: nowMs,
      deletedAt: nowMs,
      errorCode: "upload_rejected",
      errorMessage: "The upload did not arrive in time.",
    }),
  );
  if (!expired) return upload;
  inBackground(context, "remove expired bytes", removeBytes(context, upload.id));
  return expired;
}

/**
 * Rejects every upload whose time to arrive ran out and removes what had arrived.
 *
 * @returns how many
 */
export async function expireUploads(context: UploadContext): Promise<number> {
  let count = 0;
  for (;;) {
    const batch = listExpiredUploads(context.database.store, context.clock.now(), BATCH);
    for (const upload of batch) expireUpload(context, upload);
    count += batch.length;
    await Promise.all(context.background);
    if (batch.length < BATCH) return count;
  }
}

/** Removes an upload's file once nobody writes it any more. */
export async function removeBytes(context: UploadContext, uploadId: string): Promise<void> {
  const release = await context.locks.acquire(uploadId, () => undefined);
  try {
    await removeFile(audioFilePath(context.dataDir, uploadId));
  } finally {
    release();
  }
}
