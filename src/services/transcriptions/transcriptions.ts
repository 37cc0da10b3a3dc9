import type { Caller } from "../../domain/api-key.ts";
import { AppError } from "../../domain/errors.ts";
import type { Metadata } from "../../domain/metadata.ts";
import type { InstalledModel } from "../../domain/model.ts";
import { type Owner, requireOwned } from "../../domain/ownership.ts";
import type { TranscriptionResult, Warning } from "../../domain/result.ts";
import {
  isFinal,
  type Submission,
  type TranscriptionState,
  type TranscriptionTrigger,
} from "../../domain/transcription.ts";
import type { Log } from "../../lib/log.ts";
import { toSeconds } from "../../lib/time.ts";
import type { Store } from "../../store/database.ts";
import { findResult } from "../../store/results.ts";
import {
  countQueuedBefore,
  findTranscription,
  listQueuePositions,
  listTranscriptions,
  listWithMetadata,
  moveTranscription,
  type TranscriptionRow,
} from "../../store/transcriptions.ts";
import type { ReceiptService } from "../receipts.ts";
import type { UploadService } from "../uploads/uploads.ts";
import {
  type AcceptanceDeps,
  type Accepted,
  type AcceptInput,
  acceptTranscription,
  checkCredit,
  checkRequest,
  findReplay,
  type IdempotencyClaim,
} from "./acceptance.ts";
import { takeUpArrived } from "./arrival.ts";
import { paceOf } from "./story.ts";
import { createTranscriptionEndings, type TranscriptionEndings } from "./transcription-endings.ts";

export type TranscriptionDeps = AcceptanceDeps & {
  uploads: Pick<UploadService, "requireComplete" | "allocateFetched" | "removeAudioFile">;
  receipts: Pick<ReceiptService, "write" | "mirror">;
  log: Log;
  /** Removes the decoded working files of a transcription. Is called after the transaction. */
  removeWorkingFiles: (transcriptionId: string) => void;
};

/** Functions that are called after the transaction. The scheduler and waiting requests listen. */
export type TranscriptionListener = {
  accepted?: (row: TranscriptionRow) => void;
  finished?: (row: TranscriptionRow) => void;
};

export type TranscriptionPage = { data: TranscriptionRow[]; next: string | null };
export type TranscriptionQuery = {
  limit: number;
  after?: string;
  states?: readonly TranscriptionState[];
  /** All of it must be noted of a transcription. */
  metadata?: Metadata;
};
export type MoveChange = { startedAt?: number; audioWarnings?: Warning[] };

/**
 * The rules of transcriptions (docs/interface.md sections 3.1, 4.1 to 4.6), and the owner of their transactions.
 * Methods with a `caller` throw AppError `not_found` for another organization's transcription and `forbidden` for
 * another project's. The methods without one are for the server itself.
 */
