import { AppError } from "../../domain/errors.ts";
import type { Owner } from "../../domain/ownership.ts";
import { newId } from "../../lib/ids.ts";
import { newSecret } from "../../lib/secrets.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { audioFilePath, removeFile } from "../../store/audio-files.ts";
import { gatedTransaction, type Store } from "../../store/database.ts";
import { insertUpload, moveUpload, setUploadBytes, type UploadRow } from "../../store/uploads.ts";
import { logEnding, type UploadContext } from "./upload-context.ts";
import { checkDisk } from "./upload-disk.ts";
import { requireOpenPlace } from "./upload-limit.ts";
import { requireFit } from "./upload-space.ts";

/** Uploads whose bytes the server fetches itself. Their size is 0 until it is known, and they take space as bytes come. */

/**
 * Allocates such an upload, in the transaction that accepts its transcription. Its token is known to no one.
 *
 * @throws AppError `rate_limited` as `createUpload`
 */
export function allocateFetched(context: UploadContext, tx: Store, caller: Owner): UploadRow {
  const nowMs = context.clock.now();
  context.unpaidActs.require("rejected uploads", caller.organizationId);
  requireOpenPlace(tx, context.config, caller.organizationId, nowMs);
  return insertUpload(tx, {
    id: newId("upload", nowMs),
    organizationId: caller.organizationId,
    projectId: caller.projectId,
    state: "allocated",
    bytes: 0,
    tokenHash: sha256Hex(newSecret("uploadToken")),
    createdAt: nowMs,
    expiresAt: nowMs + context.config.limits.upload_expiry_seconds * 1000,
  });
}

/**
 * Says how many bytes the file of an upload has, before they come.
 *
 * @throws AppError `audio_too_large` when the organization could never store it; `conflict` when the upload takes no bytes
 */
export async function announceBytes(
  context: UploadContext,
  { id, organizationId }: Pick<UploadRow, "id" | "organizationId">,
  { bytes, isKnown }: { bytes: number; isKnown: boolean },
): Promise<void> {
  await gatedTransaction(context.database, (tx) => {
    if (isKnown) requireFit(tx, context, organizationId, bytes);
    if (!setUploadBytes(tx, id, bytes)) throw new AppError("conflict");
  });
}

/**
 * Checks before a server is asked for bytes, and again when their number is known, that the disk has space for them: otherwise they
 * would be fetched in vain, and again with each attempt.
 *
 * @param bytes that are still to come; 0: their number is not known
 * @throws AppError `capacity_unavailable`
 */
export const requireDisk = (context: UploadContext, bytes: number): Promise<void> =>
  checkDisk(context, bytes);

/**
 * Rejects an upload that cannot be fetched, and removes its bytes. Does nothing to one that takes no bytes any more.
 *
 * @param message why, for the client
 * @param isUnpaidAct the client could have known it
 */
export async function refuseFetched(
  context: UploadContext,
  upload: UploadRow,
  message: string,
  isUnpaidAct: boolean,
): Promise<void> {
  const { database, clock } = context;
  const release = await context.locks.acquire(upload.id, () => undefined);
  try {
    const nowMs = clock.now();
    const changes = {
      finishedAt: nowMs,
      deletedAt: nowMs,
      errorCode: "upload_rejected",
      errorMessage: message,
    } as const;
    const rejected = await gatedTransaction(database, (tx) =>
      moveUpload(tx, upload.id, "refuse", nowMs, changes),
    );
    if (!rejected) return;
    if (isUnpaidAct) context.unpaidActs.count("rejected uploads", upload.organizationId);
    logEnding(context, rejected);
    await removeFile(audioFilePath(context.dataDir, upload.id));
  } finally {
    release();
  }
}
