import type { VerifiedAudio } from "../../domain/audio.ts";
import { moveDurably } from "../../lib/durable-files.ts";
import { newId } from "../../lib/ids.ts";
import { audioFilePath, ensureAudioDirectory, removeFile } from "../../store/audio-files.ts";
import { gatedTransaction, type Store } from "../../store/database.ts";
import { deleteUpload, insertUpload, type UploadRow } from "../../store/uploads.ts";
import { REQUEST_WAIT } from "../../store/write-gate.ts";
import type { UploadContext } from "./upload-context.ts";
import type { Uploader } from "./upload-creation.ts";
import { takeSpace } from "./upload-space.ts";

/** A whole, verified file on the disk of the data directory. */
export type AdoptedFile = { path: string; bytes: number; sha256: string; verified: VerifiedAudio };

/**
 * Makes a file a complete upload: moves it into place, brings it to the disk, and stores its record.
 *
 * @throws AppError `rate_limited`, `insufficient_credits` when the organization may not store it
 */
export async function adoptFile(
  context: UploadContext,
  caller: Uploader,
  file: AdoptedFile,
): Promise<UploadRow> {
  await ensureAudioDirectory(context.dataDir);
  const nowMs = context.clock.now();
  const id = newId("upload", nowMs);
  const path = audioFilePath(context.dataDir, id);
  await moveDurably(file.path, path);
  const insert = (tx: Store) => {
    takeSpace(tx, context, caller.organizationId, file.bytes);
    return insertUpload(tx, {
      spaceBytes: file.bytes,
      id,
      apiKeyId: caller.keyId ?? null,
      organizationId: caller.organizationId,
      projectId: caller.projectId,
      state: "complete",
      bytes: file.bytes,
      sha256: file.sha256,
      storedSha256: file.sha256,
      // The upload has no token: no token has this hash.
      tokenHash: "",
      createdAt: nowMs,
      expiresAt: nowMs,
      finishedAt: nowMs,
      durationMs: Math.round(file.verified.durationMs),
      channels: file.verified.channels,
      sampleRateHz: file.verified.sampleRateHz,
      truncated: file.verified.truncated,
      reading: file.verified.reading,
    });
  };
  try {
    return await gatedTransaction(context.database, insert, REQUEST_WAIT);
  } catch (error) {
    await removeFile(path);
    throw error;
  }
}

/** Removes an adopted file and its record. */
export async function discardAdopted(context: UploadContext, id: string): Promise<void> {
  // The file goes first: on a full disk the record cannot be removed, and the file must not stay because of that.
  await removeFile(audioFilePath(context.dataDir, id));
  await gatedTransaction(context.database, (tx) => deleteUpload(tx, id), REQUEST_WAIT);
}
