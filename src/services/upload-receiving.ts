import type { FileHandle } from "node:fs/promises";
import { AppError } from "../domain/errors.ts";
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
import { findUpload, findUploadWithOrganization, type UploadRow } from "../store/uploads.ts";
import type { UploadContext } from "./upload-context.ts";
import { expireUpload } from "./upload-expiry.ts";

/** Uploads that may be written at once; each may hold 1 MiB in memory. */
const MAX_RECEIVING = 1024;
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
 * @throws AppError `unauthorized` for an unknown upload and a wrong token alike, `organization_disabled`
 */
export function authorizeUpload(
  context: UploadContext,
  uploadId: string,
  token: string | undefined,
): UploadRow {
  const found = findUploadWithOrganization(context.database.store, uploadId);
  const isRight = equalsConstantTime(sha256Hex(token ?? ""), found?.upload.tokenHash ?? sha256Hex(""));
  if (!token || !found || !isRight) {
    throw new AppError("unauthorized", { message: "The upload token is missing or invalid." });
  }
  if (found.organizationDisabledAt !== null) throw new AppError("organization_disabled");
  return expireUpload(context, found.upload);
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
 *   `audio_too_large` (more bytes than declared), `capacity_unavailable` (disk)
 */
export async function receiveBytes(
  context: UploadContext,
  uploadId: string,
  receiving: Receiving,
): Promise<Received> {
  if (context.locks.held() >= MAX_RECEIVING) {
    throw new AppError("capacity_unavailable", { retryAfterSeconds: 5 });
  }
  const takenOver = new AbortController();
  const release = await context.locks.acquire(uploadId, () => takenOver.abort());
  try {
    const upload = requireReceiving(context, uploadId);
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
 * Moves the body into the writer, counting and watching the disk.
 *
 * @returns false when the body has more bytes than the upload has room for; those past it are not taken
 */
async function pump(context: UploadContext, writer: AudioWriter, into: ReceivingInto): Promise<boolean> {
  const { upload, start, receiving, takenOver } = into;
  if (!receiving.body) return true;
  const reader = receiving.body.getReader();
  // Cancelling answers a read that would otherwise wait for a client that says nothing.
  const stop = () => void reader.cancel().catch(() => undefined);
  takenOver.addEventListener("abort", stop, { once: true });
  receiving.signal?.addEventListener("abort", stop, { once: true });
  let taken = 0;
  let nextDiskCheck = DISK_CHECK_BYTES;
  // Aborts that came before the listeners did are seen here.
  const goOn = () => {
    if (takenOver.aborted) throw takenOverError();
    if (receiving.signal?.aborted) throw goneError();
  };
  try {
    for (;;) {
      goOn();
      const { done, value } = await reader.read().catch((cause: unknown) => {
        throw goneError(cause);
      });
      goOn();
      if (done) return true;
      taken += value.length;
      if (start + taken > upload.bytes) return false;
      receiving.onChunk?.(value);
      const full = writer.write(value);
      if (full) await full;
      if (taken < nextDiskCheck) continue;
      nextDiskCheck = taken + DISK_CHECK_BYTES;
      await checkDisk(context, 0);
    }
  } finally {
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
export async function checkDisk(context: UploadContext, bytes: number): Promise<void> {
  const reserve = context.config.storage.reserve_bytes;
  const free = await context.freeBytes();
  if (bytes > 0 ? free - bytes < reserve : free < reserve / 2) {
    throw new AppError("capacity_unavailable", {
      message: "The disk has no space for this upload now.",
      retryAfterSeconds: DISK_RETRY_SECONDS,
    });
  }
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

/** Seen by nobody but the log: its reader is gone. */
const goneError = (cause?: unknown) =>
  new AppError("conflict", { message: "The client went away.", ...(cause === undefined ? {} : { cause }) });

const isDiskFailure = (error: unknown) =>
  hasCode(error, "ENOSPC", "EDQUOT", "EFBIG", "EIO") ||
  (error instanceof AppError && error.code === "capacity_unavailable");

function asDiskFailure(error: unknown): unknown {
  if (!hasCode(error, "ENOSPC", "EDQUOT", "EFBIG", "EIO")) return error;
  return new AppError("capacity_unavailable", {
    message: "The disk has no space for this upload now.",
    retryAfterSeconds: DISK_RETRY_SECONDS,
    cause: error,
  });
}
