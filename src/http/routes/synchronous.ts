import type { Caller } from "../../domain/api-key.ts";
import type { VerifiedAudio } from "../../domain/audio.ts";
import { AppError, ERROR_TABLE } from "../../domain/errors.ts";
import { billedMsOf, isFinal, type TranscriptionRequest } from "../../domain/transcription.ts";
import { checkLimits, hashRequest, type IdempotencyClaim } from "../../services/transcriptions/acceptance.ts";
import { STOPPED } from "../../services/transcriptions/transcription-endings.ts";
import { requireSound } from "../../services/uploads/upload-verification.ts";
import type { AdoptedFile } from "../../services/uploads/uploads.ts";
import type { TranscriptionRow } from "../../store/transcriptions.ts";
import type { HttpDeps, SynchronousPlace } from "../deps.ts";
import { createKeyLocks } from "../key-locks.ts";
import { requestOfForm } from "../wire/requests.ts";
import type { AudioForm } from "../wire/schemas.ts";

/** A well-formed synchronous request whose file lies on the disk. */
export type SynchronousOrder = {
  fields: AudioForm;
  file: { path: string; bytes: number; sha256: string };
  /** The file has more bytes than allowed, and was not kept. */
  isTooLarge: boolean;
  key: string | undefined;
};

/** What ends the wait of a request. */
export type Attendance = {
  /** Aborts when the client goes away: work without an idempotency key, which cannot be asked for again, ends. */
  client: AbortSignal;
  /** Aborts when the time for the whole request is over, with the error that the client gets. */
  deadline: AbortSignal;
  /** The request's file has become a transcription's: its place for receiving is free. */
  onAccepted: () => void;
};

type Prepared = { modelId: string; request: TranscriptionRequest; claim: IdempotencyClaim | undefined };

/**
 * The life of a synchronous request after its form was understood: accepted like any other work, in a place
 * reserved for it, and awaited.
 */
export function createSynchronousDesk(deps: HttpDeps) {
  const { transcriptions } = deps;
  /** Two requests with one key: the second sees what became of the first (docs/decisions.md section 9). */
  const locks = createKeyLocks();

  return {
    /**
     * @returns the row of a transcription that has a result
     * @throws AppError for everything else
     */
    async transcribe(
      caller: Caller,
      order: SynchronousOrder,
      attendance: Attendance,
    ): Promise<TranscriptionRow> {
      const request = requestOfForm(order.fields);
      const model = transcriptions.checkRequest(order.fields.model, request);
      const { key, file } = order;
      const claim =
        key === undefined
          ? undefined
          : {
              key,
              requestHash: hashRequest({
                model,
                isModelNamed: order.fields.model !== undefined,
                request,
                audio: file.sha256,
              }),
            };
      const prepared = { modelId: model.id, request, claim };
      const place = () => admitOrder(deps, caller, order, prepared, attendance);
      const { client } = attendance;
      const ended = AbortSignal.any([client, attendance.deadline, deps.stopping]);
      const { id, outcome } =
        key === undefined ? await place() : await locks.run(lockName(caller, key), ended, place);
      const cancel = () => cancelQuietly(deps, id);
      if (key === undefined) {
        client.addEventListener("abort", cancel, { once: true });
        if (client.aborted) cancel();
      }
      try {
        return requireResult(await outcome);
      } finally {
        client.removeEventListener("abort", cancel);
      }
    },
  };
}

function lockName(caller: Caller, key: string): string {
  return `${caller.projectId} ${key}`;
}

/** Accepted work, and the promise of its final row. */
type Admitted = { id: string; outcome: Promise<TranscriptionRow> };

/** docs/decisions.md section 2, from "idempotency replay or conflict" to "accepted". */
async function admitOrder(
  deps: HttpDeps,
  caller: Caller,
  order: SynchronousOrder,
  prepared: Prepared,
  attendance: Attendance,
): Promise<Admitted> {
  const replay = deps.transcriptions.findReplay(caller, "synchronous", prepared.claim);
  if (replay) return { id: replay.id, outcome: follow(deps, replay, attendance.deadline) };
  const { file } = order;
  const { limits } = deps.config;
  if (order.isTooLarge) {
    throw new AppError("audio_too_large", {
      detail: "file",
      message: `The file has more than the ${limits.synchronous_max_bytes} bytes allowed.`,
    });
  }
  if (file.bytes === 0)
    throw new AppError("audio_decode_failed", { detail: "file", message: "The file is empty." });
  const verified = await verifyFile(deps, caller, file.path, attendance);
  checkLimits(deps.config, "synchronous", verified);
  const { durationMs, channels } = verified;
  const { channelMode } = prepared.request;
  const reserve = () => deps.synchronous.reservePlace(billedMsOf({ durationMs, channelMode, channels }));
  // Without a place nothing is moved. The place is given back, so that a caller who cannot pay never holds one.
  reserve().release();
  const { row, place } = await acceptFile(deps, caller, { ...file, verified }, prepared, reserve);
  attendance.onAccepted();
  return { id: row.id, outcome: supervise(deps, row, attendance.deadline).finally(() => place.release()) };
}

