import type { Config } from "../../config/schema.ts";
import type { AuditValues } from "../../domain/audit.ts";
import type { Credit } from "../../domain/credit.ts";
import type { InstalledModel } from "../../domain/model.ts";
import { billedMsOf } from "../../domain/transcription.ts";
import { noticeOf } from "../../domain/trial.ts";
import { FAMILIES } from "../../families/families.ts";
import { toSeconds, toTimestamp } from "../../lib/time.ts";
import type { ApiKey } from "../../services/api-keys.ts";
import type { ModelService } from "../../services/models/models.ts";
import { readingDocument } from "../../services/signed/reading-document.ts";
import type { AuditEntry as AuditRow } from "../../store/audit-log.ts";
import type { LedgerEntry as Entry } from "../../store/ledger.ts";
import type { OrganizationRow } from "../../store/organizations.ts";
import type { ProjectRow } from "../../store/projects.ts";
import type { ReceiptRow } from "../../store/receipts.ts";
import type { TranscriptionRow } from "../../store/transcriptions.ts";
import type { UploadRow } from "../../store/uploads.ts";
import type { DeliveryView, EndpointView } from "../../webhooks/webhooks.ts";
import type {
  AdminTranscription,
  AdminUpload,
  AuditEntry,
  ConsoleEndpoint,
  ConsoleModel,
  Delivery,
  InstalledModelRow,
  Key,
  LedgerEntry,
  Organization,
  Project,
  Receipt,
} from "../wire/console.ts";

/**
 * Makes the JSON that admins get from rows, by the shapes of http/wire/console.ts: the console's requests and the
 * `--json` of commands have the same.
 */

const time = (epochMs: number | null) => (epochMs === null ? null : toTimestamp(epochMs));

export function toCredit({ balancePaise, reservedPaise, availablePaise }: Credit): Organization["credit"] {
  return { balance_paise: balancePaise, reserved_paise: reservedPaise, available_paise: availablePaise };
}

/** @param maxStoredBytes its limit of stored bytes; 0: none */
export function toOrganization(
  row: OrganizationRow,
  { billing, limits }: Config,
  maxStoredBytes: number,
): Organization {
  const { balancePaise, reservedPaise } = row;
  return {
    id: row.id,
    object: "organization",
    name: row.name,
    disabled: row.disabledAt !== null,
    disabled_at: time(row.disabledAt),
    purged_at: time(row.purgedAt),
    price_paise_per_audio_hour: row.pricePaisePerAudioHour,
    daily_spend_limit_paise: row.dailySpendLimitPaise,
    max_queued: row.maxQueued,
    requests_per_second: row.requestsPerSecond,
    max_stored_bytes: row.maxStoredBytes,
    low_credit_paise: row.lowCreditPaise,
    weight: row.weight,
    effective: {
      price_paise_per_audio_hour: row.pricePaisePerAudioHour ?? billing.price_paise_per_audio_hour,
      daily_spend_limit_paise: row.dailySpendLimitPaise ?? billing.daily_spend_limit_paise,
      max_queued: row.maxQueued ?? limits.max_queued,
      requests_per_second: row.requestsPerSecond ?? limits.requests_per_second,
      max_stored_bytes: maxStoredBytes,
      low_credit_paise: row.lowCreditPaise ?? billing.low_credit_paise,
    },
    stored_bytes: row.storedBytes,
    credit: toCredit({ balancePaise, reservedPaise, availablePaise: balancePaise - reservedPaise }),
    created_at: toTimestamp(row.createdAt),
  };
}

export function toLedgerEntry(entry: Entry): LedgerEntry {
  return {
    sequence: entry.sequence,
    object: "ledger_entry",
    organization_id: entry.organizationId,
    kind: entry.kind,
    amount_paise: entry.amountPaise,
    transcription_id: entry.transcriptionId,
    note: entry.note,
    created_at: toTimestamp(entry.createdAt),
    previous_hash: entry.previousHash,
    hash: entry.hash,
  };
}

export function toProject(row: ProjectRow): Project {
  const { id, organizationId, name, createdAt, audioDays, transcriptDays, defaultLanguage } = row;
  return {
    ...{ id, object: "project", organization_id: organizationId, name, created_at: toTimestamp(createdAt) },
    ...{ audio_days: audioDays, transcript_days: transcriptDays, default_language: defaultLanguage },
  };
}

export function toKey(key: ApiKey, nowMs: number): Key {
  const isExpired = key.expiresAt !== null && key.expiresAt <= nowMs;
  return {
    id: key.id,
    object: "api_key",
    organization_id: key.organizationId,
    project_id: key.projectId,
    name: key.name,
    hint: key.hint,
    scopes: key.scopes,
    state: key.revokedAt !== null ? "revoked" : isExpired ? "expired" : key.held ? "held" : "active",
    created_at: toTimestamp(key.createdAt),
    last_used_at: time(key.lastUsedAt),
    expires_at: time(key.expiresAt),
    revoked_at: time(key.revokedAt),
  };
}

