import type { Caller } from "../../domain/api-key.ts";
import { AppError } from "../../domain/errors.ts";
import type { RESULT_COPY_STATES } from "../../domain/intake.ts";
import {
  billedMsOf,
  isFinal,
  TRANSCRIPTION_STATES,
  type TranscriptionState,
} from "../../domain/transcription.ts";
import { toSeconds, toTimestamp } from "../../lib/time.ts";
import { type Accepted, hashRequest } from "../../services/transcriptions/acceptance.ts";
import type { Store } from "../../store/database.ts";
import { findFetch } from "../../store/fetches.ts";
import { findResultCopy, type ResultCopyRow } from "../../store/result-copies.ts";
import type { TranscriptionRow } from "../../store/transcriptions.ts";
import type { HttpDeps } from "../deps.ts";
import { defineKeyedRoutes, operation } from "../route.ts";
import { idempotencyKeyOf } from "../wire/idempotency.ts";
import { DEFAULT_PAGE_SIZE } from "../wire/paging.ts";
import { namedAudio, requestOf, withheldFields, withheldFromStart } from "../wire/requests.ts";
import { RESULT_ALTERNATIVES, resultResponse, wantedResult } from "../wire/results.ts";
import {
  ResultQuery,
  Transcription,
  TranscriptionCreate,
  TranscriptionList,
  TranscriptionListQuery,
  TranscriptionResult,
} from "../wire/schemas.ts";

const startOperation = ({ config }: HttpDeps) =>
  operation({
    id: "createTranscription",
    summary: "Start a transcription",
    description:
      "Reserves credit and queues the work. A repeated request with its key gets the first transcription.",
    tag: "Transcriptions",
    scope: "transcriptions:write",
    body: TranscriptionCreate,
    withheld: () => withheldFromStart(config),
    acceptsIdempotencyKey: true,
    errors: [
      "capability_unavailable",
      "unsupported_language",
      "unsupported_mode",
      "idempotency_conflict",
      "not_found",
      "upload_incomplete",
      "upload_rejected",
      "content_deleted",
      "conflict",
      "audio_too_long",
      "too_many_channels",
      "too_many_queued",
      "spend_limit_reached",
      "insufficient_credits",
    ],
    responses: { 202: "Accepted: credit is reserved, work is queued.", 200: "Replay of an earlier request." },
  });

const listOperation = ({ config }: HttpDeps) =>
  operation({
    id: "listTranscriptions",
    summary: "List transcriptions",
    description: "With `metadata` a page may have fewer than `limit`, also none, while `next` leads to more.",
    tag: "Transcriptions",
    scope: "transcriptions:read",
    query: TranscriptionListQuery,
    withheld: () => withheldFields(config),
    errors: [],
    responses: { 200: "A page of the project's transcriptions, newest first." },
  });

const GET = operation({
  id: "getTranscription",
  summary: "Get a transcription",
  tag: "Transcriptions",
  scope: "transcriptions:read",
  errors: ["not_found"],
  responses: { 200: "Its current state." },
});

const DELETE = operation({
  id: "deleteTranscription",
  summary: "Delete audio and transcript",
  description: "The record and its usage event stay. Unfinished work must be cancelled first.",
  tag: "Transcriptions",
  scope: "transcriptions:write",
  errors: ["not_found", "conflict"],
  responses: { 200: "Content is deleted." },
});

const RESULT = operation({
  id: "getTranscriptionResult",
  summary: "Get the result",
  description:
    "JSON, or by `format` or `Accept` the transcript alone as WebVTT, SubRip or plain text, or by `format` its words as CTM.",
  query: ResultQuery,
  tag: "Transcriptions",
  scope: "transcriptions:read",
  errors: ["not_found", "result_not_ready", "conflict", "content_deleted"],
  responses: { 200: "The result." },
  alternatives: RESULT_ALTERNATIVES,
});

