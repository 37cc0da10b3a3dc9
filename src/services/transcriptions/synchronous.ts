import { createKeyLocks } from "../../admission/key-locks.ts";
import type { SynchronousPlace } from "../../admission/synchronous-places.ts";
import type { Config } from "../../config/schema.ts";
import type { Caller } from "../../domain/api-key.ts";
import type { VerifiedAudio } from "../../domain/audio.ts";
import { AppError, ERROR_TABLE, type ErrorCode } from "../../domain/errors.ts";
import type { InstalledModel } from "../../domain/model.ts";
import type { RawFormat } from "../../domain/raw-formats.ts";
import type { FileToRead } from "../../domain/reading.ts";
import {
  billedMsOf,
  isFinal,
  type Submission,
  type TranscriptionRequest,
} from "../../domain/transcription.ts";
import { onAbort } from "../../lib/abort.ts";
import type { Log } from "../../lib/log.ts";
import type { Database } from "../../store/database.ts";
import type { TranscriptionRow } from "../../store/transcriptions.ts";
import { REQUEST_WAIT } from "../../store/write-gate.ts";
import { requireSound } from "../uploads/upload-verification.ts";
import type { AdoptedFile, UploadService } from "../uploads/uploads.ts";
import { checkLimits, hashRequest, type IdempotencyClaim } from "./acceptance.ts";
import { STOPPED } from "./transcription-endings.ts";
import type { TranscriptionService } from "./transcriptions.ts";

/** Codes with which every form with a recording may be refused, or its work may end. */
export const RECORDING_ERRORS = [
  "capability_unavailable",
  "unsupported_language",
  "unsupported_mode",
  "idempotency_conflict",
  "audio_too_large",
  "audio_too_long",
  "audio_decode_failed",
  "too_many_channels",
  "spend_limit_reached",
  "insufficient_credits",
  "conflict",
  "content_deleted",
  "transcription_failed",
  "timeout",
] as const satisfies readonly ErrorCode[];

/** What a request may ask for, and how long it waits. */
export type Bounds = {
  maxBytes: number;
  maxDurationSeconds: number;
  /** How long a request waits for a free place. */
  waitSeconds: number;
};

/** A file that a request has brought. */
export type OrderedFile = {
  path: string;
  bytes: number;
  sha256: string;
  /** The format of a file without a signature, as the request names it. */
  format?: RawFormat | undefined;
};

/**
 * A well-formed synchronous request whose file lies on the disk. A recording that is longer than
 * `limits.synchronous_max_duration_seconds`, where the bounds allow it, waits in the queue instead of for a place.
 */
export type SynchronousOrder = {
  /** Undefined: the default model. */
  modelId: string | undefined;
  request: TranscriptionRequest;
  bounds: Bounds;
  file: OrderedFile;
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
  /** Lets the time for the request run on after the answer has begun, until this promise has settled. */
  lastUntil: (end: Promise<unknown>) => void;
};

type Prepared = { modelId: string; request: TranscriptionRequest; claim: IdempotencyClaim | undefined };

/** Accepted work, and the promise of its row with a result. */
export type Admitted = { id: string; outcome: Promise<TranscriptionRow> };

/** What runs synchronous work, as far as a request needs it. */
export type SynchronousWork = {
  /**
   * Takes one of the places reserved for short requests.
   *
   * @param recordingMs what is to be transcribed, over its channels
   * @throws AppError `capacity_unavailable` with `Retry-After`, the time until one should be free, when none is
   */
  reservePlace(recordingMs: number): SynchronousPlace;
  /**
   * Takes such a place once one is free.
   *
   * @throws AppError as `reservePlace`, `waitMs` later; the signal's reason when it aborts first
   */
  waitForPlace(recordingMs: number, waitMs: number, signal: AbortSignal): Promise<SynchronousPlace>;
  /**
   * Calls a function with the text so far each time that it has grown. Its audio is charged before the call.
   *
   * @returns ends the calls
   */
  watchText(transcriptionId: string, onText: (text: string) => void): () => void;
  /** Settles with the final row, or rejects with the signal's reason when it aborts first. */
  waitFor(transcriptionId: string, signal: AbortSignal): Promise<TranscriptionRow>;
};

/** What synchronous requests need of the server. */
export type SynchronousDeps = {
  config: Config;
  log: Log;
  database: Database;
  uploads: UploadService;
  transcriptions: TranscriptionService;
  work: SynchronousWork;
  /**
   * Decodes a request's file to its end, in one of the decoder places that organizations share.
   *
   * @throws AppError `audio_decode_failed`, `audio_too_long`; anything when the signal aborts
   */
  verifyAudio: (
    file: FileToRead,
    work: { organizationId: string; maxDurationMs: number; isLarge: boolean },
    signal: AbortSignal,
  ) => Promise<VerifiedAudio>;
  /** Aborts when the drain time of a stop is over: requests that still wait are refused, and so is every further one. */
  stopping: AbortSignal;
};