export function toModel(models: ModelService, model: InstalledModel): ConsoleModel {
  const notice = noticeOf(model);
  return {
    id: model.id,
    object: "model",
    name: model.name,
    version: model.version,
    default: model === models.findDefault(),
    default_languages: models.servedLanguages(model),
    languages: model.languages.map(({ code, name, modes }) => ({ code, name, modes })),
    family: model.family,
    bytes: model.bytes,
    licence: model.licence,
    source: model.source,
    ...(notice === undefined ? {} : { notice }),
  };
}

/** Adds what commands say of a model: what it can do, and its files. */
export function toInstalledModel(models: ModelService, model: InstalledModel): InstalledModelRow {
  const { capabilities, diarization } = models.describe(model);
  return {
    ...toModel(models, model),
    languages: model.languages.map(({ code, name, modes, trial }) => ({
      ...{ code, name, modes },
      ...(trial === undefined ? {} : { trial }),
    })),
    capabilities,
    diarization,
    embedded: model.embedded,
    engine: FAMILIES.of(model.family).engine,
    path: FAMILIES.mainFile(model),
    sha256: model.sha256,
  };
}

export function toEndpoint(row: EndpointView): ConsoleEndpoint {
  return {
    id: row.id,
    object: "webhook_endpoint",
    organization_id: row.organizationId,
    project_id: row.projectId,
    url: row.url,
    state: row.disabledAt === null ? "enabled" : "disabled",
    disabled_at: time(row.disabledAt),
    disabled_reason: row.disabledReason,
    previous_secret_expires_at: time(row.previousSecretExpiresAt),
    created_at: toTimestamp(row.createdAt),
    events: row.events,
    pending: row.pending,
    failed: row.failed,
  };
}

export function toDelivery(row: DeliveryView): Delivery {
  return {
    event_id: row.eventId,
    object: "webhook_delivery",
    endpoint_id: row.endpointId,
    transcription_id: row.event.transcriptionId,
    type: row.event.type,
    state: row.state,
    attempts: row.attempts,
    reason: row.reason,
    last_status: row.lastAttempt?.status ?? null,
    created_at: toTimestamp(row.event.createdAt),
    next_attempt_at: time(row.nextAttemptAt),
    delivered_at: time(row.deliveredAt),
    failed_at: time(row.failedAt),
  };
}

export function toTranscription(row: TranscriptionRow): AdminTranscription {
  const isDone = row.state === "completed" || row.state === "partial";
  const totalMs = billedMsOf(row);
  return {
    id: row.id,
    object: "transcription",
    organization_id: row.organizationId,
    project_id: row.projectId,
    upload_id: row.uploadId,
    entrance: row.submission,
    model: row.modelId,
    version: row.modelVersion,
    state: row.state,
    language: row.language,
    task: row.task ?? "transcribe",
    mode: row.mode,
    timestamps: row.timestamps,
    numerals: row.numerals ?? "spoken",
    script: row.script ?? "native",
    ...(row.metadata === null ? {} : { metadata: row.metadata }),
    diarization: row.diarization,
    channel_mode: row.channelMode,
    duration_seconds: toSeconds(row.durationMs),
    channels: row.channels,
    progress: isDone
      ? 1
      : totalMs === 0
        ? 0
        : Math.min(1, Math.floor((row.progressMs / totalMs) * 100) / 100),
    reserved_paise: row.reservedPaise,
    created_at: toTimestamp(row.createdAt),
    started_at: time(row.startedAt),
    finished_at: time(row.finishedAt),
    content_deleted_at: time(row.contentDeletedAt),
    error: row.errorCode === null ? null : { code: row.errorCode, message: row.errorMessage ?? "" },
  };
}

export function toUpload(row: UploadRow): AdminUpload {
  return {
    id: row.id,
    organization_id: row.organizationId,
    project_id: row.projectId,
    key_id: row.apiKeyId,
    state: row.state,
    bytes: row.bytes,
    sha256: row.storedSha256 ?? row.sha256,
    duration_seconds: row.durationMs === null ? null : toSeconds(row.durationMs),
    channels: row.channels,
    sample_rate_hz: row.sampleRateHz,
    truncated: row.truncated,
    reading: row.reading && readingDocument(row.reading),
    created_at: toTimestamp(row.createdAt),
    expires_at: toTimestamp(row.expiresAt),
    finished_at: time(row.finishedAt),
    deleted_at: time(row.deletedAt),
    error: row.errorCode === null ? null : { code: row.errorCode, message: row.errorMessage ?? "" },
  };
}

export function toAuditEntry(entry: AuditRow): AuditEntry {
  const read = (text: string | null) => (text === null ? null : (JSON.parse(text) as AuditValues));
  return {
    entry: entry.sequence,
    created_at: toTimestamp(entry.createdAt),
    source: entry.source,
    actor: entry.actor,
    via: entry.via,
    action: entry.action,
    object: entry.object,
    organization_id: entry.organizationId,
    before: read(entry.before),
    after: read(entry.after),
    previous_hash: entry.previousHash,
    hash: entry.hash,
  };
}

export function toReceipt({ id, object, organizationId, createdAt }: ReceiptRow): Receipt {
  return { id, deleted: object, organization_id: organizationId, created_at: toTimestamp(createdAt) };
}
