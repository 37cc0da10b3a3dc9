import type { FileHandle } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";
import { AppError } from "../../domain/errors.ts";
import type { RawFormat } from "../../domain/raw-formats.ts";
import { onAbort } from "../../lib/abort.ts";
import { syncPath } from "../../lib/durable-files.ts";
import { type PaceLimits, watchPace } from "../../lib/pace.ts";
import {
  audioDirectory,
  audioFilePath,
  fileBytes,
  openForWriting,
  removeFile,
} from "../../store/audio-files.ts";
import { type AudioWriter, openAudioWriter } from "../../store/audio-writer.ts";
import { gatedTransaction, type Store } from "../../store/database.ts";
import { findUpload, setReading, type UploadRow } from "../../store/uploads.ts";
import { REQUEST_WAIT } from "../../store/write-gate.ts";
import type { UploadContext } from "./upload-context.ts";
import { asDiskFailure, checkDisk, isDiskFailure } from "./upload-disk.ts";
import { expireUpload } from "./upload-expiry.ts";
import { openSpace, returnSpace, type UploadSpace } from "./upload-space.ts";

/** Most uploads that are written at once. Each may hold 1 MiB in memory. */
export const MAX_RECEIVING = 1024;
const PLACE_RETRY_SECONDS = 5;
/** A running upload checks the free disk each time that it has received this many bytes. */
const DISK_CHECK_BYTES = 64 * 1024 * 1024;

/** How one request's bytes enter the file. */
export type Receiving = {
  /** Position in the file: `start over` empties the file first; a number must be the file's size. */
  at: "start over" | number;
  /** The body; null: the request has none. */
  body: ReadableStream<Uint8Array> | null;
  /** Bytes of the body, where the client declared them. */
  declaredBytes?: number;
  /** Called with each chunk, to keep a slow connection alive and to compute a digest of the body. */
  onChunk?: (chunk: Uint8Array) => void;
  /** Aborts when the client disconnects. */
  signal?: AbortSignal;
  /** Called once all bytes of the body are in the file. When it throws, they are removed from the file. */
  approve?: () => void;
};

/** What the file holds after a request. `isWhole`: all declared bytes are in it, and on the disk. */
export type Received = {
  storedBytes: number;
  isWhole: boolean;
  /** The upload while its file was written. Nothing else moves it meanwhile. */
  upload: UploadRow;
};

/** A collection takes a few milliseconds; to receive this many bytes takes many times that. */
const COLLECT_AFTER_BYTES = 16 * 1024 * 1024;
let uncollectedBytes = 0;

/**
 * Runs the garbage collector after each `COLLECT_AFTER_BYTES`. The server reads a request ahead into its own buffers.
 * The collector does not see their size: an upload in chunks of 8 MiB was measured to keep 40 MiB of them.
 */
function collectGarbageAfter(receivedBytes: number): void {
  uncollectedBytes += receivedBytes;
  if (uncollectedBytes < COLLECT_AFTER_BYTES) return;
  uncollectedBytes = 0;
  Bun.gc(true);
}

/**
 * Writes the bytes of one request into the upload's file as they arrive, and none past the declared size.
 * It first ends an older request that still writes the same upload. Bytes that arrived before a failure stay in the
 * file, so that a tus client can resume there. They are removed when the body was too long or was not approved.
 *
 * @throws AppError `conflict` (wrong position, no longer receiving, or another request took over),
 *   `audio_too_large` (more bytes than declared), `capacity_unavailable` (disk, too many uploads at once, or a body
 *   that comes so slowly that it keeps others out), `rate_limited`, `insufficient_credits` (the organization may not
 *   store more)
 */
export async function receiveBytes(
  context: UploadContext,
  uploadId: string,
  receiving: Receiving,
): Promise<Received> {
  const takenOver = new AbortController();
  const release = await context.locks.acquire(uploadId, () => takenOver.abort());
  try {
    // Another request may have ended the upload while this one waited for the lock.
    const upload = findReceiving(context, uploadId);
    return await receiveLocked(context, upload, receiving, takenOver.signal);
  } finally {
    release();
  }
}

/**
 * Does what `receiveBytes` does, for a caller that holds the lock of the upload.
 *
 * @param upload as `findReceiving` has returned it under the lock
 * @param takenOver aborts when another request wants the lock
 * @throws AppError as `receiveBytes`
 */
export async function receiveLocked(
  context: UploadContext,
  upload: UploadRow,
  receiving: Receiving,
  takenOver: AbortSignal,
): Promise<Received> {
  // Only after the lock: a client that lost its connection takes over the place of its own older request.
  if (!context.writers.take(upload.organizationId)) {
    throw new AppError("capacity_unavailable", { retryAfterSeconds: PLACE_RETRY_SECONDS });
  }
  try {
    const path = audioFilePath(context.dataDir, upload.id);
    const start = await startPosition(path, receiving.at);
    checkDeclared(upload, start, receiving.declaredBytes);
    await checkDisk(context, 0);
    const space = openSpace(context, upload);
    await space.require(start + (receiving.declaredBytes ?? 0));
    const file = await openForWriting(path, receiving.at === "start over" ? "empty" : "keep");
    try {
      const received = await receiveInto(context, { upload, file, start, receiving, space, takenOver });
      collectGarbageAfter(received.storedBytes - start);
      return received;
    } finally {
      await file.close();
    }
  } catch (error) {
    throw asDiskFailure(error);
  } finally {
    context.writers.giveBack(upload.organizationId);
  }
}

type ReceivingInto = {
  upload: UploadRow;
  file: FileHandle;
  start: number;
  receiving: Receiving;
  space: UploadSpace;
  takenOver: AbortSignal;
};