export type TranscriptionService = {
  /**
   * Checks the values of a request before anything is received or looked up, and finds its model.
   *
   * @throws AppError `capability_unavailable`, `invalid_request` (detail `model`), `capacity_unavailable` without a
   *   default model, `unsupported_language`, `unsupported_mode`
   */
  checkRequest(modelId: string | undefined, request: AcceptInput["request"]): InstalledModel;
  /**
   * Finds the transcription that was accepted earlier under the caller's idempotency key.
   *
   * @throws AppError `idempotency_conflict` when the key belongs to another request
   */
  findReplay(
    caller: Caller,
    submission: Submission,
    claim: IdempotencyClaim | undefined,
  ): TranscriptionRow | undefined;
  /**
   * Accepts work: writes reservation, record and key in one transaction (docs/interface.md sections 4.1, 4.7).
   *
   * @param input its values have been checked by `checkRequest`, and nothing was awaited since
   * @throws AppError as `findReplay`; `organization_disabled`; `not_found`, `forbidden`,
   *   `upload_incomplete` or `content_deleted` for the upload; `not_found`, `forbidden` or `conflict` for the webhook
   *   endpoint; `audio_too_long`, `too_many_channels`, `too_many_queued`, `spend_limit_reached`, `insufficient_credits`
   */
  accept(caller: Owner, input: AcceptInput): Accepted;
  /**
   * Refuses work that its organization cannot pay now, before it waits for anything. `accept` decides again.
   *
   * @param billedMs the recording over the channels that are recognized
   * @throws AppError `spend_limit_reached`, `insufficient_credits`
   */
  checkCredit(caller: Pick<Caller, "organizationId">, billedMs: number): void;
  /** Returns a transcription of the caller's project. */
  get(caller: Caller, id: string): TranscriptionRow;
  /**
   * Lists a page of the caller's project, newest first. With `metadata` a page may be shorter than its limit although
   * `next` leads to more.
   *
   * @throws AppError `invalid_request` (detail `after`) when `after` is not a transcription of this project
   */
  list(caller: Caller, query: TranscriptionQuery): TranscriptionPage;
  /**
   * Returns the result of a completed or partial transcription (docs/decisions/transcriptions.md).
   *
   * @throws AppError `result_not_ready` while it is unfinished, `content_deleted`, `conflict` when it failed or was
   *   cancelled
   */
  result(caller: Owner, id: string): { transcription: TranscriptionRow; result: TranscriptionResult };
  /**
   * Cancels unfinished work for its client, and settles it. What costs nothing is an unpaid act. Returns a finished row
   * unchanged.
   */
  cancel(caller: Caller, id: string): TranscriptionRow;
  /** Cancels for the server, when time is over, or for an admin. @throws AppError `not_found` */
  cancelById: TranscriptionEndings["cancelById"];
  /** Deletes audio and transcript. @throws AppError `conflict` while this or another transcription needs them */
  delete(caller: Caller, id: string): Promise<TranscriptionRow>;
  /** Deletes audio and transcript. @throws AppError `not_found`, `conflict` */
  deleteById: TranscriptionEndings["deleteById"];
  /** Ends a transcription and settles it. Undefined: it had ended already. */
  finish: TranscriptionEndings["finish"];
  /** Moves unfinished work to its next state. Undefined: its state does not allow the trigger. */
  move(id: string, trigger: TranscriptionTrigger, change?: MoveChange): TranscriptionRow | undefined;
  /**
   * Takes up a transcription whose recording has been fetched, verified or rejected: it waits for a turn, or has failed.
   *
   * @param row awaits its recording
   */
  settleArrival(row: TranscriptionRow): void;
  /** Finds a transcription of any project. */
  find(id: string): TranscriptionRow | undefined;
  /** Returns how many of the same organization wait before each of these, by identifier; started ones are left out. */
  queuePositions(rows: readonly TranscriptionRow[]): Map<string, number>;
  /** Adds a listener. @returns a function that removes it */
  listen(listener: TranscriptionListener): () => void;
};

