import type { VerifiedAudio } from "../../domain/audio.ts";
import { AppError } from "../../domain/errors.ts";
import type { UploadErrorCode } from "../../domain/upload.ts";
import { equalsConstantTime } from "../../lib/sha256.ts";
import { audioFilePath, fileBytes, removeFile } from "../../store/audio-files.ts";
import { gatedTransaction, type Store } from "../../store/database.ts";
import { isWaitedOut } from "../../store/disk-full.ts";
import { sha256OfFile } from "../../store/file-hash.ts";
import { findUpload, listVerifyingUploads, moveUpload, type UploadRow } from "../../store/uploads.ts";
import { logEnding, type UploadContext } from "./upload-context.ts";

/** Runs that may fail for a reason of the machine. After the last one the upload is rejected. */
const MAX_ATTEMPTS = 6;
const FIRST_RETRY_MS = 2_000;
const LONGEST_RETRY_MS = 60_000;

export type Verifier = {
  /**
   * Verifies an upload in state `verifying`, or joins the run that is under way.
   *
   * @returns the row afterwards: `complete`, `rejected`, or still `verifying` when the machine was at fault, so that
   *   a later run must decide
   */
  verify(upload: UploadRow): Promise<UploadRow>;
  /** Starts a run for each upload that waits for one and whose time to retry has come. */
  resume(): void;
  /** Stops the runs of uploads that another process has ended, such as by deleting them. Their places are free then. */
  stopEnded(): void;
  /** Stops the runs. Their uploads are verified after the next start. */
  close(): Promise<void>;
};

/** `ended`: the row of an upload that another process has ended. */
type Run = { outcome: Promise<UploadRow>; stop: AbortController; ended?: UploadRow };

/** Failed runs in a row; `otherFailures` counts those that failed otherwise than by a full disk or a locked database. */
type Failures = { count: number; otherFailures: number; retryAtMs: number };

/** Creates the verifier. Each upload has one run at a time, in a decoder place; organizations share the places. */
export function createVerifier(context: UploadContext): Verifier {
  const running = new Map<string, Run>();
  const failures = new Map<string, Failures>();
  let isClosed = false;

  async function run(upload: UploadRow, signal: AbortSignal): Promise<UploadRow> {
    try {
      signal.throwIfAborted();
      const verified = await verifyUpload(context, upload.id, signal);
      failures.delete(upload.id);
      return verified;
    } catch (error) {
      if (signal.aborted) throw error;
      return putOff(upload, error);
    }
  }

  /** Returns the row of an upload that is not being verified any more; undefined while it is. */
  function findEnded(id: string): UploadRow | undefined {
    const row = findUpload(context.database.store, id);
    return row?.state === "verifying" ? undefined : row;
  }

  /**
   * Plans another run after a failure of the machine: up to `MAX_ATTEMPTS` times, and always while the disk is full or
   * the database is locked. The promise never rejects.
   */
  async function putOff(upload: UploadRow, error: unknown): Promise<UploadRow> {
    const earlier = failures.get(upload.id);
    const count = (earlier?.count ?? 0) + 1;
    const isPassing = isWaitedOut(error);
    const otherFailures = (earlier?.otherFailures ?? 0) + (isPassing ? 0 : 1);
    context.log.error({ err: error, upload_id: upload.id, attempt: count }, "verification could not be done");
    const retryMs = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** count);
    failures.set(upload.id, { count, otherFailures, retryAtMs: context.clock.now() + retryMs });
    try {
      // Where another process has deleted the upload, its file is gone, and no run follows.
      const ended = findEnded(upload.id);
      if (!ended && (isPassing || otherFailures < MAX_ATTEMPTS)) return upload;
      const message = "The upload failed verification.";
      const rejected = ended ?? (await reject(context, upload, "upload_rejected", message));
      failures.delete(upload.id);
      return rejected;
    } catch (failure) {
      // No caller waits for a resumed run, so an error that leaves here would end the program.
      context.log.error({ err: failure, upload_id: upload.id }, "an upload could not be put off or rejected");
      return upload;
    }
  }

  function verify(upload: UploadRow): Promise<UploadRow> {
    const known = running.get(upload.id);
    if (known) return known.outcome;
    const isLarge = upload.bytes > context.config.limits.verify_in_request_bytes;
    const work = { organizationId: upload.organizationId, purpose: "upload", isLarge } as const;
    const stop = new AbortController();
    if (isClosed) stop.abort();
    const outcome = context.decoders
      .run(work, stop.signal, () => run(upload, stop.signal))
      // The upload was ended by another process, or the verifier was closed and it is verified after the next start.
      .catch(() => own.ended ?? upload)
      .finally(() => running.delete(upload.id));
    const own: Run = { outcome, stop };
    running.set(upload.id, own);
    return outcome;
  }

  return {
    verify,
    resume() {
      for (const id of listVerifyingUploads(context.database.store)) {
        const waitMs = (failures.get(id)?.retryAtMs ?? 0) - context.clock.now();
        // A longer wait than the longest one means that the clock was put back.
        if (running.has(id) || (waitMs > 0 && waitMs <= LONGEST_RETRY_MS)) continue;
        const upload = findUpload(context.database.store, id);
        if (upload) void verify(upload);
      }
    },
    stopEnded() {
      for (const [id, own] of running) {
        const ended = findEnded(id);
        if (!ended) continue;
        own.ended = ended;
        own.stop.abort();
      }
    },
    async close() {
      isClosed = true;
      for (const { stop } of running.values()) stop.abort();
      await Promise.all([...running.values()].map(({ outcome }) => outcome));
    },
  };
}