async function receiveInto(context: UploadContext, into: ReceivingInto): Promise<Received> {
  const { upload, file, start, receiving } = into;
  const writer = openAudioWriter(file, start);
  let overran = false;
  let isUnapproved = false;
  try {
    overran = !(await pump(context, writer, into));
    await writer.flush();
    if (overran) throw tooManyBytes();
    isUnapproved = true;
    receiving.approve?.();
    isUnapproved = false;
  } catch (error) {
    await writer.flush().catch(() => undefined);
    if (overran || isUnapproved) await file.truncate(start);
    else if (receiving.at === "start over" && isDiskFailure(error)) await file.truncate(0);
    throw error;
  }
  const storedBytes = start + writer.written();
  const isWhole = storedBytes === upload.bytes;
  if (isWhole) {
    // The answer acknowledges the upload, so its bytes must survive a power cut.
    await file.sync();
    await syncPath(audioDirectory(context.dataDir));
  }
  return { storedBytes, isWhole, upload };
}

/**
 * Moves the body into the writer, counts its bytes, and watches its pace and the free disk.
 *
 * @returns false when the body has more bytes than the upload declares; those past it are not written
 */
async function pump(context: UploadContext, writer: AudioWriter, into: ReceivingInto): Promise<boolean> {
  const { upload, start, receiving, space, takenOver } = into;
  if (!receiving.body) return true;
  const reader = receiving.body.getReader();
  // Ends a read that would wait for a client that sends nothing. It does not cancel the body: the HTTP layer may read
  // the rest of it, so that the answer arrives.
  const stop = () => reader.releaseLock();
  const pace = watchPace(paceOf(context.config), stop);
  const unwatch = [takenOver, receiving.signal].map((signal) => onAbort(signal, stop));
  let taken = 0;
  let nextDiskCheck = DISK_CHECK_BYTES;
  const requireOngoing = () => {
    if (takenOver.aborted) throw takenOverError();
    if (receiving.signal?.aborted) throw goneError();
    if (pace.isTooSlow()) throw tooSlowError();
  };
  try {
    for (;;) {
      requireOngoing();
      const { done, value } = await reader.read().catch((cause: unknown) => {
        requireOngoing();
        throw goneError(cause);
      });
      requireOngoing();
      if (done) return true;
      taken += value.length;
      if (start + taken > upload.bytes) return false;
      await pace.during(space.require(start + taken));
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
    for (const end of unwatch) end();
    stop();
  }
}

/**
 * Removes the bytes that have arrived. The upload stays allocated and can be sent again until it expires.
 *
 * @throws AppError `conflict` once it is being verified or finished
 */
export async function discardBytes(context: UploadContext, uploadId: string): Promise<void> {
  const release = await context.locks.acquire(uploadId, () => undefined);
  try {
    const upload = findReceiving(context, uploadId);
    await removeFile(audioFilePath(context.dataDir, uploadId));
    await returnSpace(context, upload);
  } finally {
    release();
  }
}

/** Keeps the format that a sender names for an upload's file. @throws AppError as `requireReceiving` */
export async function nameFormat(
  context: UploadContext,
  upload: UploadRow,
  format: RawFormat,
): Promise<void> {
  const { id, reading } = requireReceiving(upload);
  if (isDeepStrictEqual(reading, { format })) return;
  const keep = (tx: Store) => {
    // It may have been marked complete meanwhile.
    if (!setReading(tx, id, { format })) findReceiving(context, id);
  };
  await gatedTransaction(context.database, keep, REQUEST_WAIT);
}

/** Returns the bytes in the upload's file; undefined when it has no file. */
export function storedBytes(context: UploadContext, uploadId: string): Promise<number | undefined> {
  return fileBytes(audioFilePath(context.dataDir, uploadId));
}

/** Ends a request that still writes this upload, and waits until it has released the file. Its bytes stay. */
export async function settleWriter(context: UploadContext, uploadId: string): Promise<void> {
  if (context.locks.isHeld(uploadId)) (await context.locks.acquire(uploadId, () => undefined))();
}

/** Finds an upload that takes bytes. @throws AppError `not_found`, as `requireReceiving` */
export function findReceiving(context: UploadContext, uploadId: string): UploadRow {
  const row = findUpload(context.database.store, uploadId);
  if (!row) throw new AppError("not_found");
  return requireReceiving(expireUpload(context, row));
}

/**
 * Returns an upload that takes bytes.
 *
 * @throws AppError `conflict` once it is being verified or complete, the rejection of a rejected one
 */
export function requireReceiving(upload: UploadRow): UploadRow {
  if (upload.state === "rejected") throw rejectionOf(upload);
  if (upload.state !== "allocated") {
    throw new AppError("conflict", {
      message: "The upload has been marked complete and takes no more bytes.",
    });
  }
  return upload;
}

/** Makes the error that says why an upload was rejected (docs/decisions/uploads.md). */
export function rejectionOf(upload: UploadRow): AppError {
  return new AppError(
    upload.errorCode ?? "upload_rejected",
    upload.errorMessage === null ? {} : { message: upload.errorMessage },
  );
}

/** Returns the least pace of a body that holds a place for receiving. */
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
    throw new AppError("conflict", {
      detail: "upload-offset",
      message: `The upload has ${stored} bytes; send from there.`,
    });
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

/** The bytes that have arrived stay, so the client can continue later. */
const tooSlowError = () =>
  new AppError("capacity_unavailable", {
    message: "The bytes came too slowly to keep a place for them.",
    retryAfterSeconds: PLACE_RETRY_SECONDS,
  });

/** Only the log shows this error: the client is gone. */
const goneError = (cause?: unknown) =>
  new AppError("conflict", { message: "The client went away.", ...(cause === undefined ? {} : { cause }) });