const CANCEL = operation({
  id: "cancelTranscription",
  summary: "Cancel a transcription",
  description:
    "Cancelled work is not charged, but for words that a stream of the OpenAI layer has sent. A finished transcription is returned unchanged.",
  tag: "Transcriptions",
  scope: "transcriptions:write",
  errors: ["not_found"],
  responses: { 200: "Cancelled or already finished." },
});

/**
 * Transcriptions (docs/interface.md sections 4.1 to 4.6). Callers need `transcriptions:read` to list, get and fetch
 * results, `transcriptions:write` to start, cancel and delete.
 */
export function transcriptionRoutes(deps: HttpDeps) {
  const { transcriptions } = deps;
  const toResponses = (rows: readonly TranscriptionRow[]) => {
    const positions = transcriptions.queuePositions(rows);
    return rows.map((row) => toTranscription(deps, row, positions.get(row.id)));
  };
  const toResponse = (row: TranscriptionRow) =>
    toTranscription(deps, row, transcriptions.queuePositions([row]).get(row.id));

  return defineKeyedRoutes("transcriptions")
    .post(
      "/v1/transcriptions",
      ({ caller, request, body, status }) => {
        const { transcription, isReplay } = start(deps, caller, request, body);
        return isReplay ? status(200, toResponse(transcription)) : status(202, toResponse(transcription));
      },
      {
        response: { 200: Transcription, 202: Transcription },
        ...startOperation(deps),
      },
    )
    .get(
      "/v1/transcriptions",
      ({ caller, query }): TranscriptionList => {
        const { limit = DEFAULT_PAGE_SIZE, after, state, metadata } = query;
        const page = transcriptions.list(caller, {
          limit,
          ...(after === undefined ? {} : { after }),
          ...(state === undefined ? {} : { states: statesOf(state) }),
          ...(metadata === undefined ? {} : { metadata }),
        });
        return { object: "list", data: toResponses(page.data), next: page.next };
      },
      { response: { 200: TranscriptionList }, ...listOperation(deps) },
    )
    .get(
      "/v1/transcriptions/:transcription_id",
      ({ caller, params }) => toResponse(transcriptions.get(caller, params.transcription_id)),
      { response: { 200: Transcription }, ...GET },
    )
    .delete(
      "/v1/transcriptions/:transcription_id",
      async ({ caller, params }) => toResponse(await transcriptions.delete(caller, params.transcription_id)),
      { response: { 200: Transcription }, ...DELETE },
    )
    .get(
      "/v1/transcriptions/:transcription_id/result",
      ({ caller, request, params, query }) => {
        const wanted = wantedResult(request, query);
        return resultResponse(transcriptions.result(caller, params.transcription_id), wanted);
      },
      { response: { 200: TranscriptionResult }, ...RESULT },
    )
    .post(
      "/v1/transcriptions/:transcription_id/cancel",
      async ({ caller, params }) => toResponse(await transcriptions.cancel(caller, params.transcription_id)),
      { response: { 200: Transcription }, ...CANCEL },
    );
}

/** Accepts a request or replays an earlier one (docs/decisions/order-of-checks.md, from "announced capability" on). */
function start(
  { transcriptions, intake }: HttpDeps,
  caller: Caller,
  request: Request,
  body: TranscriptionCreate,
): Accepted {
  const named = namedAudio(body);
  const key = idempotencyKeyOf(request);
  const wanted = requestOf(body);
  const model = transcriptions.checkRequest(body.model, wanted);
  const resultsTo = body.results_to && intake.target(caller.organizationId, body.results_to);
  const webhookEndpointId = body.webhook_endpoint_id;
  const requestHash = hashRequest({
    model,
    isModelNamed: body.model !== undefined,
    request: wanted,
    audio: "uploadId" in named ? named.uploadId : named.sourceUrl,
    webhookEndpointId,
    resultsTo,
  });
  return transcriptions.accept(caller, {
    submission: "asynchronous",
    model,
    request: wanted,
    ...("uploadId" in named
      ? { uploadId: named.uploadId }
      : { source: intake.source(caller.organizationId, named.sourceUrl) }),
    ...(resultsTo === undefined ? {} : { resultsTo }),
    ...(webhookEndpointId === undefined ? {} : { webhookEndpointId }),
    ...(key === undefined ? {} : { idempotency: { key, requestHash } }),
  });
}

