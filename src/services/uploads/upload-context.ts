import type { DecoderPlaces } from "../../admission/decoder-places.ts";
import type { Shares } from "../../admission/shares.ts";
import type { UploadLocks } from "../../admission/upload-locks.ts";
import type { Config } from "../../config/schema.ts";
import type { VerifiedAudio } from "../../domain/audio.ts";
import type { Ages } from "../../domain/clock-trust.ts";
import type { FileToRead } from "../../domain/reading.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Log } from "../../lib/log.ts";
import { toSeconds } from "../../lib/time.ts";
import type { Database } from "../../store/database.ts";
import type { UploadRow } from "../../store/uploads.ts";
import type { UnpaidActs } from "../unpaid-acts.ts";

export type UploadDeps = {
  database: Database;
  clock: Clock;
  config: Config;
  log: Log;
  /** Absolute path of the data directory. */
  dataDir: string;
  /**
   * Decodes a file to its end.
   *
   * @throws AppError `audio_decode_failed` (or `audio_too_long`) when the file is at fault; any other error means that
   *   the machine is, and verification is tried again later
   */
  verifyAudio: (file: FileToRead, signal: AbortSignal) => Promise<VerifiedAudio>;
  /** Places in which verifications run. */
  decoders: DecoderPlaces;
  /** What is old now; undefined while the clock is in doubt (`ClockTrust`). Not called inside transactions. */
  ages: () => Ages | undefined;
  /** Free bytes on the disk of recordings. */
  freeBytes: () => Promise<number>;
  /** Uploads that are rejected have a rate. */
  unpaidActs: UnpaidActs;
  /** Size of that disk, in bytes. */
  diskBytes: () => number;
};

/** Dependencies and state that the modules of the upload service share. */
export type UploadContext = UploadDeps & {
  /** When this process began, epoch milliseconds. Older files that the database does not know belong to no upload. */
  startedAtMs: number;
  locks: UploadLocks;
  /** Places for uploads that are written at once, shared between organizations. */
  writers: Shares;
  background: Set<Promise<unknown>>;
};

/** Writes the line from which an admin sees how an upload ended, why, and how long that took. */
export function logEnding({ log }: UploadContext, upload: UploadRow): void {
  const { id, organizationId, projectId, state, errorCode, errorMessage, finishedAt, createdAt } = upload;
  const verifying = upload.history.findLast(([, moved]) => moved === "verifying");
  log.info(
    {
      ...{ upload_id: id, organization_id: organizationId, project_id: projectId, state },
      ...(errorCode === null ? {} : { code: errorCode, reason: errorMessage }),
      ...{ bytes: upload.bytes, seconds: toSeconds((finishedAt ?? createdAt) - createdAt) },
      ...(verifying && finishedAt !== null ? { verified_seconds: toSeconds(finishedAt - verifying[0]) } : {}),
      ...(upload.durationMs === null ? {} : { audio_seconds: toSeconds(upload.durationMs) }),
    },
    "an upload ended",
  );
}

/** Lets work continue after its request was answered. Its failure is logged, and `close` waits for it. */
export function inBackground(context: UploadContext, what: string, work: Promise<unknown>): void {
  const watched: Promise<unknown> = work
    .catch((error: unknown) => context.log.error({ err: error, what }, "upload work failed"))
    .finally(() => context.background.delete(watched));
  context.background.add(watched);
}