/** Decodes the file within the request's time, and stops the decoder when that is over. */
async function verifyFile(
  deps: HttpDeps,
  { organizationId }: Caller,
  path: string,
  { client, deadline }: Attendance,
): Promise<VerifiedAudio> {
  const maxDurationMs = deps.config.limits.synchronous_max_duration_seconds * 1000;
  const signal = AbortSignal.any([client, deadline, deps.stopping]);
  try {
    return await namingFile(async () => {
      const audio = await deps.verifyAudio(path, { organizationId, maxDurationMs }, signal);
      requireSound(audio);
      return audio;
    });
  } catch (error) {
    if (deps.stopping.aborted) throw stoppedError();
    deadline.throwIfAborted();
    throw error;
  }
}

/** The decoder knows no forms: what it refuses is the part `file`. */
async function namingFile<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const { code, message, retryAfterSeconds, cause } = error;
    throw new AppError(code, {
      message,
      detail: "file",
      cause,
      ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    });
  }
}

/** Makes the file an upload and the order a transcription that has a place, or leaves nothing behind. */
async function acceptFile(
  { uploads, transcriptions }: HttpDeps,
  caller: Caller,
  file: AdoptedFile,
  { modelId, request, claim }: Prepared,
  reserve: () => SynchronousPlace,
): Promise<{ row: TranscriptionRow; place: SynchronousPlace }> {
  const upload = await uploads.adoptFile(caller, file);
  let place: SynchronousPlace | undefined;
  try {
    place = reserve();
    const accepted = transcriptions.accept(caller, {
      submission: "synchronous",
      modelId,
      request,
      uploadId: upload.id,
      ...(claim === undefined ? {} : { idempotency: claim }),
    });
    if (accepted.isReplay) await uploads.discardAdopted(upload.id);
    return { row: accepted.transcription, place };
  } catch (error) {
    place?.release();
    await uploads.discardAdopted(upload.id);
    throw error;
  }
}

/** The final row. What is not done in time, or when the program stops, is cancelled and not charged. */
async function supervise(
  deps: HttpDeps,
  row: TranscriptionRow,
  deadline: AbortSignal,
): Promise<TranscriptionRow> {
  const signal = AbortSignal.any([deadline, deps.stopping]);
  try {
    return await deps.synchronous.waitFor(row.id, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
    if (!deps.stopping.aborted) {
      return deps.transcriptions.cancelById(row.id, {
        code: "timeout",
        message: ERROR_TABLE.timeout.message,
      });
    }
    return deps.transcriptions.cancelById(row.id, STOPPED);
  }
}

/** The final row of work that another request supervises; it continues when this request's own time is over. */
async function follow(
  deps: HttpDeps,
  row: TranscriptionRow,
  deadline: AbortSignal,
): Promise<TranscriptionRow> {
  if (isFinal(row.state)) return row;
  try {
    return await deps.synchronous.waitFor(row.id, AbortSignal.any([deadline, deps.stopping]));
  } catch (error) {
    if (deps.stopping.aborted) throw stoppedError();
    throw error;
  }
}

const stoppedError = () => new AppError("capacity_unavailable", { message: STOPPED.message });

/** No client waits for the outcome. After a failure, the deadline of the work cancels it. */
function cancelQuietly(deps: HttpDeps, id: string): void {
  const report = (error: unknown) => deps.log.warn({ err: error, transcription_id: id }, "cancelling failed");
  Promise.resolve(id)
    .then((id) => deps.transcriptions.cancelById(id))
    .catch(report);
}

/** @throws AppError for a transcription that ended without a result */
function requireResult(row: TranscriptionRow): TranscriptionRow {
  if (row.contentDeletedAt !== null) throw new AppError("content_deleted");
  if (row.state === "completed" || row.state === "partial") return row;
  if (row.errorCode !== null) {
    throw new AppError(row.errorCode, row.errorMessage ? { message: row.errorMessage } : {});
  }
  if (row.state === "cancelled") {
    throw new AppError("conflict", { message: "The transcription was cancelled." });
  }
  throw new AppError("transcription_failed");
}
