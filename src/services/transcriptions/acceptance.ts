import type { Config } from "../../config/schema.ts";
import type { Caller } from "../../domain/api-key.ts";
import type { Capability } from "../../domain/capability.ts";
import type { Ages } from "../../domain/clock-trust.ts";
import { AppError } from "../../domain/errors.ts";
import type { AudioSource, ResultTarget } from "../../domain/intake.ts";
import { sortedMetadata } from "../../domain/metadata.ts";
import type { InstalledModel } from "../../domain/model.ts";
import type { Owner } from "../../domain/ownership.ts";
import { billedMsOf, type Submission, type TranscriptionRequest } from "../../domain/transcription.ts";
import type { Clock } from "../../lib/clock.ts";
import { newId } from "../../lib/ids.ts";
import { chargePaise } from "../../lib/money.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { type Database, type Store, transaction } from "../../store/database.ts";
import { insertFetch } from "../../store/fetches.ts";
import { findIdempotencyKey, insertIdempotencyKey } from "../../store/idempotency.ts";
import { creditOf, reserveCredit } from "../../store/ledger.ts";
import { requireOrganization } from "../../store/organizations.ts";
import { insertResultCopy } from "../../store/result-copies.ts";
import {
  countQueued,
  findTranscription,
  insertTranscription,
  type TranscriptionRow,
} from "../../store/transcriptions.ts";
import { requireEndpoint } from "../../webhooks/webhooks.ts";
import type { CreditService } from "../credit.ts";
import { isSwitchedOn } from "../models/model-description.ts";
import type { ModelService } from "../models/models.ts";
import type { UnpaidActs } from "../unpaid-acts.ts";
import type { UploadService } from "../uploads/uploads.ts";
import { checkWrittenForm } from "../written-form.ts";

const KEEP_KEYS_MS = 48 * 3_600_000;

/** A validated request to transcribe, synchronous or asynchronous. */
export type AcceptInput = {
  submission: Submission;
  /** As `checkRequest` has just found it for this request. */
  model: InstalledModel;
  request: TranscriptionRequest;
  /** Where the result is written, too. */
  resultsTo?: ResultTarget;
  webhookEndpointId?: string;
  idempotency?: IdempotencyClaim;
  /** Is called in the transaction that accepts the work, for what must be stored with it. */
  note?: (tx: Store, transcription: TranscriptionRow) => void;
  /** The transcription in whose place an admin starts this one. */
  retryOfId?: string;
} & (
  | {
      /** The upload to transcribe. The file of a synchronous request has been adopted as one. */
      uploadId: string;
      source?: undefined;
    }
  | {
      /** The recording is fetched from here. */
      source: AudioSource;
      uploadId?: undefined;
    }
);

/** A caller's `Idempotency-Key`, and the identity of its request as `hashRequest` returns it. */
export type IdempotencyClaim = {
  key: string;
  requestHash: string;
  /** The submission among whose keys this key is; left out: the request's own. */
  among?: Submission;
};

export type Accepted = { transcription: TranscriptionRow; isReplay: boolean };

export type AcceptanceDeps = {
  database: Database;
  clock: Clock;
  /** What is old now; undefined while the clock is in doubt (`ClockTrust`). Not called inside transactions. */
  ages: () => Ages | undefined;
  config: Config;
  models: ModelService;
  /** Without `allocateFetched` nothing is fetched: an admin's command. */
  uploads: Pick<UploadService, "requireComplete"> & Partial<Pick<UploadService, "allocateFetched">>;
  credit: CreditService;
  /** Transcriptions that clients cancel have a rate. Left out: an admin's command. */
  unpaidActs?: UnpaidActs;
  /** Estimates the seconds until a full queue takes another transcription, from this machine's speed. */
  estimateNextStartSeconds: (organizationId: string) => number;
};

/** What identifies a request under an idempotency key, with defaults filled in (docs/decisions/idempotency.md). */
export type RequestIdentity = {
  model: Pick<InstalledModel, "id">;
  /** True when the request named the model; false when it uses the default. */
  isModelNamed: boolean;
  request: TranscriptionRequest;
  /** The upload's id, the address of a recording, or the SHA-256 of a synchronous request's file. */
  audio: string;
  webhookEndpointId?: string | undefined;
  resultsTo?: ResultTarget | undefined;
};

