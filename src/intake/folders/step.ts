import type { DecoderPlaces } from "../../admission/decoder-places.ts";
import type { Config } from "../../config/schema.ts";
import { AppError, type ErrorCode } from "../../domain/errors.ts";
import type { WatchedFileState } from "../../domain/watched-file.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Log } from "../../lib/log.ts";
import { reasonOf } from "../../lib/system-error.ts";
import type { TranscriptionService } from "../../services/transcriptions/transcriptions.ts";
import type { UploadService } from "../../services/uploads/uploads.ts";
import type { Database } from "../../store/database.ts";
import type { WatchedFileChange, WatchedFileRow } from "../../store/watched-files.ts";

/** What one step of a file's way needs. */
export type StepDeps = {
  database: Database;
  clock: Clock;
  config: Config;
  log: Log;
  uploads: Pick<UploadService, "create" | "get" | "complete" | "receive" | "nameFormat" | "discardBytes">;
  transcriptions: Pick<TranscriptionService, "checkRequest" | "accept" | "find" | "result">;
  /** Places for files that are copied. */
  copies: DecoderPlaces;
  /** Aborts when the server stops. */
  stopping: AbortSignal;
  /** Moves a row, or changes its columns. @throws Abandoned when its state was changed meanwhile */
  move(row: WatchedFileRow, to: WatchedFileState, change?: WatchedFileChange): Promise<WatchedFileRow>;
};

/** The file cannot be transcribed, whatever happens later. The message is its reason. */
export class FileFailure extends Error {}

/** Something else keeps the file from its next step. The message says what. */
export class Waiting extends Error {
  /** When to try again, milliseconds; undefined: by the number of attempts. */
  readonly retryMs: number | undefined;

  constructor(message: string, retryMs?: number) {
    super(message);
    this.retryMs = retryMs;
  }
}

/** The row was changed by something else, such as a purge. */
export class Abandoned extends Error {}

/** Errors that are about the file itself. */
const OF_FILE: ReadonlySet<ErrorCode> = new Set([
  "audio_decode_failed",
  "audio_too_large",
  "audio_too_long",
  "content_deleted",
  "too_many_channels",
  "upload_rejected",
]);

/** Says whether an error is the file's fault or passes. */
export function judged(error: unknown): FileFailure | Waiting | Abandoned {
  if (error instanceof FileFailure || error instanceof Waiting || error instanceof Abandoned) return error;
  if (!(error instanceof AppError)) return new Waiting(reasonOf(error));
  if (OF_FILE.has(error.code)) return new FileFailure(error.message);
  const seconds = error.retryAfterSeconds;
  return new Waiting(error.message, seconds === undefined ? undefined : seconds * 1000);
}
