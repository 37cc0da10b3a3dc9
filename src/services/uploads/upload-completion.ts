import { existsSync } from "node:fs";
import { AppError } from "../../domain/errors.ts";
import { type Owner, requireOwned } from "../../domain/ownership.ts";
import { isId } from "../../lib/ids.ts";
import { within } from "../../lib/within.ts";
import { audioFilePath, syncFile } from "../../store/audio-files.ts";
import { gatedTransaction, type Store } from "../../store/database.ts";
import { findUpload, moveUpload, type UploadRow } from "../../store/uploads.ts";
import { REQUEST_WAIT } from "../../store/write-gate.ts";
import type { UploadContext } from "./upload-context.ts";
import { expireUpload } from "./upload-expiry.ts";
import { rejectionOf, storedBytes } from "./upload-receiving.ts";
import type { Verifier } from "./upload-verification.ts";

/** How long `complete` waits for a verification before it answers 202. */
const MAX_WAIT_MS = 25_000;

/** An upload after `complete`. `isFinished` is false while verification continues in the background (202). */
export type CompletedUpload = { upload: UploadRow; isFinished: boolean };

/** What calls of `complete` share: the verifier, and the moves to `verifying` that are under way, by upload. */
export type Completions = { verifier: Verifier; moves: Map<string, Promise<UploadRow>> };

/** Ends the receiving of an upload and verifies it; see `UploadService.complete`. */
export async function completeUpload(
  context: UploadContext,
  { verifier, moves }: Completions,
  caller: Owner,
  id: string,
): Promise<CompletedUpload> {
  let upload = expireUpload(context, requireOwned(findUpload(context.database.store, id), caller));
  if (upload.state === "allocated") {
    let move = moves.get(id);
    if (!move) {
      move = startVerification(context, upload).finally(() => moves.delete(id));
      moves.set(id, move);
    }
    upload = await move;
  }
  if (upload.state === "verifying") {
    const outcome = verifier.verify(upload);
    const isSmall = upload.bytes <= context.config.limits.verify_in_request_bytes;
    if (isSmall) upload = (await within(MAX_WAIT_MS, outcome)) ?? upload;
  }
  if (upload.state === "rejected") throw rejectionOf(upload);
  return { upload, isFinished: upload.state === "complete" };
}

/**
 * Ends the receiving of an upload that the server has fetched. Verification continues in the background.
 *
 * @throws AppError `upload_incomplete` while bytes are missing
 */
export async function verifyFetched(
  context: UploadContext,
  { verifier }: Completions,
  upload: UploadRow,
): Promise<void> {
  const moved = await startVerification(context, upload);
  if (moved.state === "verifying") void verifier.verify(moved);
}

/** Moves an upload whose bytes have all arrived to `verifying`. From then on nothing writes its file. */
async function startVerification(context: UploadContext, upload: UploadRow): Promise<UploadRow> {
  const release = context.locks.tryAcquire(upload.id, () => undefined);
  if (!release) throw new AppError("upload_incomplete", { message: "The upload is still being received." });
  try {
    const bytes = (await storedBytes(context, upload.id)) ?? 0;
    // The size of a file that the server fetches is 0 until it is known.
    if (bytes !== upload.bytes || bytes === 0) {
      throw new AppError("upload_incomplete", { message: `${bytes} of ${upload.bytes} bytes have arrived.` });
    }
    await syncFile(audioFilePath(context.dataDir, upload.id));
    const { database, clock } = context;
    const changes = { spaceBytes: upload.bytes };
    const move = (tx: Store) => moveUpload(tx, upload.id, "verify", clock.now(), changes);
    const moved = await gatedTransaction(database, move, REQUEST_WAIT);
    return moved ?? findUpload(database.store, upload.id) ?? upload;
  } finally {
    release();
  }
}

/** Finds the upload that a transcription may start from; see `UploadService.requireComplete`. */
export function requireComplete(
  context: Pick<UploadContext, "dataDir">,
  tx: Store,
  caller: Owner,
  id: string,
): UploadRow {
  const detail = "audio.upload_id";
  const upload = requireOwned(isId("upload", id) ? findUpload(tx, id) : undefined, caller, detail);
  if (upload.state !== "complete") throw new AppError("upload_incomplete", { detail });
  if (upload.deletedAt !== null || !existsSync(audioFilePath(context.dataDir, id))) {
    throw new AppError("content_deleted", { detail, message: "The audio of this upload is deleted." });
  }
  return upload;
}