/**
 * Renders a request's identity as text: SHA-256 over its values, its model, and whether it named that model.
 * `isSameRequest` compares two such texts.
 */
export function hashRequest({
  model,
  isModelNamed,
  request,
  audio,
  webhookEndpointId,
  resultsTo,
}: RequestIdentity): string {
  const { language, mode, timestamps, channelMode, diarization } = request;
  const speakers = diarization ? [diarization.minSpeakers ?? null, diarization.maxSpeakers ?? null] : null;
  const { numerals, script, task } = request;
  // Requests without them keep the hash that earlier versions stored.
  const form = numerals === undefined && script === undefined ? [] : [numerals ?? null, script ?? null];
  const metadata = request.metadata === undefined ? [] : [{ metadata: sortedMetadata(request.metadata) }];
  const values = [
    ...[audio, language, mode, timestamps, channelMode, speakers, webhookEndpointId ?? null],
    ...form,
    ...metadata,
    ...(resultsTo ? [resultsTo.target, resultsTo.formats] : []),
    ...(task === undefined ? [] : [{ task }]),
  ];
  return `${sha256Hex(JSON.stringify(values))} ${model.id} ${isModelNamed ? "named" : "default"}`;
}

/**
 * Reports whether two identities are of the same request: equal values, and the same model or for both the default, which
 * an admin may have changed in between.
 */
export function isSameRequest(left: string, right: string): boolean {
  const [leftHash, leftModel, leftNaming] = left.split(" ");
  const [rightHash, rightModel, rightNaming] = right.split(" ");
  if (leftHash !== rightHash) return false;
  return leftModel === rightModel || (leftNaming === "default" && rightNaming === "default");
}

/**
 * Checks a request from "announced capability" to "mode" in the order of docs/decisions/order-of-checks.md.
 *
 * @param deps the config says which capabilities are switched on
 * @returns the request's model
 * @throws AppError `capability_unavailable`, `invalid_request` (detail `model`), `capacity_unavailable` without a
 *   default model, `unsupported_language`, `unsupported_mode`, `invalid_request` (detail `timestamps`, `numerals` or
 *   `script`)
 */
export function checkRequest(
  { models, config }: Pick<AcceptanceDeps, "models" | "config">,
  modelId: string | undefined,
  request: TranscriptionRequest,
): InstalledModel {
  if (request.language === "auto") throw unavailable("language.auto");
  const isWordTimed = request.timestamps === "word";
  // What nothing can do here is refused before the model is looked at.
  if (isWordTimed && !isSwitchedOn(config, "timestamps.word")) throw unavailable("timestamps.word");
  const isTranslated = request.task === "translate";
  if (isTranslated && !isSwitchedOn(config, "task.translate")) throw unavailable("task.translate");
  const model = models.resolve(modelId, request.language);
  const { capabilities } = models.describe(model);
  const asked: [Capability, boolean][] = [
    ["timestamps.word", isWordTimed],
    ["diarization", request.diarization !== undefined],
    ["channel_mode.separate", request.channelMode === "separate"],
    ["task.translate", isTranslated],
  ];
  for (const [name, isAsked] of asked) {
    if (isAsked && capabilities[name] !== "available")
      throw unavailable(name, `The model ${model.id} does not have this capability.`);
  }
  const language = model.languages.find(({ code }) => code === request.language);
  if (!language) throw models.unsupportedLanguage(model, request.language);
  if (!language.modes.includes(request.mode)) throw new AppError("unsupported_mode", { detail: "mode" });
  if (isTranslated) checkTranslation(request);
  checkWrittenForm(request);
  return model;
}

/** Refuses what a translation cannot have. @throws AppError `unsupported_mode`, `invalid_request` */
function checkTranslation({ mode, timestamps }: TranscriptionRequest): void {
  if (mode === "codemix")
    throw new AppError("unsupported_mode", {
      detail: "mode",
      message: "A translation is in English; its mode is native or verbatim.",
    });
  if (timestamps === "word")
    throw new AppError("invalid_request", {
      detail: "timestamps",
      message:
        "The words of a translation were not spoken, so they have no times; timestamps is segment or none.",
    });
}

