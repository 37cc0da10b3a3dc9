import type { FileHandle } from "node:fs/promises";
import { AppError } from "../domain/errors.ts";
import { type PaceLimits, watchPace } from "../lib/pace.ts";
import { equalsConstantTime, sha256Hex } from "../lib/sha256.ts";
import {
  audioDirectory,
  audioFilePath,
  fileBytes,
  hasCode,
  openForWriting,
  removeFile,
  syncDirectory,
} from "../store/audio-files.ts";
import { type AudioWriter, openAudioWriter } from "../store/audio-writer.ts";
import { findUpload, findUploadBearer, type UploadBearer, type UploadRow } from "../store/uploads.ts";
import type { UploadContext } from "./upload-context.ts";
import { expireUpload } from "./upload-expiry.ts";

/** Uploads that may be written at once; each may hold 1 MiB in memory. */
export const MAX_RECEIVING = 1024;
const PLACE_RETRY_SECONDS = 5;
/** How often a running upload looks at the free disk, in its own bytes. */
const DISK_CHECK_BYTES = 64 * 1024 * 1024;
const DISK_RETRY_SECONDS = 60;

/** How one request's bytes enter the file. */
export type Receiving = {
  /** Where they go: `start over` empties the file first, a number must be the file's size. */
  at: "start over" | number;
  /** The body; null: none. */
  body: ReadableStream<Uint8Array> | null;
  /** The body's length where the client declared it. */
  declaredBytes?: number;
  /** Told of every chunk: to keep a slow connection alive, to check a body's own digest. */
  onChunk?: (chunk: Uint8Array) => void;
  /** Aborted when the client went away. */
  signal?: AbortSignal;
  /** Asked once all bytes of the body are in the file; a throw takes them out again. */
  approve?: () => void;
};

/** What the file holds after a request. */
export type Received = { storedBytes: number; isWhole: boolean };

/**
 * The upload that a token belongs to (docs/decisions.md section 5).
 *
 * @throws AppError `unauthorized` for an unknown upload, a wrong token, and once the key that made the upload is
 *   revoked or expired; `organization_disabled`
 */
export function authorizeUpload(
  context: UploadContext,
  uploadId: string,
  token: string | undefined,
): UploadRow {
  const found = findUploadBearer(context.database.store, uploadId);
  const isRight = equalsConstantTime(sha256Hex(token ?? ""), found?.upload.tokenHash ?? sha256Hex(""));
  if (!token || !found || !isRight) {
    throw new AppError("unauthorized", { message: "The upload token is missing or invalid." });
  }
  if (!isKeyValid(found, context.clock.now())) {
    throw new AppError("unauthorized", { message: "The key that made this upload is not valid any more." });
  }
  if (found.organizationDisabledAt !== null) throw new AppError("organization_disabled");
  return expireUpload(context, found.upload);
}

/** A token is worth no more than the key it was given to. */
function isKeyValid({ upload, key }: UploadBearer, nowMs: number): boolean {
  if (upload.apiKeyId === null) return true;
  return key !== null && key.revokedAt === null && (key.expiresAt === null || key.expiresAt > nowMs);
}

/** A collection takes a few milliseconds, receiving so much many times that. */
const COLLECT_AFTER_BYTES = 16 * 1024 * 1024;
let uncollectedBytes = 0;

/**
 * The server reads ahead into buffers of its own, up to the whole of a request; an upload in chunks of 8 MiB leaves
 * one behind for each, and the garbage collector, which does not see their size, came 40 MiB late.
 */
function collectGarbageAfter(receivedBytes: number): void {
  uncollectedBytes += receivedBytes;
  if (uncollectedBytes < COLLECT_AFTER_BYTES) return;
  uncollectedBytes = 0;
  Bun.gc(true);
}

/**
 * Writes one request's bytes into the upload's file, as they come and never past the declared size.
 * An older request that still writes the same upload is ended first. Bytes that arrived before a failure stay
 * (a tus client resumes from there), except where the body was too long or was not approved.
 *
 * @throws AppError `conflict` (not at that position, not receiving any more, another request took over),
 *   `audio_too_large` (more bytes than declared), `capacity_unavailable` (disk, too many uploads at once, or a body
 *   that comes so slowly that it keeps others out)
 */
