import type { Config } from "../config/schema.ts";
import type { Caller } from "../domain/api-key.ts";
import { AppError } from "../domain/errors.ts";
import type { InstalledModel } from "../domain/model.ts";
import type { Entrance, TranscriptionRequest } from "../domain/transcription.ts";
import type { Clock } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
import { chargePaise } from "../lib/money.ts";
import { sha256Hex } from "../lib/sha256.ts";
import { billedMsOf } from "../store/billed-time.ts";
import { type Database, type Store, transaction } from "../store/database.ts";
import { findIdempotencyKey, insertIdempotencyKey } from "../store/idempotency.ts";
import { reserveCredit } from "../store/ledger.ts";
import { requireOrganization } from "../store/organizations.ts";
import {
  countQueued,
  findTranscription,
  insertTranscription,
  type TranscriptionRow,
} from "../store/transcriptions.ts";
import type { CreditService } from "./credit.ts";
import type { ModelService } from "./models.ts";
import type { UploadService } from "./uploads.ts";
import { requireEndpoint } from "./webhooks.ts";

const KEEP_KEYS_MS = 48 * 3_600_000;

/** A validated request to transcribe, whichever door it came through. */
export type AcceptInput = {
  entrance: Entrance;
  /** Undefined: the current model. */
  modelId?: string;
  request: TranscriptionRequest;
  /** What is transcribed: an upload, for synchronous work the one its file was made into. */
  uploadId: string;
  webhookEndpointId?: string;
  idempotency?: IdempotencyClaim;
};

/** A caller's `Idempotency-Key` and what it stands for. */
export type IdempotencyClaim = { key: string; requestHash: string };

export type Accepted = { transcription: TranscriptionRow; isReplay: boolean };

export type AcceptanceDeps = {
  database: Database;
  clock: Clock;
  config: Config;
  models: ModelService;
  uploads: UploadService;
  credit: CreditService;
  /** Seconds until a full queue has room again, learnt from this machine's speed. */
  estimateQueueRoomSeconds: (organizationId: string) => number;
};

/** What an idempotency key stands for: a validated request, defaults filled in (docs/decisions.md section 9). */
export type RequestIdentity = {
  model: Pick<InstalledModel, "id">;
  /** The request named the model; else it takes whichever is the default. */
  isModelNamed: boolean;
  request: TranscriptionRequest;
  /** The upload's id, or the SHA-256 of a synchronous request's file. */
  audio: string;
  webhookEndpointId?: string | undefined;
};

/**
 * A request's identity as text: SHA-256 over its values, the model it came to, and whether it named that model.
 * Two texts are compared with `isSameRequest`.
 */
export function hashRequest({
  model,
  isModelNamed,
  request,
  audio,
  webhookEndpointId,
}: RequestIdentity): string {
  const { language, mode, timestamps, channelMode, diarization } = request;
  const speakers = diarization ? [diarization.minSpeakers ?? null, diarization.maxSpeakers ?? null] : null;
  const values = [audio, language, mode, timestamps, channelMode, speakers, webhookEndpointId ?? null];
  return `${sha256Hex(JSON.stringify(values))} ${model.id} ${isModelNamed ? "named" : "default"}`;
}

/** Equal values, and one model: the same one, or for both the default, which an admin may have changed in between. */
export function isSameRequest(left: string, right: string): boolean {
  const [leftHash, leftModel, leftNaming] = left.split(" ");
  const [rightHash, rightModel, rightNaming] = right.split(" ");
  if (leftHash !== rightHash) return false;
  return leftModel === rightModel || (leftNaming === "default" && rightNaming === "default");
}

/**
 * The checks from "announced capability" to "mode" of docs/decisions.md section 2.
 *
 * @throws AppError capability_unavailable, invalid_request (`model`), unsupported_language, unsupported_mode
 */
export function checkRequest(
  models: ModelService,
  modelId: string | undefined,
  request: TranscriptionRequest,
): InstalledModel {
  if (request.language === "auto") throw new AppError("capability_unavailable", { detail: "language.auto" });
  if (request.timestamps === "word")
    throw new AppError("capability_unavailable", { detail: "timestamps.word" });
  const model = models.resolve(modelId);
  const { capabilities } = models.describe(model);
  if (request.diarization && capabilities.diarization !== "available") {
    throw new AppError("capability_unavailable", { detail: "diarization" });
  }
  if (request.channelMode === "separate" && capabilities["channel_mode.separate"] !== "available") {
    throw new AppError("capability_unavailable", { detail: "channel_mode.separate" });
  }
  const language = model.languages.find(({ code }) => code === request.language);
  if (!language) throw new AppError("unsupported_language", { detail: "language" });
  if (!language.modes.includes(request.mode)) throw new AppError("unsupported_mode", { detail: "mode" });
  return model;
}