const unavailable = (detail: Capability, message?: string) =>
  new AppError("capability_unavailable", { detail, ...(message === undefined ? {} : { message }) });

/**
 * Finds what was accepted under a key.
 *
 * @param ages undefined: the clock is in doubt. Then no key has expired, so that no work is charged twice
 * @throws AppError `idempotency_conflict` when it was another request
 */
export function findReplay(
  store: Store,
  ages: Ages | undefined,
  caller: Pick<Caller, "projectId">,
  submission: Submission,
  claim: IdempotencyClaim | undefined,
): TranscriptionRow | undefined {
  if (!claim) return undefined;
  const { key, among = submission } = claim;
  const known = findIdempotencyKey(store, { projectId: caller.projectId, submission: among, key }, ages);
  if (!known) return undefined;
  if (!isSameRequest(known.requestHash, claim.requestHash))
    throw new AppError("idempotency_conflict", { detail: "Idempotency-Key" });
  return findTranscription(store, known.transcriptionId);
}

/**
 * Accepts work in one transaction: it writes idempotency key, reservation and record, or nothing. It checks in the order
 * of docs/decisions/order-of-checks.md. The request's own values have been checked before.
 */
export function acceptTranscription(deps: AcceptanceDeps, caller: Owner, input: AcceptInput): Accepted {
  const ages = input.idempotency && deps.ages();
  return transaction(deps.database.store, (tx) => {
    const replay = findReplay(tx, ages, caller, input.submission, input.idempotency);
    if (replay) return { transcription: replay, isReplay: true };
    return { transcription: insertAccepted(deps, tx, caller, input, ages), isReplay: false };
  });
}

/** Refuses work that its organization cannot pay now. @throws AppError `spend_limit_reached`, `insufficient_credits` */
export function checkCredit(
  deps: Pick<AcceptanceDeps, "credit" | "clock">,
  store: Store,
  { organizationId }: Pick<Caller, "organizationId">,
  billedMs: number,
): void {
  const organization = requireOrganization(store, organizationId);
  const paise = chargePaise(deps.credit.priceOf(organization), billedMs);
  deps.credit.checkSpending(store, organization, paise, deps.clock.now());
  if (deps.credit.show(organizationId).availablePaise < paise) throw new AppError("insufficient_credits");
}

/**
 * Checks the organization and everything from the upload on, and writes reservation and record, in the caller's
 * transaction.
 *
 * @param ages which idempotency keys have expired; undefined: none
 * @throws AppError `organization_disabled`; as `TranscriptionService.accept`
 */
