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
import { findResult } from "../store/results.ts";
import {
  countQueuedBefore,
  findTranscription,
  listTranscriptions,
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
import { createTranscriptionEndings } from "./transcription-endings.ts";

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

/** The rules of transcriptions (docs/interface.md sections 3.1, 4.1 to 4.6), and the owner of their transactions. */
export function createTranscriptionService(deps: TranscriptionDeps) {
  const { store } = deps.database;
  const listeners = new Set<TranscriptionListener>();

  const owned = (caller: Caller, id: string) => requireOwned(findTranscription(store, id), caller);

  const endings = createTranscriptionEndings({
    ...deps,
    onFinished: (row) => {
      for (const listener of listeners) listener.finished?.(row);
    },
  });

  return {
    /** The checks of a request's own values, before anything is received or looked up. */
    checkRequest: (modelId: string | undefined, request: AcceptInput["request"]) =>
      checkRequest(deps.models, modelId, request),

    /** What was accepted earlier under the caller's key; AppError idempotency_conflict for another request. */
    findReplay: (caller: Caller, entrance: Entrance, claim: IdempotencyClaim | undefined) =>
      findReplay(deps, store, caller, entrance, claim),

    /** Accepts work: reservation, record and key in one transaction (docs/interface.md sections 4.1, 4.7). */
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
        throw new AppError("invalid_request", {
          message: "`after` must be the ID of a transcription of this project.",
          detail: "after",
        });
      }
      const rows = listTranscriptions(store, {
        ...query,
        projectId: caller.projectId,
        limit: query.limit + 1,
      });
      const data = rows.slice(0, query.limit);
      return { data, next: rows.length > query.limit ? (data.at(-1)?.id ?? null) : null };
    },

    /** The result of a completed or partial transcription (docs/decisions.md section 4 for all others). */
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
    cancel: (caller: Caller, id: string) => endings.cancel(owned(caller, id)),

    /** Cancels without a caller: a client that went away, a time limit. */
    cancelById: endings.cancelById,

    delete: async (caller: Caller, id: string) => endings.deleteContent(owned(caller, id)),
    deleteById: endings.deleteById,

    finish: endings.finish,

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
