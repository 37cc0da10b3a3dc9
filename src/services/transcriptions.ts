import type { Caller } from "../domain/api-key.ts";
import { AppError } from "../domain/errors.ts";
import type { TranscriptionResult, Warning } from "../domain/result.ts";
import {
  type Entrance,
  isFinal,
  type TranscriptionState,
  type TranscriptionTrigger,
} from "../domain/transcription.ts";
import type { Log } from "../lib/log.ts";
import { deleteChunks } from "../store/chunks.ts";
import { checkpoint, transaction } from "../store/database.ts";
import { deleteResult, findResult } from "../store/results.ts";
import {
  countQueuedBefore,
  findTranscription,
  isUploadInUse,
  listTranscriptions,
  markContentDeleted,
  moveTranscription,
  type TranscriptionRow,
} from "../store/transcriptions.ts";
import {
  type AcceptanceDeps,
  type Accepted,
  type AcceptInput,
  acceptTranscription,
  checkRequest,
  findReplay,
  type IdempotencyClaim,
} from "./acceptance.ts";
import { requireOwned } from "./ownership.ts";
import { type Ending, settleTranscription } from "./settlement.ts";

export type TranscriptionDeps = AcceptanceDeps & {
  log: Log;
  /** Removes decoded working files of a transcription; called after its transaction. */
  removeWorkingFiles: (transcriptionId: string) => void;
};

/** Told after the transaction; the scheduler and waiting requests listen. */
export type TranscriptionListener = {
  accepted?: (row: TranscriptionRow) => void;
  finished?: (row: TranscriptionRow) => void;
};

export type TranscriptionPage = { data: TranscriptionRow[]; next: string | null };
export type TranscriptionService = ReturnType<typeof createTranscriptionService>;

/** The rules of transcriptions (interface.md 3.1, 4.1–4.6), and the owner of their transactions. */
export function createTranscriptionService(deps: TranscriptionDeps) {
  const { database, clock, config } = deps;
  const { store } = database;
  const listeners = new Set<TranscriptionListener>();

  const owned = (caller: Caller, id: string) => requireOwned(findTranscription(store, id), caller);

  /** Ends a transcription; undefined when something else ended it first. */
  function finish(id: string, ending: Ending): TranscriptionRow | undefined {
    const row = transaction(store, (tx) =>
      settleTranscription(tx, id, ending, clock.now(), config.billing.timezone),
    );
    if (!row) return undefined;
    deps.removeWorkingFiles(id);
    for (const listener of listeners) listener.finished?.(row);
    return row;
  }

  function cancelRow(
    row: TranscriptionRow,
    reason: { code: "timeout"; message: string } | undefined,
  ): TranscriptionRow {
    if (isFinal(row.state)) return row;
    return finish(row.id, { kind: "cancelled", ...reason }) ?? requireRow(row.id);
  }

  function requireRow(id: string): TranscriptionRow {
    const row = findTranscription(store, id);
    if (!row) throw new AppError("not_found");
    return row;
  }

  /** Resolves once no byte of audio or transcript is left. */
  async function deleteRow(row: TranscriptionRow): Promise<TranscriptionRow> {
    if (row.contentDeletedAt !== null) return row;
    if (!isFinal(row.state)) {
      throw new AppError("conflict", { message: "The transcription has not finished; cancel it first." });
    }
    const deleted = transaction(store, (tx) => {
      if (isUploadInUse(tx, row.uploadId, row.id)) {
        throw new AppError("conflict", { message: "Another unfinished transcription uses the same upload." });
      }
      deleteResult(tx, row.id);
      deleteChunks(tx, row.id);
      deps.uploads.markAudioDeleted(tx, row.uploadId, clock.now());
      return markContentDeleted(tx, row.id, clock.now());
    });
    deps.removeWorkingFiles(row.id);
    await deps.uploads.removeAudioFile(row.uploadId);
    // What was deleted is overwritten in the file only once the write-ahead log has been folded in.
    checkpoint(database);
    return deleted ?? requireRow(row.id);
  }

  return {
    /** The checks of a request's own values, before anything is received or looked up. */
    checkRequest: (modelId: string | undefined, request: AcceptInput["request"]) =>
      checkRequest(deps.models, modelId, request),

    /** What was accepted earlier under the caller's key; AppError idempotency_conflict for another request. */
    findReplay: (caller: Caller, entrance: Entrance, claim: IdempotencyClaim | undefined) =>
      findReplay(deps, store, caller, entrance, claim),

    /** Accepts work: reservation, record and key in one transaction (interface.md 4.1, 4.7). */
    accept(caller: Caller, input: AcceptInput): Accepted {
      const model = checkRequest(deps.models, input.modelId, input.request);
      const accepted = acceptTranscription(deps, caller, model, input);
      if (!accepted.isReplay) for (const listener of listeners) listener.accepted?.(accepted.transcription);
      return accepted;
    },

    get: owned,

    /** A page, newest first; `after` must name a transcription of this project. */
    list(
      caller: Caller,
      query: { limit: number; after?: string; states?: readonly TranscriptionState[] },
    ): TranscriptionPage {
      if (
        query.after !== undefined &&
        findTranscription(store, query.after)?.projectId !== caller.projectId
      ) {
        throw new AppError("invalid_request", { detail: "after" });
      }
      const rows = listTranscriptions(store, {
        ...query,
        projectId: caller.projectId,
        limit: query.limit + 1,
      });
      const data = rows.slice(0, query.limit);
      return { data, next: rows.length > query.limit ? (data.at(-1)?.id ?? null) : null };
    },

    /** The result of a completed or partial transcription (decisions.md section 4 for all others). */
    result(caller: Caller, id: string): { transcription: TranscriptionRow; result: TranscriptionResult } {
      const transcription = owned(caller, id);
      if (!isFinal(transcription.state)) throw new AppError("result_not_ready");
      if (transcription.contentDeletedAt !== null) throw new AppError("content_deleted");
      const result = findResult(store, id);
      if (!result)
        throw new AppError("conflict", { message: `A ${transcription.state} transcription has no result.` });
      return { transcription, result };
    },

    /** Cancels unfinished work and settles it; a finished one is returned unchanged. */
    cancel: (caller: Caller, id: string) => cancelRow(owned(caller, id), undefined),

    /** Cancels without a caller: the command line, a client that went away, a time limit. */
    cancelById: (id: string, reason?: { code: "timeout"; message: string }) =>
      cancelRow(requireRow(id), reason),

    delete: async (caller: Caller, id: string) => deleteRow(owned(caller, id)),
    deleteById: async (id: string) => deleteRow(requireRow(id)),

    finish,

    /** Moves unfinished work on; undefined when its state no longer allows it. */
    move: (
      id: string,
      trigger: TranscriptionTrigger,
      change: { startedAt?: number; audioWarnings?: Warning[] } = {},
    ) => moveTranscription(store, id, trigger, change),

    find: (id: string) => findTranscription(store, id),

    /** How many of the same organization are in front; undefined once it has started. */
    queuePosition: (row: TranscriptionRow) =>
      row.state === "queued" ? countQueuedBefore(store, row) : undefined,

    listen(listener: TranscriptionListener): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
