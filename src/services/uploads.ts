import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import type { VerifiedAudio } from "../domain/audio.ts";
import { AppError } from "../domain/errors.ts";
import { isId, newId } from "../lib/ids.ts";
import { sha256Hex } from "../lib/sha256.ts";
import { createShares, usualSpare } from "../lib/shares.ts";
import { within } from "../lib/within.ts";
import {
  audioFilePath,
  ensureAudioDirectory,
  moveIntoPlace,
  removeFile,
  syncFile,
} from "../store/audio-files.ts";
import { type Store, transaction } from "../store/database.ts";
import {
  deleteUpload,
  findUpload,
  insertUpload,
  markAudioDeleted,
  moveUpload,
  type UploadRow,
} from "../store/uploads.ts";
import { requireOwned, type Scope } from "./ownership.ts";
import type { UploadContext, UploadDeps } from "./upload-context.ts";
import { expireUpload, expireUploads, removeBytes } from "./upload-expiry.ts";
import { requireOpenPlace } from "./upload-limit.ts";
import { createUploadLocks } from "./upload-locks.ts";
import { sweepAudioFiles } from "./upload-orphans.ts";
import {
  authorizeUpload,
  checkDisk,
  discardBytes,
  MAX_RECEIVING,
  openUploadFile,
  type Receiving,
  receiveBytes,
  rejectionOf,
  requireReceiving,
  settleWriter,
  storedBytes,
} from "./upload-receiving.ts";
import { createVerifier, type Verifier } from "./upload-verification.ts";

export type { UploadDeps } from "./upload-context.ts";
export type { Received, Receiving } from "./upload-receiving.ts";
export { rejectionOf } from "./upload-receiving.ts";

/** Whose upload it is, and the key it is made with. */
export type Uploader = Scope & { keyId?: string };
/** What a client declares about a file it is going to send. */
export type UploadRequest = { bytes: number; sha256?: string };
/** A new upload and its token, which is shown this once. */
export type CreatedUpload = { upload: UploadRow; token: string };
/** An upload after `complete`; unfinished: verification goes on in the background (202). */
export type CompletedUpload = { upload: UploadRow; isFinished: boolean };
/** A whole, verified file that lies on the disk of the data directory. */
export type AdoptedFile = { path: string; bytes: number; sha256: string; verified: VerifiedAudio };

export type UploadService = ReturnType<typeof createUploadService>;

/** How long `complete` waits for a verification before it answers 202. */
const MAX_WAIT_MS = 25_000;

/** The rules of uploads (docs/interface.md sections 3.2 and 4.8 to 4.10, docs/decisions.md section 5). */
export function createUploadService(deps: UploadDeps) {
  const context: UploadContext = {
    ...deps,
    startedAtMs: Date.now(),
    locks: createUploadLocks(),
    writers: createShares(MAX_RECEIVING, usualSpare(MAX_RECEIVING)),
    background: new Set(),
  };
  const { store } = deps.database;
  const verifier = createVerifier(context);
  const completions = new Map<string, Promise<UploadRow>>();

  return {
    /** Allocates an upload. AppError `audio_too_large`, `capacity_unavailable` (disk), `rate_limited` (open ones). */
    create: (caller: Uploader, request: UploadRequest) => createUpload(context, caller, request),

    /** The upload as it is now. AppError `not_found`, `forbidden`. */
    get: (caller: Scope, id: string) => expireUpload(context, requireOwned(findUpload(store, id), caller)),

    /**
     * Says that all bytes have been sent, and verifies them. AppError `upload_incomplete`, and for a failed
     * verification its `upload_rejected` or `audio_decode_failed`, now and whenever it is asked again.
     */
    complete: (caller: Scope, id: string) => completeUpload(context, verifier, completions, caller, id),

    /**
     * The upload a transcription may start from. AppError `not_found`, `forbidden`, `upload_incomplete`,
     * `content_deleted`; detail `audio.upload_id`.
     */
    requireComplete: (tx: Store, caller: Scope, id: string) => requireComplete(context, tx, caller, id),

    /** Path of an upload's file, for the decoder. */
    audioPath: (id: string) => audioFilePath(deps.dataDir, id),

    /**
     * Looks for room on the disk before so many bytes are stored, or with 0 while they are.
     *
     * @throws AppError `capacity_unavailable`
     */
    requireRoom: (bytes: number) => checkDisk(context, bytes),

    /** Makes a synchronous request's file a complete upload, moved into place and brought to the disk. */
    adoptFile: (caller: Uploader, file: AdoptedFile) => adoptFile(context, caller, file),

    /** Undoes `adoptFile` when the request it was made for is refused after all. */
    async discardAdopted(id: string): Promise<void> {
      // The file first: on a full disk the record cannot be removed, and the file must not stay for it.
      await removeFile(audioFilePath(deps.dataDir, id));
      transaction(store, (tx) => deleteUpload(tx, id));
    },

    /** First half of a removal, in the caller's transaction. */
    markAudioDeleted: (tx: Store, id: string, nowMs: number) => markAudioDeleted(tx, id, nowMs),
    /** Second half, after it: a crash in between is made good by the sweep at the next start. */
    removeAudioFile: (id: string): Promise<void> => removeBytes(context, id),

    /** For the storage addresses, which have the upload's token instead of a caller. */
    authorize: (id: string, token: string | undefined) => authorizeUpload(context, id, token),
    receive: (id: string, receiving: Receiving) => receiveBytes(context, id, receiving),
    requireReceiving: (id: string) => requireReceiving(context, id),
    openFile: (id: string) => openUploadFile(context, id),
    discardBytes: (id: string) => discardBytes(context, id),
    settleWriter: (id: string) => settleWriter(context, id),
    storedBytes: (id: string) => storedBytes(context, id),
    /** Until when its bytes must arrive; undefined once they have or can no more. */
    async expiresAtMs(id: string): Promise<number | undefined> {
      const upload = findUpload(store, id);
      if (upload?.state !== "allocated") return undefined;
      return (await storedBytes(context, id)) === upload.bytes ? undefined : upload.expiresAt;
    },
    /** Uploads being written at this moment. */
    receiving: () => context.locks.held(),

    /** Goes on with the verifications that a stop, a crash or a failure of the machine left over. */
    resumeVerification: () => verifier.resume(),
    /** Rejects uploads whose time ran out; how many. */
    expire: () => expireUploads(context),
    /** Reconciles files and records. */
    sweepOrphans: () => sweepAudioFiles(context),

    /** Ends running requests and verifications and waits for them. */
    async close(): Promise<void> {
      await Promise.all([context.locks.close(), verifier.close()]);
      await Promise.all(context.background);
    },
  };
}