export async function receiveBytes(
  context: UploadContext,
  uploadId: string,
  receiving: Receiving,
): Promise<Received> {
  const takenOver = new AbortController();
  const release = await context.locks.acquire(uploadId, () => takenOver.abort());
  let organizationId: string | undefined;
  try {
    const upload = requireReceiving(context, uploadId);
    // Not before the lock: a client that lost its connection takes over from its own older request.
    if (!context.writers.take(upload.organizationId)) {
      throw new AppError("capacity_unavailable", { retryAfterSeconds: PLACE_RETRY_SECONDS });
    }
    organizationId = upload.organizationId;
    const path = audioFilePath(context.dataDir, uploadId);
    const start = await startPosition(path, receiving.at);
    checkDeclared(upload, start, receiving.declaredBytes);
    await checkDisk(context, 0);
    const file = await openForWriting(path, receiving.at === "start over" ? "empty" : "keep");
    try {
      const received = await receiveInto(context, {
        upload,
        file,
        start,
        receiving,
        takenOver: takenOver.signal,
      });
      collectGarbageAfter(received.storedBytes - start);
      return received;
    } finally {
      await file.close();
    }
  } catch (error) {
    throw asDiskFailure(error);
  } finally {
    if (organizationId !== undefined) context.writers.giveBack(organizationId);
    release();
  }
}

type ReceivingInto = {
  upload: UploadRow;
  file: FileHandle;
  start: number;
  receiving: Receiving;
  takenOver: AbortSignal;
};

async function receiveInto(context: UploadContext, into: ReceivingInto): Promise<Received> {
  const { upload, file, start, receiving } = into;
  const writer = openAudioWriter(file, start);
  let isUnwanted = false;
  try {
    isUnwanted = !(await pump(context, writer, into));
    await writer.flush();
    if (isUnwanted) throw tooManyBytes();
    isUnwanted = true;
    receiving.approve?.();
  } catch (error) {
    await writer.flush().catch(() => undefined);
    if (isUnwanted) await file.truncate(start);
    else if (receiving.at === "start over" && isDiskFailure(error)) await file.truncate(0);
    throw error;
  }
  const storedBytes = start + writer.written();
  const isWhole = storedBytes === upload.bytes;
  if (isWhole) {
    // Acknowledged bytes survive a power cut.
    await file.sync();
    await syncDirectory(audioDirectory(context.dataDir));
  }
  return { storedBytes, isWhole };
}

/**
 * Moves the body into the writer, counting and watching its pace and the disk.
 *
 * @returns false when the body has more bytes than the upload has room for; those past it are not taken
 */
async function pump(context: UploadContext, writer: AudioWriter, into: ReceivingInto): Promise<boolean> {
  const { upload, start, receiving, takenOver } = into;
  if (!receiving.body) return true;
  const reader = receiving.body.getReader();
  // Ends a read that would otherwise wait for a client that says nothing. The body is not cancelled: who answers the
  // request may read what is left of it, so that the answer arrives.
  const stop = () => reader.releaseLock();
  const pace = watchPace(paceOf(context.config), stop);
  takenOver.addEventListener("abort", stop, { once: true });
  receiving.signal?.addEventListener("abort", stop, { once: true });
  let taken = 0;
  let nextDiskCheck = DISK_CHECK_BYTES;
  // Aborts that came before the listeners did are seen here.
  const goOn = () => {
    if (takenOver.aborted) throw takenOverError();
    if (receiving.signal?.aborted) throw goneError();
    if (pace.isTooSlow()) throw tooSlowError();
  };
  try {
    for (;;) {
      goOn();
      const { done, value } = await reader.read().catch((cause: unknown) => {
        goOn();
        throw goneError(cause);
      });
      goOn();
      if (done) return true;
      taken += value.length;
      if (start + taken > upload.bytes) return false;
      receiving.onChunk?.(value);
      pace.arrived(value.length);
      const full = writer.write(value);
      if (full) await pace.during(full);
      if (taken < nextDiskCheck) continue;
      nextDiskCheck = taken + DISK_CHECK_BYTES;
      await pace.during(checkDisk(context, 0));
    }
  } finally {
    pace.end();
    takenOver.removeEventListener("abort", stop);
    receiving.signal?.removeEventListener("abort", stop);
    stop();
  }
}

/**
 * Throws away what has arrived; the upload stays allocated and can be sent again until it expires.
 *
 * @throws AppError `conflict` once it is being verified or finished
 */
export async function discardBytes(context: UploadContext, uploadId: string): Promise<void> {
  const release = await context.locks.acquire(uploadId, () => undefined);
  try {
    requireReceiving(context, uploadId);
    await removeFile(audioFilePath(context.dataDir, uploadId));
  } finally {
    release();
  }
}