/** The `state` parameter. @throws AppError `invalid_request` */
function statesOf(text: string): TranscriptionState[] {
  return text.split(",").map((word) => {
    const state = TRANSCRIPTION_STATES.find((candidate) => candidate === word);
    if (!state) {
      throw new AppError("invalid_request", {
        detail: "state",
        message: `state must be some of ${TRANSCRIPTION_STATES.join(", ")}, separated by commas.`,
      });
    }
    return state;
  });
}

/** docs/interface.md section 2.1 and docs/decisions/transcriptions.md. */
function toTranscription(
  { baseUrl, database }: HttpDeps,
  row: TranscriptionRow,
  queuePosition: number | undefined,
): Transcription {
  const isDeleted = row.contentDeletedAt !== null;
  const hasResult = !isDeleted && (row.state === "completed" || row.state === "partial");
  return {
    id: row.id,
    object: "transcription",
    model: row.modelId,
    version: row.modelVersion,
    state: row.state,
    request: {
      language: row.language,
      ...(row.task === null ? {} : { task: row.task }),
      mode: row.mode,
      timestamps: row.timestamps,
      diarization: row.diarization,
      channel_mode: row.channelMode,
      ...(row.numerals === null ? {} : { numerals: row.numerals }),
      ...(row.script === null ? {} : { script: row.script }),
    },
    created_at: toTimestamp(row.createdAt),
    finished_at: row.finishedAt === null ? null : toTimestamp(row.finishedAt),
    ...(hasResult ? { result_url: `${baseUrl()}/v1/transcriptions/${row.id}/result` } : {}),
    ...(row.errorCode === null ? {} : { error: { code: row.errorCode, message: row.errorMessage ?? "" } }),
    ...(row.contentDeletedAt === null ? {} : { content_deleted_at: toTimestamp(row.contentDeletedAt) }),
    ...(row.metadata === null ? {} : { metadata: row.metadata }),
    // The length of a recording that is being fetched is not known.
    ...(row.awaitsAudio ? {} : { duration_seconds: toSeconds(row.durationMs) }),
    progress: progressOf(row),
    ...addressesOf(database.store, row),
    ...(queuePosition === undefined ? {} : { queue_position: queuePosition }),
  };
}

/** Says where the recording comes from and where the result goes, for a request that named addresses. */
function addressesOf(store: Store, row: TranscriptionRow): Pick<Transcription, "source" | "results_to"> {
  const fetch = findFetch(store, row.id);
  const copy = findResultCopy(store, row.id);
  const isOver = isFinal(row.state);
  const state = row.awaitsAudio ? (isOver ? "failed" : "fetching") : "fetched";
  return {
    ...(fetch && {
      source: {
        ...{ url: fetch.source, state },
        ...(fetch.totalBytes ? { total_bytes: fetch.totalBytes } : {}),
        ...(state === "fetching" && fetch.reason !== null ? { message: fetch.reason } : {}),
      },
    }),
    ...(copy && {
      results_to: {
        ...{ url: copy.target, formats: copy.formats, state: copyState(copy, row) },
        ...(copy.writtenAt === null && copy.reason !== null ? { message: copy.reason } : {}),
      },
    }),
  };
}

function copyState(copy: ResultCopyRow, row: TranscriptionRow): (typeof RESULT_COPY_STATES)[number] {
  if (copy.writtenAt !== null) return "written";
  if (copy.nextAttemptAt !== null || !isFinal(row.state)) return "waiting";
  return row.state === "completed" || row.state === "partial" ? "failed" : "none";
}

/** Share of the audio that has its outcome, 0 to 1, two decimals. */
function progressOf(row: TranscriptionRow): number {
  if (row.state === "completed" || row.state === "partial") return 1;
  const totalMs = billedMsOf(row);
  return totalMs === 0 ? 0 : Math.min(1, Math.floor((row.progressMs / totalMs) * 100) / 100);
}
