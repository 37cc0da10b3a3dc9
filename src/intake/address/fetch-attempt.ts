import { AppError } from "../../domain/errors.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Log } from "../../lib/log.ts";
import type { GuardedFetch } from "../../outbound/guarded-fetch.ts";
import type { UploadService } from "../../services/uploads/uploads.ts";
import { type Database, gatedTransaction } from "../../store/database.ts";
import { endFetch, type FetchAndUpload, findFetchAndUpload, updateFetch } from "../../store/fetches.ts";
import { isUploadInUse } from "../../store/transcriptions.ts";
import type { Buckets } from "./buckets.ts";
import type { FetchCounts, FetchFailureKind } from "./fetch-numbers.ts";
import { type FetchingUploads, fetchUpload } from "./fetch-upload.ts";
import { FetchFailure } from "./open-file.ts";

/** Attempts in a row after which the file has no more bytes than before. After the last one the fetch has failed. */
const MAX_ATTEMPTS = 8;
/** Waits after them, seconds; about three hours in all. */
const WAITS_SECONDS = [2, 10, 30, 120, 600, 1800, 7200];
/** A wait for this server's own disk, places or limits. It is not counted: the upload's expiry ends it. */
export const OWN_WAIT_MS = 30_000;

export type AttemptDeps = {
  database: Database;
  clock: Clock;
  log: Log;
  uploads: FetchingUploads & Pick<UploadService, "refuseFetched">;
  buckets: Pick<Buckets, "addressOf">;
  guarded: GuardedFetch;
  counts: FetchCounts;
};

/**
 * Makes one attempt of a fetch, and settles it: the upload is being verified, another attempt is planned, or the upload is
 * rejected.
 *
 * @param id the transcription that awaits the recording
 * @param signal ends the attempt: the transcription has ended, or the server stops
 * @param isStopping the server stops. Then nothing is settled, and the attempt continues after the next start
 * @throws what the store throws
 */
export async function attemptFetch(
  deps: AttemptDeps,
  id: string,
  signal: AbortSignal,
  isStopping: () => boolean,
): Promise<void> {
  const { database } = deps;
  const found = findFetchAndUpload(database.store, id);
  if (!found) return;
  const { upload } = found;
  const isOpen = upload.state === "allocated" && upload.deletedAt === null;
  if (isOpen && isUploadInUse(database.store, upload.id)) {
    let hasProgress = false;
    try {
      await receive(deps, found, signal, () => {
        hasProgress = true;
      });
    } catch (error) {
      if (isStopping()) return;
      if (!signal.aborted) return putOff(deps, found, error, hasProgress);
    }
  }
  if (isOpen && !isUploadInUse(database.store, upload.id)) return endUnwanted(deps, id);
  await gatedTransaction(database, (tx) => endFetch(tx, id));
}

/**
 * Ends a fetch whose transcription has ended: its upload, for which nothing waits, is rejected, and the bytes are removed.
 *
 * @throws what the store throws
 */
export async function endUnwanted(
  { database, uploads }: Pick<AttemptDeps, "database"> & { uploads: Pick<UploadService, "refuseFetched"> },
  id: string,
): Promise<void> {
  const found = findFetchAndUpload(database.store, id);
  if (found) await uploads.refuseFetched(found.upload, "The transcription was cancelled.", false);
  await gatedTransaction(database, (tx) => endFetch(tx, id));
}

function receive(
  { database, clock, uploads, buckets, guarded, counts }: AttemptDeps,
  { fetch, upload }: FetchAndUpload,
  signal: AbortSignal,
  onProgress: () => void,
): Promise<void> {
  const { transcriptionId } = fetch;
  return fetchUpload(guarded, uploads, {
    ...{ fetch, upload, signal, onProgress, nowMs: clock.now() },
    address: buckets.addressOf(fetch),
    onBytes(bytes) {
      counts.bytes += bytes;
    },
    note: async (facts) => {
      await gatedTransaction(database, (tx) => void updateFetch(tx, transcriptionId, facts));
    },
  });
}

/** Plans another attempt, or ends the fetch when that would be in vain. */
async function putOff(
  deps: AttemptDeps,
  { fetch, upload }: FetchAndUpload,
  error: unknown,
  hasProgress: boolean,
): Promise<void> {
  const { database, clock, log, uploads, counts } = deps;
  const { transcriptionId } = fetch;
  const { reason, kind, isFinal, isOwn, waitMs, mustStartOver } = verdictOn(error, log);
  const attempts = hasProgress ? 1 : fetch.attempts + (isOwn ? 0 : 1);
  const fields = { upload_id: upload.id, organization_id: upload.organizationId, attempt: attempts, reason };
  if (isFinal || attempts >= MAX_ATTEMPTS) {
    log.info(fields, "a recording could not be fetched");
    await uploads.refuseFetched(upload, `The recording could not be fetched. ${reason}`, true);
    await gatedTransaction(database, (tx) => endFetch(tx, transcriptionId));
    counts.failed[kind] += 1;
    return;
  }
  const ownMs = isOwn ? OWN_WAIT_MS : (WAITS_SECONDS[attempts - 1] ?? 0) * 1000;
  const delayMs = Math.max(ownMs, waitMs);
  log.info({ ...fields, wait_seconds: Math.round(delayMs / 1000) }, "a fetch is tried again");
  const nextAttemptAt = clock.now() + delayMs;
  const change = { attempts, nextAttemptAt, reason, ...(mustStartOver ? { validator: null } : {}) };
  await gatedTransaction(database, (tx) => void updateFetch(tx, transcriptionId, change));
}

type Verdict = {
  /** A sentence for the client, without secrets. */
  reason: string;
  kind: FetchFailureKind;
  isFinal: boolean;
  /** The cause is this server, such as its disk. */
  isOwn: boolean;
  waitMs: number;
  mustStartOver: boolean;
};

function verdictOn(error: unknown, log: Log): Verdict {
  if (error instanceof FetchFailure) {
    const { message, kind, isFinal, waitMs, mustStartOver } = error;
    return { reason: message, kind, isFinal, isOwn: false, waitMs, mustStartOver };
  }
  const own = { kind: "limit", isFinal: false, isOwn: true, waitMs: 0, mustStartOver: false } as const;
  if (!(error instanceof AppError)) {
    log.error({ err: error }, "a fetch failed for a reason of this machine");
    return { ...own, reason: "This server could not store the recording." };
  }
  // The organization could never store it, or the rules do not allow the address any more.
  const isFinal = ["audio_too_large", "invalid_request"].includes(error.code);
  const kind = error.code === "invalid_request" ? "address" : "limit";
  return { ...own, kind, reason: error.message, isFinal, waitMs: (error.retryAfterSeconds ?? 0) * 1000 };
}