/** Bytes in the upload's file; undefined when it has none. */
export function storedBytes(context: UploadContext, uploadId: string): Promise<number | undefined> {
  return fileBytes(audioFilePath(context.dataDir, uploadId));
}

/** Ends a request that still writes this upload and waits until it has let go; what it wrote stays. */
export async function settleWriter(context: UploadContext, uploadId: string): Promise<void> {
  if (context.locks.isHeld(uploadId)) (await context.locks.acquire(uploadId, () => undefined))();
}

/** Makes the upload's file when there is none; the bytes of one that is there stay untouched. */
export async function openUploadFile(context: UploadContext, uploadId: string): Promise<void> {
  requireReceiving(context, uploadId);
  try {
    await (await openForWriting(audioFilePath(context.dataDir, uploadId), "keep")).close();
  } catch (error) {
    throw asDiskFailure(error);
  }
}

/** The upload while it takes bytes. */
export function requireReceiving(context: UploadContext, uploadId: string): UploadRow {
  const row = findUpload(context.database.store, uploadId);
  if (!row) throw new AppError("not_found");
  const upload = expireUpload(context, row);
  if (upload.state === "rejected") throw rejectionOf(upload);
  if (upload.state !== "allocated") {
    throw new AppError("conflict", {
      message: "The upload has been marked complete and takes no more bytes.",
    });
  }
  return upload;
}

/** Why an upload was rejected, as the error that says so (docs/decisions.md section 5). */
export function rejectionOf(upload: UploadRow): AppError {
  return new AppError(
    upload.errorCode ?? "upload_rejected",
    upload.errorMessage === null ? {} : { message: upload.errorMessage },
  );
}

/**
 * Free disk above the reserve for a new upload of so many bytes (`bytes` > 0), and above half of it for one
 * that is running: the rest is the database's.
 */
export async function checkDisk(
  context: Pick<UploadContext, "config" | "freeBytes">,
  bytes: number,
): Promise<void> {
  const reserve = context.config.storage.reserve_bytes;
  const free = await context.freeBytes();
  if (bytes > 0 ? free - bytes < reserve : free < reserve / 2) {
    throw new AppError("capacity_unavailable", {
      message: "The disk has no room for this file now.",
      retryAfterSeconds: DISK_RETRY_SECONDS,
    });
  }
}

/** The least pace of a body that holds a place for receiving. */
export function paceOf({ limits }: UploadContext["config"]): PaceLimits {
  return {
    bytesPerSecond: limits.min_receive_bytes_per_second,
    slowMs: limits.slow_receive_seconds * 1000,
  };
}

async function startPosition(path: string, at: Receiving["at"]): Promise<number> {
  if (at === "start over") return 0;
  const stored = (await fileBytes(path)) ?? 0;
  if (stored !== at) {
    throw new AppError("conflict", { message: `The upload has ${stored} bytes; send from there.` });
  }
  return at;
}

function checkDeclared(upload: UploadRow, start: number, declaredBytes: number | undefined): void {
  if (declaredBytes !== undefined && start + declaredBytes > upload.bytes) throw tooManyBytes();
}

const tooManyBytes = () =>
  new AppError("audio_too_large", { message: "More bytes were sent than the upload declares." });

const takenOverError = () =>
  new AppError("conflict", { message: "Another request for the same upload took over." });

/** The client may go on later: what has arrived is kept. */
const tooSlowError = () =>
  new AppError("capacity_unavailable", {
    message: "The bytes came too slowly to keep a place for them.",
    retryAfterSeconds: PLACE_RETRY_SECONDS,
  });

/** Seen by nobody but the log: its reader is gone. */
const goneError = (cause?: unknown) =>
  new AppError("conflict", { message: "The client went away.", ...(cause === undefined ? {} : { cause }) });

const isDiskFailure = (error: unknown) =>
  hasCode(error, "ENOSPC", "EDQUOT", "EFBIG", "EIO") ||
  (error instanceof AppError && error.code === "capacity_unavailable");

function asDiskFailure(error: unknown): unknown {
  if (!hasCode(error, "ENOSPC", "EDQUOT", "EFBIG", "EIO")) return error;
  return new AppError("capacity_unavailable", {
    message: "The disk has no room for this file now.",
    retryAfterSeconds: DISK_RETRY_SECONDS,
    cause: error,
  });
}