/** Accepts synchronous requests, and waits for what they ask for. */
export type SynchronousService = {
  /**
   * Accepts a request.
   *
   * @returns an outcome that rejects with AppError for everything but a transcription that has a result
   * @throws AppError for a request that is not accepted
   */
  admit(caller: Caller, order: SynchronousOrder, attendance: Attendance): Promise<Admitted>;
  /** Accepts a request and waits for its outcome. */
  transcribe(caller: Caller, order: SynchronousOrder, attendance: Attendance): Promise<TranscriptionRow>;
  /** Calls a function with the text of accepted work each time that it has grown. Returns what ends the calls. */
  watchText: SynchronousWork["watchText"];
};

/**
 * The life of a synchronous request after its form was understood: accepted like any other work, in a place
 * reserved for it, and awaited.
 */
export function createSynchronousService(deps: SynchronousDeps): SynchronousService {
  const { transcriptions } = deps;
  /** Two requests with one key: the second sees what became of the first (docs/decisions/idempotency.md). */
  const locks = createKeyLocks();

  async function admit(caller: Caller, order: SynchronousOrder, attendance: Attendance): Promise<Admitted> {
    const { modelId, request, key } = order;
    const model = transcriptions.checkRequest(modelId, request);
    const claim = key === undefined ? undefined : claimOf(key, order, model);
    const prepared = { modelId: model.id, request, claim };
    const admitIt = () => admitOrder(deps, caller, order, prepared, attendance);
    const { client } = attendance;
    const ended = AbortSignal.any([client, attendance.deadline, deps.stopping]);
    const { id, outcome } =
      key === undefined ? await admitIt() : await locks.run(lockName(caller, key), ended, admitIt);
    const leaving = key === undefined ? client : undefined;
    const unwatch = onAbort(leaving, () => void cancelQuietly(deps, caller, id));
    const result = outcome.then(requireResult).finally(unwatch);
    // A caller may fail before it awaits the outcome.
    result.catch(() => undefined);
    return { id, outcome: result };
  }

  return {
    admit,
    transcribe: async (caller, order, attendance) => (await admit(caller, order, attendance)).outcome,
    watchText: deps.work.watchText,
  };
}

/**
 * Short and long recordings of synchronous requests share one set of keys: a key is looked up before the length is
 * known.
 */
function claimOf(
  key: string,
  { modelId, request, file }: SynchronousOrder,
  model: InstalledModel,
): IdempotencyClaim {
  const isModelNamed = modelId !== undefined;
  return {
    key,
    requestHash: hashRequest({ model, isModelNamed, request, audio: audioOf(file) }),
    among: "synchronous",
  };
}

/** The same bytes are other sound where they are named as another format. */
const audioOf = ({ sha256, format }: OrderedFile) =>
  format === undefined ? sha256 : `${sha256} ${JSON.stringify(format)}`;

function lockName(caller: Caller, key: string): string {
  return `${caller.projectId} ${key}`;
}

/** docs/decisions/order-of-checks.md, from "idempotency replay or conflict" to "accepted". */
async function admitOrder(
  deps: SynchronousDeps,
  caller: Caller,
  order: SynchronousOrder,
  prepared: Prepared,
  attendance: Attendance,
): Promise<Admitted> {
  const replay = deps.transcriptions.findReplay(caller, "synchronous", prepared.claim);
  if (replay) return { id: replay.id, outcome: follow(deps, replay, attendance.deadline) };
  const { file, bounds } = order;
  if (order.isTooLarge) {
    throw new AppError("audio_too_large", {
      detail: "file",
      message: `The file has more than the ${bounds.maxBytes} bytes allowed.`,
    });
  }
  if (file.bytes === 0)
    throw new AppError("audio_decode_failed", { detail: "file", message: "The file is empty." });
  const verified = await verifyFile(deps, caller, order, attendance);
  if (verified.durationMs > bounds.maxDurationSeconds * 1000) {
    const message = `The audio is longer than ${bounds.maxDurationSeconds} seconds.`;
    throw new AppError("audio_too_long", { detail: "file", message });
  }
  const isLong = verified.durationMs > deps.config.limits.synchronous_max_duration_seconds * 1000;
  const submission = isLong ? "asynchronous" : "synchronous";
  await namingFile(async () => checkLimits(deps.config, submission, verified));
  const place = isLong ? NO_PLACE : await placeFor(deps, caller, order, verified, attendance);
  const row = await acceptFile(deps, caller, { ...file, verified }, { ...prepared, submission }, place);
  attendance.onAccepted();
  return { id: row.id, outcome: supervise(deps, row, attendance.deadline).finally(place.release) };
}

/** The place of a request: taken in the moment in which its work is accepted, or while it waited. */
type Reservation = { take: () => void; release: () => void };

/** The place of a long recording, which waits in the queue. */
const NO_PLACE: Reservation = { take: () => {}, release: () => {} };

/**
 * Finds a place for a recording, or refuses the request before its file is moved. A caller who cannot pay neither holds
 * a place while its file is moved nor waits for one.
 */