export function insertAccepted(
  deps: Omit<AcceptanceDeps, "ages">,
  tx: Store,
  caller: Owner,
  input: AcceptInput,
  ages?: Ages,
): TranscriptionRow {
  const { model } = input;
  const nowMs = deps.clock.now();
  const organization = requireOrganization(tx, caller.organizationId);
  // It may have been disabled, or purged, since the request was authenticated: a form takes its time to arrive.
  if (organization.disabledAt !== null) throw new AppError("organization_disabled");
  const ready =
    input.source === undefined ? deps.uploads.requireComplete(tx, caller, input.uploadId) : undefined;
  if (input.webhookEndpointId !== undefined) requireEndpoint(tx, caller, input.webhookEndpointId);
  const durationMs = ready?.durationMs ?? 0;
  const channels = ready?.channels ?? 1;
  checkLimits(deps.config, input.submission, { durationMs, channels });
  deps.unpaidActs?.require("cancelled transcriptions", organization.id);
  if (input.submission === "asynchronous") {
    const maxQueued = organization.maxQueued ?? deps.config.limits.max_queued;
    if (maxQueued > 0 && countQueued(tx, organization.id) >= maxQueued) {
      throw new AppError("too_many_queued", {
        retryAfterSeconds: deps.estimateNextStartSeconds(organization.id),
      });
    }
  }
  const pricePaisePerAudioHour = deps.credit.priceOf(organization);
  const billedMs = billedMsOf({ durationMs, channelMode: input.request.channelMode, channels });
  const reservedPaise = chargePaise(pricePaisePerAudioHour, billedMs);
  deps.credit.checkSpending(tx, organization, reservedPaise, nowMs);
  const id = newId("transcription", nowMs);
  const { id: organizationId } = organization;
  if (ready) reserveCredit(tx, { organizationId, transcriptionId: id, amountPaise: reservedPaise, nowMs });
  // What it costs is known when the recording has arrived. Without any credit nothing is fetched.
  else if (pricePaisePerAudioHour > 0 && creditOf(tx, organizationId).availablePaise <= 0)
    throw new AppError("insufficient_credits");
  const upload = ready ?? deps.uploads.allocateFetched?.(tx, caller);
  if (!upload) throw new Error("nothing is fetched here");
  const row = insertTranscription(tx, {
    id,
    organizationId: caller.organizationId,
    projectId: caller.projectId,
    uploadId: upload.id,
    submission: input.submission,
    modelId: model.id,
    modelVersion: model.version,
    ...requestColumns(input.request),
    webhookEndpointId: input.webhookEndpointId ?? null,
    retryOfId: input.retryOfId ?? null,
    state: "queued",
    createdAt: nowMs,
    durationMs,
    channels,
    pricePaisePerAudioHour,
    reservedPaise,
    awaitsAudio: ready === undefined,
  });
  insertAddresses(tx, row, input);
  if (input.idempotency) {
    const { key, requestHash, among = input.submission } = input.idempotency;
    const times = { createdAt: nowMs, expiresAt: nowMs + KEEP_KEYS_MS };
    const { projectId } = caller;
    const claimed = { projectId, submission: among, key, requestHash, transcriptionId: id, ...times };
    insertIdempotencyKey(tx, claimed, ages);
  }
  input.note?.(tx, row);
  return row;
}

/** Stores where the recording of a transcription comes from and where its result goes, as far as that was said. */
function insertAddresses(tx: Store, row: TranscriptionRow, { source, resultsTo }: AcceptInput): void {
  const { id: transcriptionId, organizationId, uploadId, createdAt } = row;
  if (source)
    insertFetch(tx, {
      ...{ transcriptionId, organizationId, uploadId, createdAt, nextAttemptAt: createdAt },
      ...source,
    });
  if (resultsTo) insertResultCopy(tx, { transcriptionId, organizationId, ...resultsTo });
}

function requestColumns(request: TranscriptionRequest) {
  return {
    language: request.language,
    task: request.task ?? null,
    mode: request.mode,
    timestamps: request.timestamps,
    diarization: request.diarization !== undefined,
    minSpeakers: request.diarization?.minSpeakers ?? null,
    maxSpeakers: request.diarization?.maxSpeakers ?? null,
    channelMode: request.channelMode,
    numerals: request.numerals ?? null,
    script: request.script ?? null,
    ...(request.metadata === undefined ? {} : { metadata: request.metadata }),
  };
}

/** Returns the request that a row was accepted with. */
export function requestOf(row: TranscriptionRow): TranscriptionRequest {
  const { language, task, mode, timestamps, channelMode, minSpeakers, maxSpeakers } = row;
  const { numerals, script, metadata } = row;
  const diarization = {
    ...(minSpeakers === null ? {} : { minSpeakers }),
    ...(maxSpeakers === null ? {} : { maxSpeakers }),
  };
  return {
    ...{ language, mode, timestamps, channelMode },
    ...(task === null ? {} : { task }),
    ...(row.diarization ? { diarization } : {}),
    ...(numerals === null ? {} : { numerals }),
    ...(script === null ? {} : { script }),
    ...(metadata === null ? {} : { metadata }),
  };
}

/**
 * Checks a recording against the limits that `GET /v1/models` publishes.
 *
 * @throws AppError (detail `file` or `audio.upload_id`) `audio_too_long`, `too_many_channels`
 */
export function checkLimits(
  config: Config,
  submission: Submission,
  audio: { durationMs: number; channels: number },
): void {
  const { limits } = config;
  const maxSeconds =
    submission === "synchronous" ? limits.synchronous_max_duration_seconds : limits.max_duration_seconds;
  const detail = submission === "synchronous" ? "file" : "audio.upload_id";
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
