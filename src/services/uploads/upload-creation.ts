import { AppError } from "../../domain/errors.ts";
import type { Owner } from "../../domain/ownership.ts";
import { newId } from "../../lib/ids.ts";
import { newSecret } from "../../lib/secrets.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { ensureAudioDirectory } from "../../store/audio-files.ts";
import { gatedTransaction, type Store } from "../../store/database.ts";
import { insertUpload, type UploadRow } from "../../store/uploads.ts";
import { REQUEST_WAIT } from "../../store/write-gate.ts";
import type { UploadContext } from "./upload-context.ts";
import { checkDisk } from "./upload-disk.ts";
import { requireOpenPlace } from "./upload-limit.ts";
import { requireFit, spaceFor, takeSpace } from "./upload-space.ts";

/** The project that will own an upload, and the key that makes it. */
export type Uploader = Owner & { keyId?: string };
/** What a client declares about the file that it is going to send. */
export type UploadRequest = {
  bytes: number;
  sha256?: string;
  /** Is called in the transaction that stores the upload, for what must be stored with it. */
  note?: (tx: Store, upload: UploadRow) => void;
};
/** A new upload and its token. Only the token's hash is stored. */
export type CreatedUpload = { upload: UploadRow; token: string };

/**
 * Allocates an upload, with space for its first bytes.
 *
 * @throws AppError `audio_too_large`, `capacity_unavailable` (disk), `rate_limited`, `insufficient_credits`
 */
export async function createUpload(
  context: UploadContext,
  caller: Uploader,
  request: UploadRequest,
): Promise<CreatedUpload> {
  const { limits } = context.config;
  if (request.bytes > limits.max_upload_bytes) {
    throw new AppError("audio_too_large", {
      detail: "bytes",
      message: `The upload has more than the ${limits.max_upload_bytes} bytes allowed.`,
    });
  }
  context.unpaidActs.require("rejected uploads", caller.organizationId);
  await ensureAudioDirectory(context.dataDir);
  await checkDisk(context, request.bytes);
  const nowMs = context.clock.now();
  const token = newSecret("uploadToken");
  const insert = (tx: Store) => {
    requireOpenPlace(tx, context.config, caller.organizationId, nowMs);
    requireFit(tx, context, caller.organizationId, request.bytes);
    const spaceBytes = spaceFor(request.bytes, 0);
    takeSpace(tx, context, caller.organizationId, spaceBytes);
    const upload = insertUpload(tx, {
      spaceBytes,
      apiKeyId: caller.keyId ?? null,
      id: newId("upload", nowMs),
      organizationId: caller.organizationId,
      projectId: caller.projectId,
      state: "allocated",
      bytes: request.bytes,
      sha256: request.sha256 ?? null,
      tokenHash: sha256Hex(token),
      createdAt: nowMs,
      expiresAt: nowMs + limits.upload_expiry_seconds * 1000,
    });
    request.note?.(tx, upload);
    return upload;
  };
  return { upload: await gatedTransaction(context.database, insert, REQUEST_WAIT), token };
}