export function createTranscriptionService(deps: TranscriptionDeps): TranscriptionService {
  const { store } = deps.database;
  const listeners = new Set<TranscriptionListener>();

  const owned = (caller: Owner, id: string) => requireOwned(findTranscription(store, id), caller);

  const endings = createTranscriptionEndings({
    ...deps,
    onLowCredit: ({ organizationId, balancePaise, thresholdPaise }) => {
      const fields = { balance_paise: balancePaise, threshold_paise: thresholdPaise };
      deps.log.warn({ organization_id: organizationId, ...fields }, "an organization's credit is low");
    },
    onFinished: (row) => {
      logEnding(deps.log, row);
      for (const listener of listeners) listener.finished?.(row);
    },
  });

  return {
    checkRequest: (modelId, request) => checkRequest(deps, modelId, request),
    findReplay: (caller, submission, claim) =>
      findReplay(store, claim && deps.ages(), caller, submission, claim),
    accept(caller, input) {
      const accepted = acceptTranscription(deps, caller, input);
      if (!accepted.isReplay) for (const listener of listeners) listener.accepted?.(accepted.transcription);
      return accepted;
    },

    checkCredit: (caller, billedMs) => checkCredit(deps, store, caller, billedMs),
    get: owned,
    list: (caller, query) => listPage(store, caller, query),
    result(caller, id) {
      const transcription = owned(caller, id);
      if (!isFinal(transcription.state)) throw new AppError("result_not_ready");
      if (transcription.contentDeletedAt !== null) throw new AppError("content_deleted");
      const result = findResult(store, id);
      if (!result)
        throw new AppError("conflict", { message: `A ${transcription.state} transcription has no result.` });
      return { transcription, result };
    },
    cancel(caller, id) {
      const before = owned(caller, id);
      const row = endings.cancel(before);
      // Words that a stream has sent are paid.
      const isUnpaid = row.state === "cancelled" && row.streamedMs === 0;
      if (!isFinal(before.state) && isUnpaid)
        deps.unpaidActs?.count("cancelled transcriptions", row.organizationId);
      return row;
    },
    cancelById: endings.cancelById,
    delete: async (caller, id) => endings.deleteContent(owned(caller, id)),
    deleteById: endings.deleteById,
    finish: endings.finish,
    move: (id, trigger, change = {}) => moveTranscription(store, id, trigger, deps.clock.now(), change),
    settleArrival(row) {
      try {
        const arrived = takeUpArrived(deps, row);
        if (arrived) for (const listener of listeners) listener.accepted?.(arrived);
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        endings.finish(row.id, { kind: "failed", code: error.code, message: error.message });
      }
    },
    find: (id) => findTranscription(store, id),
    queuePositions: (rows) => queuePositions(store, rows),
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Writes the line from which an admin sees why a transcription ended, and how long it took. */
function logEnding(log: Log, row: TranscriptionRow): void {
  const { id, organizationId, projectId, state, errorCode, errorMessage } = row;
  const { waitedMs, workedMs, timesRealTime } = paceOf(row);
  log.info(
    {
      ...{ transcription_id: id, organization_id: organizationId, project_id: projectId, state },
      ...(errorCode === null ? {} : { code: errorCode, reason: errorMessage }),
      ...{ model: row.modelId, audio_seconds: toSeconds(row.durationMs) },
      ...{ waited_seconds: toSeconds(waitedMs), worked_seconds: toSeconds(workedMs) },
      ...(timesRealTime === null ? {} : { times_real_time: timesRealTime }),
      ...(row.work && row.work.failures > 0 ? { chunk_failures: row.work.failures } : {}),
    },
    "a transcription ended",
  );
}

function queuePositions(store: Store, rows: readonly TranscriptionRow[]): Map<string, number> {
  const queued = rows.filter(({ state, awaitsAudio }) => state === "queued" && !awaitsAudio);
  const [only, ...others] = queued;
  if (only && others.length === 0) return new Map([[only.id, countQueuedBefore(store, only)]]);
  const byOrganization = Map.groupBy(queued, ({ organizationId }) => organizationId);
  const positions = [...byOrganization].map(([organizationId, own]) =>
    listQueuePositions(
      store,
      organizationId,
      own.map(({ id }) => id),
    ),
  );
  return new Map(positions.flatMap((each) => [...each]));
}

function listPage(store: Store, caller: Caller, query: TranscriptionQuery): TranscriptionPage {
  const { projectId } = caller;
  if (query.after !== undefined && findTranscription(store, query.after)?.projectId !== projectId) {
    throw new AppError("invalid_request", {
      message: "`after` must be the ID of a transcription of this project.",
      detail: "after",
    });
  }
  const { metadata } = query;
  if (metadata !== undefined && Object.keys(metadata).length > 0) {
    const { rows, next } = listWithMetadata(store, { ...query, projectId, metadata });
    return { data: rows, next };
  }
  const rows = listTranscriptions(store, { ...query, projectId, limit: query.limit + 1 });
  const data = rows.slice(0, query.limit);
  return { data, next: rows.length > query.limit ? (data.at(-1)?.id ?? null) : null };
}