async function placeFor(
  deps: SynchronousDeps,
  caller: Caller,
  { request, bounds }: SynchronousOrder,
  { durationMs, channels }: VerifiedAudio,
  attendance: Attendance,
): Promise<Reservation> {
  const recordingMs = billedMsOf({ durationMs, channelMode: request.channelMode, channels });
  if (bounds.waitSeconds === 0) return placeAtAcceptance(deps, recordingMs);
  deps.transcriptions.checkCredit(caller, recordingMs);
  return placeAfterWait(deps, recordingMs, bounds.waitSeconds, attendance);
}

/** A place that is taken when the work is accepted. @throws AppError `capacity_unavailable` when none is free now */
function placeAtAcceptance(deps: SynchronousDeps, recordingMs: number): Reservation {
  const reserve = () => deps.work.reservePlace(recordingMs);
  // This only looks. `take` may still find none: then the moved file is removed again.
  reserve().release();
  let place: SynchronousPlace | undefined;
  const take = () => {
    place = reserve();
  };
  return { take, release: () => place?.release() };
}

/** A place that is held from the end of the wait. @throws AppError `capacity_unavailable`, the reason of the deadline */
async function placeAfterWait(
  deps: SynchronousDeps,
  recordingMs: number,
  waitSeconds: number,
  { client, deadline }: Attendance,
): Promise<Reservation> {
  const ended = AbortSignal.any([client, deadline, deps.stopping]);
  try {
    const place = await deps.work.waitForPlace(recordingMs, waitSeconds * 1000, ended);
    return { take: () => {}, release: place.release };
  } catch (error) {
    if (deps.stopping.aborted) throw stoppedError();
    throw error;
  }
}

/** Decodes the file within the request's time, and stops the decoder when that is over. */
async function verifyFile(
  deps: SynchronousDeps,
  { organizationId }: Caller,
  { file, bounds }: SynchronousOrder,
  { client, deadline }: Attendance,
): Promise<VerifiedAudio> {
  const maxDurationMs = bounds.maxDurationSeconds * 1000;
  const isLarge = file.bytes > deps.config.limits.synchronous_max_bytes;
  const signal = AbortSignal.any([client, deadline, deps.stopping]);
  try {
    return await namingFile(async () => {
      const { path, format } = file;
      const audio = await deps.verifyAudio(
        { path, reading: format && { format } },
        { organizationId, maxDurationMs, isLarge },
        signal,
      );
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
    throw error instanceof AppError ? error.with({ detail: "file" }) : error;
  }
}

/** Makes the file an upload and the order a transcription that has its place, or leaves nothing behind. */
async function acceptFile(
  { uploads, transcriptions, database }: SynchronousDeps,
  caller: Caller,
  file: AdoptedFile,
  { modelId, request, claim, submission }: Prepared & { submission: Submission },
  place: Reservation,
): Promise<TranscriptionRow> {
  let uploadId: string | undefined;
  try {
    uploadId = (await uploads.adoptFile(caller, file)).id;
    place.take();
    const order = {
      ...{ submission, request, uploadId },
      ...(claim === undefined ? {} : { idempotency: claim }),
    };
    const accept = () => {
      // The file was verified meanwhile, and the model may have been replaced or removed.
      const model = transcriptions.checkRequest(modelId, request);
      return transcriptions.accept(caller, { ...order, model });
    };
    const accepted = await database.gate.run(accept, REQUEST_WAIT);
    if (accepted.isReplay) await uploads.discardAdopted(uploadId);
    return accepted.transcription;
  } catch (error) {
    place.release();
    if (uploadId !== undefined) await uploads.discardAdopted(uploadId);
    throw error;
  }
}

/** The final row. What is not done in time, or when the program stops, is cancelled. */
async function supervise(
  deps: SynchronousDeps,
  row: TranscriptionRow,
  deadline: AbortSignal,
): Promise<TranscriptionRow> {
  const signal = AbortSignal.any([deadline, deps.stopping]);
  try {
    return await deps.work.waitFor(row.id, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
    const timeout = { code: "timeout", message: ERROR_TABLE.timeout.message } as const;
    // While another program holds the write lock, the answer waits for the cancellation: otherwise the work could still
    // end with a charge.
    return deps.database.gate.run(() =>
      deps.transcriptions.cancelById(row.id, deps.stopping.aborted ? STOPPED : timeout),
    );
  }
}

/** The final row of work that another request supervises; it continues when this request's own time is over. */
async function follow(
  deps: SynchronousDeps,
  row: TranscriptionRow,
  deadline: AbortSignal,
): Promise<TranscriptionRow> {
  if (isFinal(row.state)) return row;
  try {
    return await deps.work.waitFor(row.id, AbortSignal.any([deadline, deps.stopping]));
  } catch (error) {
    if (deps.stopping.aborted) throw stoppedError();
    throw error;
  }
}

const stoppedError = () => new AppError("capacity_unavailable", { message: STOPPED.message });

/** No client waits for the outcome. After a failure, the deadline of the work cancels it. */
async function cancelQuietly(deps: SynchronousDeps, caller: Caller, id: string): Promise<void> {
  try {
    await deps.database.gate.run(() => deps.transcriptions.cancel(caller, id));
  } catch (error) {
    deps.log.warn({ err: error, transcription_id: id }, "cancelling failed");
  }
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
