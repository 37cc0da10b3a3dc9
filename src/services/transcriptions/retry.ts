import { AppError } from "../../domain/errors.ts";
import { isFinal } from "../../domain/transcription.ts";
import { recordAct } from "../../store/audit-log.ts";
import { type Store, transaction } from "../../store/database.ts";
import { findTranscription, listRetries, type TranscriptionRow } from "../../store/transcriptions.ts";
import { findEndpoint } from "../../webhooks/event-rows.ts";
import { type AcceptanceDeps, checkRequest, insertAccepted, requestOf } from "./acceptance.ts";
import { chargeOf } from "./settlement.ts";

/** A retry, and whether it sends no event because the endpoint of the first one is disabled or removed. */
export type Retry = { transcription: TranscriptionRow; hasLostEndpoint: boolean };

/**
 * Starts a new transcription in the place of one that failed or was cancelled: the same recording and request, today's
 * version of the model and today's price. The old one keeps its final state; it was not charged. Only one of all
 * transcriptions that retry the same one can be unfinished or have a result, so that nothing is charged twice.
 *
 * @throws AppError `not_found`; `conflict` while it is unfinished, when it has a result, or when it is retried already;
 *   `content_deleted` when its recording is gone; as `TranscriptionService.accept` for limits, credit and the model
 */
export function retryTranscription(deps: Omit<AcceptanceDeps, "ages">, id: string): Retry {
  const { store } = deps.database;
  const request = requestOf(requireFree(store, id));
  const model = checkRequest(deps, requireFree(store, id).modelId, request);
  return transaction(store, (tx) => {
    const row = requireFree(tx, id);
    const endpoint = row.webhookEndpointId === null ? undefined : findEndpoint(tx, row.webhookEndpointId);
    const canNotify = endpoint?.disabledAt === null && endpoint.removedAt === null;
    const transcription = insertAccepted(deps, tx, row, {
      ...{ submission: "asynchronous", model, request, uploadId: row.uploadId },
      ...(canNotify ? { webhookEndpointId: endpoint.id } : {}),
      retryOfId: firstOf(row),
    });
    const { organizationId } = row;
    const after = { transcription_id: transcription.id };
    recordAct(tx, { action: "transcription.retry", object: id, organizationId, after }, deps.clock.now());
    return { transcription, hasLostEndpoint: row.webhookEndpointId !== null && !canNotify };
  });
}

/** The transcription that was retried first: retries of retries belong to it. */
const firstOf = (row: TranscriptionRow) => row.retryOfId ?? row.id;

/** Reports whether a transcription has no result and a stream has sent nothing of it that was charged. */
const isFree = (row: TranscriptionRow) =>
  (row.state === "failed" || row.state === "cancelled") && chargeOf(row, row.streamedMs) === 0;

/** Finds a transcription that was not charged and whose retries were not either. @throws AppError */
function requireFree(store: Store, id: string): TranscriptionRow {
  const row = findTranscription(store, id);
  if (!row) throw new AppError("not_found", { message: `There is no transcription ${id}.` });
  if (!isFinal(row.state))
    throw new AppError("conflict", { message: `${id} is not finished; it is ${row.state}.` });
  if (!isFree(row)) {
    throw new AppError("conflict", {
      message: `${id} is ${row.state} and was charged. Only failed and cancelled ones that cost nothing are retried.`,
    });
  }
  const other = listRetries(store, firstOf(row)).find((retry) => !isFree(retry));
  if (other) {
    throw new AppError("conflict", { message: `${id} is retried already: ${other.id} is ${other.state}.` });
  }
  return row;
}