/** Checks size and declared SHA-256, and decodes the file to its end (docs/decisions/uploads.md). */
async function verifyUpload(context: UploadContext, id: string, signal: AbortSignal): Promise<UploadRow> {
  const { database } = context;
  const { store } = database;
  const upload = findUpload(store, id);
  if (!upload) throw new Error(`the upload ${id} is gone`);
  if (upload.state !== "verifying") return upload;
  const path = audioFilePath(context.dataDir, id);
  const bytes = await fileBytes(path);
  if (bytes !== upload.bytes) {
    const message = `The upload has ${bytes ?? 0} bytes, not the ${upload.bytes} it declares.`;
    return reject(context, upload, "upload_rejected", message);
  }
  try {
    const { audio, sha256 } = await readAudio(context, upload, path, signal);
    requireSound(audio);
    const { durationMs, channels, sampleRateHz, truncated, reading } = audio;
    const nowMs = context.clock.now();
    const verify = (tx: Store) =>
      moveUpload(tx, upload.id, "verified", nowMs, {
        ...{ finishedAt: nowMs, storedSha256: sha256 },
        durationMs: Math.round(durationMs),
        channels,
        sampleRateHz,
        truncated,
        reading,
      });
    const verified = await gatedTransaction(database, verify, { signal });
    if (verified) logEnding(context, verified);
    return verified ?? findUpload(store, upload.id) ?? upload;
  } catch (error) {
    if (!(error instanceof AppError) || signal.aborted) throw error;
    const code = error.code === "audio_decode_failed" ? error.code : "upload_rejected";
    return reject(context, upload, code, error.message);
  }
}

/** Checks that a file contains sound. @throws AppError `audio_decode_failed` when it decodes to nothing */
export function requireSound({ durationMs, channels }: VerifiedAudio): void {
  if (Math.round(durationMs) > 0 && channels > 0) return;
  throw new AppError("audio_decode_failed", { message: "The file contains no sound." });
}

/**
 * Hashes and decodes a file at the same time. A hash other than the declared one ends the decoding and decides the
 * outcome, whatever the decoder has found. A file without a declared hash is hashed as well: receipts of deletions and
 * evidence name it.
 *
 * @throws AppError `upload_rejected` when the SHA-256 is not the declared one; what `verifyAudio` throws
 */
async function readAudio(
  context: UploadContext,
  { sha256: declared, reading }: UploadRow,
  path: string,
  signal: AbortSignal,
): Promise<{ audio: VerifiedAudio; sha256: string }> {
  const other = new AbortController();
  const both = AbortSignal.any([signal, other.signal]);
  const decoded = context.verifyAudio({ path, reading: reading ?? undefined }, both);
  const hashed = sha256OfFile(path, both).then((sha256) => {
    if (declared === null || equalsConstantTime(sha256, declared)) return sha256;
    const message = "The stored bytes do not have the declared SHA-256.";
    throw new AppError("upload_rejected", { message });
  });
  const [first, second] = declared === null ? [decoded, hashed] : [hashed, decoded];
  const ended = Promise.allSettled([second]);
  try {
    await first;
  } catch (error) {
    other.abort();
    // The decoder is a process, which must have ended. The thread that hashes only reads.
    if (declared !== null) await ended;
    throw error;
  }
  return { audio: await decoded, sha256: await hashed };
}

/** Rejects an upload for good, and removes its bytes. */
export async function reject(
  context: UploadContext,
  upload: UploadRow,
  errorCode: UploadErrorCode,
  errorMessage: string,
): Promise<UploadRow> {
  const { database } = context;
  const nowMs = context.clock.now();
  const changes = { finishedAt: nowMs, deletedAt: nowMs, errorCode, errorMessage };
  const rejected = await gatedTransaction(database, (tx) =>
    moveUpload(tx, upload.id, "reject", nowMs, changes),
  );
  if (!rejected) return findUpload(database.store, upload.id) ?? upload;
  context.unpaidActs.count("rejected uploads", upload.organizationId);
  logEnding(context, rejected);
  await removeFile(audioFilePath(context.dataDir, upload.id));
  return rejected;
}