async function createUpload(
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
  await ensureAudioDirectory(context.dataDir);
  await checkDisk(context, request.bytes);
  const nowMs = context.clock.now();
  const token = `upt_${randomBytes(32).toString("base64url")}`;
  const upload = transaction(context.database.store, (tx) => {
    requireOpenPlace(tx, context.config, caller.organizationId, nowMs);
    return insertUpload(tx, {
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
  });
  return { upload, token };
}

async function completeUpload(
  context: UploadContext,
  verifier: Verifier,
  completions: Map<string, Promise<UploadRow>>,
  caller: Scope,
  id: string,
): Promise<CompletedUpload> {
  let upload = expireUpload(context, requireOwned(findUpload(context.database.store, id), caller));
  if (upload.state === "allocated") {
    let completion = completions.get(id);
    if (!completion) {
      completion = startVerification(context, upload).finally(() => completions.delete(id));
      completions.set(id, completion);
    }
    upload = await completion;
  }
  if (upload.state === "verifying") {
    const outcome = verifier.verify(upload);
    const isSmall = upload.bytes <= context.config.limits.verify_in_request_bytes;
    if (isSmall) upload = (await within(MAX_WAIT_MS, outcome)) ?? upload;
  }
  if (upload.state === "rejected") throw rejectionOf(upload);
  return { upload, isFinished: upload.state === "complete" };
}

/** Moves an upload whose bytes are all there to `verifying`; from then on nothing writes its file. */
async function startVerification(context: UploadContext, upload: UploadRow): Promise<UploadRow> {
  const release = context.locks.tryAcquire(upload.id, () => undefined);
  if (!release) throw new AppError("upload_incomplete", { message: "The upload is still being received." });
  try {
    const bytes = (await storedBytes(context, upload.id)) ?? 0;
    if (bytes !== upload.bytes) {
      throw new AppError("upload_incomplete", { message: `${bytes} of ${upload.bytes} bytes have arrived.` });
    }
    await syncFile(audioFilePath(context.dataDir, upload.id));
    const { store } = context.database;
    const moved = transaction(store, (tx) => moveUpload(tx, upload.id, "verify"));
    return moved ?? findUpload(store, upload.id) ?? upload;
  } finally {
    release();
  }
}

function requireComplete(context: UploadContext, tx: Store, caller: Scope, id: string): UploadRow {
  const detail = "audio.upload_id";
  const upload = requireOwned(isId("upload", id) ? findUpload(tx, id) : undefined, caller, detail);
  if (upload.state !== "complete") throw new AppError("upload_incomplete", { detail });
  if (upload.deletedAt !== null || !existsSync(audioFilePath(context.dataDir, id))) {
    throw new AppError("content_deleted", { detail, message: "The audio of this upload is deleted." });
  }
  return upload;
}

async function adoptFile(context: UploadContext, caller: Uploader, file: AdoptedFile): Promise<UploadRow> {
  await ensureAudioDirectory(context.dataDir);
  const nowMs = context.clock.now();
  const id = newId("upload", nowMs);
  const path = audioFilePath(context.dataDir, id);
  await moveIntoPlace(file.path, path);
  const insert = (tx: Store) =>
    insertUpload(tx, {
      id,
      apiKeyId: caller.keyId ?? null,
      organizationId: caller.organizationId,
      projectId: caller.projectId,
      state: "complete",
      bytes: file.bytes,
      sha256: file.sha256,
      // Nobody was given a token for it, and no token has this hash.
      tokenHash: "",
      createdAt: nowMs,
      expiresAt: nowMs,
      finishedAt: nowMs,
      durationMs: Math.round(file.verified.durationMs),
      channels: file.verified.channels,
      sampleRateHz: file.verified.sampleRateHz,
      truncated: file.verified.truncated,
    });
  try {
    return transaction(context.database.store, insert);
  } catch (error) {
    await removeFile(path);
    throw error;
  }
}