/** Looks up what was accepted under a key; a different request under it is a conflict. */
export function findReplay(
  deps: Pick<AcceptanceDeps, "clock">,
  store: Store,
  caller: Pick<Caller, "projectId">,
  entrance: Entrance,
  claim: IdempotencyClaim | undefined,
): TranscriptionRow | undefined {
  if (!claim) return undefined;
  const scope = { projectId: caller.projectId, entrance, key: claim.key };
  const known = findIdempotencyKey(store, scope, deps.clock.now());
  if (!known) return undefined;
  if (!isSameRequest(known.requestHash, claim.requestHash))
    throw new AppError("idempotency_conflict", { detail: "Idempotency-Key" });
  return findTranscription(store, known.transcriptionId);
}

/**
 * Accepts work in one transaction: idempotency key, reservation and record, or nothing. The order of checks
 * is that of docs/decisions.md section 2; the request's own values were checked before.
 */
export function acceptTranscription(
  deps: AcceptanceDeps,
  caller: Caller,
  model: InstalledModel,
  input: AcceptInput,
): Accepted {
  return transaction(deps.database.store, (tx) => {
    const replay = findReplay(deps, tx, caller, input.entrance, input.idempotency);
    if (replay) return { transcription: replay, isReplay: true };
    return { transcription: insertAccepted(deps, tx, caller, model, input), isReplay: false };
  });
}

function insertAccepted(
  deps: AcceptanceDeps,
  tx: Store,
  caller: Caller,
  model: InstalledModel,
  input: AcceptInput,
): TranscriptionRow {
  const nowMs = deps.clock.now();
  const upload = deps.uploads.requireComplete(tx, caller, input.uploadId);
  if (input.webhookEndpointId !== undefined) requireEndpoint(tx, caller, input.webhookEndpointId);
  const durationMs = upload.durationMs ?? 0;
  const channels = upload.channels ?? 1;
  checkLimits(deps.config, input.entrance, { durationMs, channels });
  const organization = requireOrganization(tx, caller.organizationId);
  if (input.entrance === "asynchronous") {
    const maxQueued = organization.maxQueued ?? deps.config.limits.max_queued;
    if (maxQueued > 0 && countQueued(tx, organization.id) >= maxQueued) {
      throw new AppError("too_many_queued", {
        retryAfterSeconds: deps.estimateQueueRoomSeconds(organization.id),
      });
    }
  }
  const pricePaisePerAudioHour = deps.credit.priceOf(organization);
  const billedMs = billedMsOf({ durationMs, channelMode: input.request.channelMode, channels });
  const reservedPaise = chargePaise(pricePaisePerAudioHour, billedMs);
  deps.credit.checkSpending(tx, organization, reservedPaise, nowMs);
  const id = newId("transcription", nowMs);
  reserveCredit(tx, {
    organizationId: organization.id,
    transcriptionId: id,
    amountPaise: reservedPaise,
    nowMs,
  });
  const row = insertTranscription(tx, {
    id,
    organizationId: caller.organizationId,
    projectId: caller.projectId,
    uploadId: upload.id,
    entrance: input.entrance,
    modelId: model.id,
    modelVersion: model.version,
    ...requestColumns(input.request),
    webhookEndpointId: input.webhookEndpointId ?? null,
    state: "queued",
    createdAt: nowMs,
    durationMs,
    channels,
    pricePaisePerAudioHour,
    reservedPaise,
  });
  if (input.idempotency) {
    insertIdempotencyKey(tx, {
      projectId: caller.projectId,
      entrance: input.entrance,
      ...input.idempotency,
      transcriptionId: id,
      createdAt: nowMs,
      expiresAt: nowMs + KEEP_KEYS_MS,
    });
  }
  return row;
}

function requestColumns(request: TranscriptionRequest) {
  return {
    language: request.language,
    mode: request.mode,
    timestamps: request.timestamps,
    diarization: request.diarization !== undefined,
    minSpeakers: request.diarization?.minSpeakers ?? null,
    maxSpeakers: request.diarization?.maxSpeakers ?? null,
    channelMode: request.channelMode,
  };
}

/** The limits that `GET /v1/models` publishes, on a recording whose facts are known. */
export function checkLimits(
  config: Config,
  entrance: Entrance,
  audio: { durationMs: number; channels: number },
): void {
  const { limits } = config;
  const maxSeconds =
    entrance === "synchronous" ? limits.synchronous_max_duration_seconds : limits.max_duration_seconds;
  const detail = entrance === "synchronous" ? "file" : "audio.upload_id";
  if (audio.durationMs > maxSeconds * 1000) {
    throw new AppError("audio_too_long", {
      detail,
      message: `The audio is longer than ${maxSeconds} seconds.`,
    });
  }
  if (audio.channels > limits.max_channels) {
    throw new AppError("too_many_channels", {
      detail,
      message: `The audio has more than ${limits.max_channels} channels.`,
    });
  }
}
