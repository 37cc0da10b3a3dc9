import { sql } from "drizzle-orm";
import { blob, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { Scope } from "../domain/api-key.ts";
import type { AuditAction } from "../domain/audit.ts";
import type { ChunkRegion } from "../domain/chunk.ts";
import type { LedgerKind } from "../domain/credit.ts";
import type { ErrorCode } from "../domain/errors.ts";
import type { ResultCopyFormat } from "../domain/intake.ts";
import type { Metadata } from "../domain/metadata.ts";
import type { Speech } from "../domain/outline.ts";
import type { Reading } from "../domain/reading.ts";
import type { ChunkDoubts, Gap, GapReason, Segment, TranscriptionResult, Warning } from "../domain/result.ts";
import type { Moved, TranscriptionWork } from "../domain/story.ts";
import type {
  ChannelMode,
  Mode,
  Submission,
  Timestamps,
  TranscriptionState,
} from "../domain/transcription.ts";
import type { UploadErrorCode, UploadState } from "../domain/upload.ts";
import type { WatchedFileState } from "../domain/watched-file.ts";
import type { DeliveryState, EventType, SubscribedEventType } from "../domain/webhook.ts";
import type { ActorSource } from "../lib/actor.ts";

/**
 * All tables on one page. Times are epoch milliseconds (`…_at`), durations milliseconds (`…_ms`),
 * money whole paise (`…_paise`). Identifiers sort by time, so that newest first is `id DESC`.
 */

export const organizations = sqliteTable("organizations", {
  id: text("id").primaryKey(),
  name: text("name").notNull(),
  createdAt: integer("created_at").notNull(),
  disabledAt: integer("disabled_at"),
  /** Null: the config's price and limits apply. */
  pricePaisePerAudioHour: integer("price_paise_per_audio_hour"),
  dailySpendLimitPaise: integer("daily_spend_limit_paise"),
  maxQueued: integer("max_queued"),
  requestsPerSecond: integer("requests_per_second"),
  /** 0: no limit. */
  maxStoredBytes: integer("max_stored_bytes"),
  /** Share of turns: an organization with 2 gets twice as many as one with 1. */
  weight: integer("weight").notNull().default(1),
  /** A balance below it is low; null: the config's. */
  lowCreditPaise: integer("low_credit_paise"),
  /** Since when the balance is low. */
  lowCreditAt: integer("low_credit_at"),
  /** Sums over the ledger. The transaction that appends to the ledger changes them. */
  balancePaise: integer("balance_paise").notNull().default(0),
  reservedPaise: integer("reserved_paise").notNull().default(0),
  /** Sum of `space_bytes` over the uploads. Triggers on them change it in the same transaction. */
  storedBytes: integer("stored_bytes").notNull().default(0),
  /** A purge has begun: everything but the accounts is removed, and the organization stays disabled. */
  purgeStartedAt: integer("purge_started_at"),
  purgedAt: integer("purged_at"),
});

export const projects = sqliteTable(
  "projects",
  {
    id: text("id").primaryKey(),
    organizationId: text("organization_id")
      .notNull()
      .references(() => organizations.id),
    name: text("name").notNull(),
    createdAt: integer("created_at").notNull(),
    /** Days for which recordings and transcripts are kept; 0: no limit; null: the config's. */
    audioDays: integer("audio_days"),
    transcriptDays: integer("transcript_days"),
    /** Language code of requests of the OpenAI layer that name none; null: the config's. */
    defaultLanguage: text("default_language"),
  },
  (t) => [index("projects_by_organization").on(t.organizationId)],
);

export const apiKeys = sqliteTable(
  "api_keys",
  {
    id: text("id").primaryKey(),
    projectId: text("project_id")
      .notNull()
      .references(() => projects.id),
    name: text("name").notNull(),
    /** The 24 characters between `shr_` and the secret. A key is found by them. */
    publicId: text("public_id").notNull(),
    /** SHA-256 of the whole key, hex. */
    hash: text("hash").notNull(),
    scopes: text("scopes", { mode: "json" }).$type<Scope[]>().notNull(),
    createdAt: integer("created_at").notNull(),
    lastUsedAt: integer("last_used_at"),
    expiresAt: integer("expires_at"),
    revokedAt: integer("revoked_at"),
  },
  (t) => [uniqueIndex("api_keys_by_public_id").on(t.publicId), index("api_keys_by_project").on(t.projectId)],
);

export const uploads = sqliteTable(
  "uploads",
  {
    id: text("id").primaryKey(),
    organizationId: text("organization_id").notNull(),
    projectId: text("project_id")
      .notNull()
      .references(() => projects.id),
    state: text("state").$type<UploadState>().notNull(),
    /** Declared by the client, exact. */
    bytes: integer("bytes").notNull(),
    /** Declared by the client, lower-case hex. */
    sha256: text("sha256"),
    /** SHA-256 of the upload token, hex. */
    tokenHash: text("token_hash").notNull(),
    createdAt: integer("created_at").notNull(),
    /** When the upload is rejected unless all its bytes have arrived. */
    expiresAt: integer("expires_at").notNull(),
    finishedAt: integer("finished_at"),
    /** Length of the decoded audio; headers do not enter it. */
    durationMs: integer("duration_ms"),
    channels: integer("channels"),
    sampleRateHz: integer("sample_rate_hz"),
    /** The file ends before its header says. */
    truncated: integer("truncated", { mode: "boolean" }).notNull().default(false),
    errorCode: text("error_code").$type<UploadErrorCode>(),
    errorMessage: text("error_message"),
    /** The audio's bytes were removed. */
    deletedAt: integer("deleted_at"),
    /** The key that made the upload; the token ends with it. Null: made by an older version. */
    apiKeyId: text("api_key_id"),
    /** Moves to other states, oldest first; `createdAt` is when it was allocated. */
    history: text("history", { mode: "json" }).$type<Moved<UploadState>[]>().notNull().default([]),
    /** SHA-256 of the stored bytes, found while they were verified; null in rows of older versions. */
    storedSha256: text("stored_sha256"),
    /**
     * Bytes of the disk that the organization has taken for this upload's file: at least those in the file. A trigger
     * sets it to 0 when `deletedAt` is set.
     */
    spaceBytes: integer("space_bytes").notNull().default(0),
    /**
     * How the file is read: until verification as its sender names it, afterwards as it was read then. Null in rows
     * that an older version has verified; use `readingOf`.
     */
    reading: text("reading", { mode: "json" }).$type<Reading>(),
  },
  (t) => [
    index("uploads_open").on(t.organizationId, t.expiresAt).where(sql`state IN ('allocated', 'verifying')`),
    index("uploads_by_project").on(t.projectId, t.id),
    index("uploads_unfinished").on(t.expiresAt).where(sql`state IN ('allocated', 'verifying')`),
    index("uploads_rejected").on(t.finishedAt).where(sql`state = 'rejected'`),
    index("uploads_kept").on(t.projectId, t.finishedAt).where(sql`deleted_at IS NULL`),
  ],
);

export const transcriptions = sqliteTable(
  "transcriptions",
  {
    id: text("id").primaryKey(),
    organizationId: text("organization_id").notNull(),
    projectId: text("project_id")
      .notNull()
      .references(() => projects.id),
    uploadId: text("upload_id")
      .notNull()
      .references(() => uploads.id),
    submission: text("entrance").$type<Submission>().notNull(),
    modelId: text("model_id").notNull(),
    modelVersion: text("model_version").notNull(),
    language: text("language").notNull(),
    mode: text("mode").$type<Mode>().notNull(),
    timestamps: text("timestamps").$type<Timestamps>().notNull(),
    diarization: integer("diarization", { mode: "boolean" }).notNull(),
    minSpeakers: integer("min_speakers"),
    maxSpeakers: integer("max_speakers"),
    channelMode: text("channel_mode").$type<ChannelMode>().notNull(),
    /** Null: the text is in the language that is spoken. */
    task: text("task").$type<"translate">(),
    /** Null: numbers as they were said. */
    numerals: text("numerals").$type<"written">(),
    /** Null: the script of the language. */
    script: text("script"),
    /** What its client notes of it. Triggers repeat it in `transcription_metadata`. */
    metadata: text("metadata", { mode: "json" }).$type<Metadata>(),
    webhookEndpointId: text("webhook_endpoint_id"),
    state: text("state").$type<TranscriptionState>().notNull(),
    createdAt: integer("created_at").notNull(),
    startedAt: integer("started_at"),
    finishedAt: integer("finished_at"),
    contentDeletedAt: integer("content_deleted_at"),
    errorCode: text("error_code").$type<ErrorCode>(),
    errorMessage: text("error_message"),
    /** Length of the recording. */
    durationMs: integer("duration_ms").notNull(),
    channels: integer("channels").notNull(),
    /** Price and reservation, fixed when the transcription was accepted. */
    pricePaisePerAudioHour: integer("price_paise_per_audio_hour").notNull(),
    reservedPaise: integer("reserved_paise").notNull(),
    /** Audio of all channels whose chunks have outcomes. It never decreases. */
    progressMs: integer("progress_ms").notNull().default(0),
    /** Audio, over the recognized channels, whose text a stream has sent. It is charged however the work ends. */
    streamedMs: integer("streamed_ms").notNull().default(0),
    /** Warnings found while the audio was prepared. */
    audioWarnings: text("audio_warnings", { mode: "json" }).$type<Warning[]>(),
    /** Moves to other states, oldest first; `createdAt` is when it was queued. Empty in rows of older versions. */
    history: text("history", { mode: "json" }).$type<Moved<TranscriptionState>[]>().notNull().default([]),
    /** How it was recognized, written with the final state; null: it was not, or by an older version. */
    work: text("work", { mode: "json" }).$type<TranscriptionWork>(),
    /** The failed or cancelled transcription in whose place an admin has started this one. */
    retryOfId: text("retry_of_id"),
    /** SHA-256 of the weights that recognition began with (domain/model-hash.ts); null: it has not begun. */
    modelSha256: text("model_sha256"),
    /**
     * Its recording is fetched from an address. Until that has arrived, the transcription is queued without a length and
     * without a reservation.
     */
    awaitsAudio: integer("awaits_audio", { mode: "boolean" }).notNull().default(false),
  },
  (t) => [
    index("transcriptions_by_project").on(t.projectId, t.id),
    index("transcriptions_by_state").on(t.projectId, t.state, t.id),
    index("transcriptions_unfinished")
      .on(t.organizationId, t.id)
      .where(sql`state IN ('queued', 'preparing', 'transcribing', 'finalizing')`),
    index("transcriptions_queued_by_age")
      .on(t.organizationId, t.projectId, t.id)
      .where(sql`state = 'queued' AND awaits_audio = 0`),
    index("transcriptions_queued_by_work")
      .on(
        t.organizationId,
        t.projectId,
        sql`(duration_ms * CASE channel_mode WHEN 'separate' THEN channels ELSE 1 END)`,
        t.id,
      )
      .where(sql`state = 'queued' AND awaits_audio = 0`),
    index("transcriptions_awaiting")
      .on(t.organizationId, t.id)
      .where(sql`state = 'queued' AND awaits_audio = 1`),
    index("transcriptions_by_upload").on(t.uploadId),
    index("transcriptions_by_retry").on(t.retryOfId).where(sql`retry_of_id IS NOT NULL`),
    index("transcriptions_kept").on(t.projectId, t.finishedAt, t.id).where(sql`content_deleted_at IS NULL`),
  ],
);

/** The metadata of transcriptions, for searches. Only triggers of `transcriptions` write it, so that no path can forget it. */
export const transcriptionMetadata = sqliteTable(
  "transcription_metadata",
  {
    projectId: text("project_id").notNull(),
    name: text("name").notNull(),
    value: text("value").notNull(),
    transcriptionId: text("transcription_id").notNull(),
  },
  (t) => [primaryKey({ columns: [t.projectId, t.name, t.value, t.transcriptionId] })],
);

export const CHUNK_STATES = ["waiting", "done", "failed"] as const;
export type ChunkState = (typeof CHUNK_STATES)[number];

/** The checkpoint: outcomes of chunks survive a stop or crash of the program. */
export const chunks = sqliteTable(
  "chunks",
  {
    transcriptionId: text("transcription_id")
      .notNull()
      .references(() => transcriptions.id),
    position: integer("position").notNull(),
    channel: integer("channel").notNull(),
    startMs: integer("start_ms").notNull(),
    endMs: integer("end_ms").notNull(),
    /** Speech only, milliseconds. */
    speechMs: integer("speech_ms").notNull(),
    regions: text("regions", { mode: "json" }).$type<ChunkRegion[]>().notNull(),
    state: text("state").$type<ChunkState>().notNull(),
    /** Token of the attempt whose outcome counts. Each attempt has a new one. */
    attempt: text("attempt").notNull().default(""),
    /** Attempts that ended in an error or the death of a worker process. */
    failures: integer("failures").notNull().default(0),
    /** How many of the failures ended the worker process. */
    crashes: integer("crashes").notNull().default(0),
    segments: text("segments", { mode: "json" }).$type<Omit<Segment, "index">[]>(),
    warnings: text("warnings", { mode: "json" }).$type<Warning[]>(),
    /** Doubts about a chunk with text; null where an earlier version recognized it. */
    doubts: text("doubts", { mode: "json" }).$type<ChunkDoubts>(),
    gapReason: text("gap_reason").$type<GapReason>(),
  },
  (t) => [primaryKey({ columns: [t.transcriptionId, t.position] })],
);

/** Transcripts. They are apart from the records, so that a transcript can be deleted while the record stays. */
export const results = sqliteTable("results", {
  transcriptionId: text("transcription_id")
    .primaryKey()
    .references(() => transcriptions.id),
  result: text("result", { mode: "json" }).$type<TranscriptionResult>().notNull(),
  createdAt: integer("created_at").notNull(),
});
export type { Gap };

/** Outlines of recordings: the peaks of a waveform, and the decoder's points. They go with the transcript. */
export const outlines = sqliteTable("outlines", {
  transcriptionId: text("transcription_id")
    .primaryKey()
    .references(() => transcriptions.id),
  /** Samples at 16 kHz behind one peak. */
  peakSamples: integer("peak_samples").notNull(),
  lanes: integer("lanes").notNull(),
  /** The lanes one after the other, a byte for each peak. */
  peaks: blob("peaks", { mode: "buffer" }).notNull(),
  points: blob("points", { mode: "buffer" }).notNull(),
  /** Where speech was found. Null: the outline was made without looking for speech. */
  speech: text("speech", { mode: "json" }).$type<Speech>(),
  createdAt: integer("created_at").notNull(),
});

/** Recordings that are fetched from addresses (docs/manual/intake.md). The row goes with the content of its transcription. */
export const fetches = sqliteTable(
  "fetches",
  {
    transcriptionId: text("transcription_id")
      .primaryKey()
      .references(() => transcriptions.id),
    uploadId: text("upload_id")
      .notNull()
      .references(() => uploads.id),
    organizationId: text("organization_id").notNull(),
    /** The address without user and query, which can be secrets. */
    source: text("source").notNull(),
    /** The whole address, sealed (services/sealed-texts.ts); null: an object of a bucket, or not needed any more. */
    sealedAddress: text("sealed_address"),
    /** Size of the file, as the server there says; null: not known. */
    totalBytes: integer("total_bytes"),
    /** What the server there says to name this version of the file: an ETag, or the time of its last change. */
    validator: text("validator"),
    /** Attempts since bytes have arrived last. */
    attempts: integer("attempts").notNull().default(0),
    /** Null: the fetch has ended. */
    nextAttemptAt: integer("next_attempt_at"),
    /** Why the last attempt failed. */
    reason: text("reason"),
    createdAt: integer("created_at").notNull(),
  },
  (t) => [
    index("fetches_due").on(t.organizationId, t.nextAttemptAt).where(sql`next_attempt_at IS NOT NULL`),
    index("fetches_by_upload").on(t.uploadId),
  ],
);

/** Buckets of S3-compatible servers, with the credentials of an organization. */
export const buckets = sqliteTable(
  "buckets",
  {
    organizationId: text("organization_id")
      .notNull()
      .references(() => organizations.id),
    name: text("name").notNull(),
    /** Such as `https://s3.ap-south-1.amazonaws.com`. */
    endpoint: text("endpoint").notNull(),
    region: text("region").notNull(),
    accessKey: text("access_key").notNull(),
    /** The secret access key, sealed (services/sealed-texts.ts). */
    sealedSecret: text("sealed_secret").notNull(),
    /** The admin says that the endpoint is in a private network. */
    isPrivate: integer("is_private", { mode: "boolean" }).notNull().default(false),
    createdAt: integer("created_at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.organizationId, t.name] })],
);

/** Results that are written to a bucket once their transcription has one. */
export const resultCopies = sqliteTable(
  "result_copies",
  {
    transcriptionId: text("transcription_id")
      .primaryKey()
      .references(() => transcriptions.id),
    organizationId: text("organization_id").notNull(),
    /** Such as `s3://bucket/prefix/`. */
    target: text("target").notNull(),
    formats: text("formats", { mode: "json" }).$type<ResultCopyFormat[]>().notNull(),
    attempts: integer("attempts").notNull().default(0),
    /** Null: it has not begun, or it has ended. */
    nextAttemptAt: integer("next_attempt_at"),
    writtenAt: integer("written_at"),
    /** Why the last attempt failed. */
    reason: text("reason"),
  },
  (t) => [
    index("result_copies_due").on(t.organizationId, t.nextAttemptAt).where(sql`next_attempt_at IS NOT NULL`),
  ],
);

/** The ledger: append-only, chained by hash. Triggers refuse UPDATE and DELETE. */
export const ledger = sqliteTable(
  "ledger",
  {
    sequence: integer("sequence").primaryKey(),
    organizationId: text("organization_id")
      .notNull()
      .references(() => organizations.id),
    kind: text("kind").$type<LedgerKind>().notNull(),
    amountPaise: integer("amount_paise").notNull(),
    transcriptionId: text("transcription_id"),
    note: text("note"),
    createdAt: integer("created_at").notNull(),
    previousHash: text("previous_hash").notNull(),
    hash: text("hash").notNull(),
  },
  (t) => [
    index("ledger_by_organization").on(t.organizationId, t.sequence),
    uniqueIndex("ledger_once").on(t.transcriptionId, t.kind).where(sql`transcription_id IS NOT NULL`),
  ],
);

/** The audit log: append-only, chained by hash. Triggers refuse UPDATE and DELETE. */
export const auditLog = sqliteTable(
  "audit_log",
  {
    sequence: integer("sequence").primaryKey(),
    createdAt: integer("created_at").notNull(),
    source: text("source").$type<ActorSource>().notNull(),
    actor: text("actor").notNull(),
    via: text("via"),
    action: text("action").$type<AuditAction>().notNull(),
    object: text("object"),
    organizationId: text("organization_id"),
    /** JSON texts of small values. They are hashed as they are, so they are not parsed here. */
    before: text("before"),
    after: text("after"),
    previousHash: text("previous_hash").notNull(),
    hash: text("hash").notNull(),
  },
  (t) => [
    index("audit_log_by_object").on(t.object, t.sequence),
    index("audit_log_by_organization").on(t.organizationId, t.sequence),
  ],
);

/** One event for each finished transcription, whether it was free or not. */
export const usageEvents = sqliteTable(
  "usage_events",
  {
    id: text("id").primaryKey(),
    organizationId: text("organization_id").notNull(),
    projectId: text("project_id").notNull(),
    transcriptionId: text("transcription_id").notNull(),
    modelId: text("model_id").notNull(),
    state: text("state").$type<TranscriptionState>().notNull(),
    audioMs: integer("audio_ms").notNull(),
    billedMs: integer("billed_ms").notNull(),
    channels: integer("channels").notNull(),
    amountPaise: integer("amount_paise").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (t) => [
    index("usage_events_by_project").on(t.projectId, t.id),
    index("usage_events_by_organization").on(t.organizationId, t.id),
    uniqueIndex("usage_events_once").on(t.transcriptionId),
  ],
);

/** Charges of an organization by calendar day of the billing time zone. */
export const dailyCharges = sqliteTable(
  "daily_charges",
  {
    organizationId: text("organization_id").notNull(),
    /** Such as `2026-11-21`. */
    day: text("day").notNull(),
    chargedPaise: integer("charged_paise").notNull(),
  },
  (t) => [primaryKey({ columns: [t.organizationId, t.day] })],
);

export const webhookEndpoints = sqliteTable(
  "webhook_endpoints",
  {
    id: text("id").primaryKey(),
    projectId: text("project_id")
      .notNull()
      .references(() => projects.id),
    organizationId: text("organization_id").notNull(),
    url: text("url").notNull(),
    /** `whsec_…`, in plain text, because it signs each delivery. */
    secret: text("secret").notNull(),
    /** Valid beside the new one during a rotation. */
    previousSecret: text("previous_secret"),
    previousSecretExpiresAt: integer("previous_secret_expires_at"),
    createdAt: integer("created_at").notNull(),
    disabledAt: integer("disabled_at"),
    disabledReason: text("disabled_reason"),
    removedAt: integer("removed_at"),
    /** Events that it receives beside those of the transcriptions that name it. */
    events: text("events", { mode: "json" }).$type<SubscribedEventType[]>().notNull().default([]),
  },
  (t) => [
    index("webhook_endpoints_by_project").on(t.projectId, t.id),
    index("webhook_endpoints_removed").on(t.removedAt).where(sql`removed_at IS NOT NULL`),
    index("webhook_endpoints_subscribed").on(t.organizationId).where(sql`events <> '[]'`),
  ],
);

/** Events. The transaction of what an event reports writes it with its one delivery. */
export const events = sqliteTable(
  "events",
  {
    id: text("id").primaryKey(),
    /** Null: the event is not about a transcription. */
    transcriptionId: text("transcription_id"),
    endpointId: text("endpoint_id")
      .notNull()
      .references(() => webhookEndpoints.id),
    type: text("type").$type<EventType>().notNull(),
    /** The exact bytes that are signed and sent. */
    body: text("body").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (t) => [index("events_by_endpoint").on(t.endpointId, t.id)],
);

export const deliveries = sqliteTable(
  "deliveries",
  {
    eventId: text("event_id")
      .primaryKey()
      .references(() => events.id, { onDelete: "cascade" }),
    endpointId: text("endpoint_id").notNull(),
    state: text("state").$type<DeliveryState>().notNull(),
    attempts: integer("attempts").notNull().default(0),
    nextAttemptAt: integer("next_attempt_at"),
    deliveredAt: integer("delivered_at"),
    failedAt: integer("failed_at"),
  },
  (t) => [
    /** The endpoint comes first, so that due deliveries of one are found without reading another's backlog. */
    index("deliveries_due").on(t.endpointId, t.nextAttemptAt, t.eventId).where(sql`state = 'pending'`),
    index("deliveries_by_endpoint").on(t.endpointId, t.eventId),
    index("deliveries_failed").on(t.endpointId).where(sql`state = 'failed'`),
  ],
);

export const deliveryAttempts = sqliteTable(
  "delivery_attempts",
  {
    id: integer("id").primaryKey({ autoIncrement: true }),
    eventId: text("event_id")
      .notNull()
      .references(() => events.id, { onDelete: "cascade" }),
    startedAt: integer("started_at").notNull(),
    durationMs: integer("duration_ms").notNull(),
    /** HTTP status; null without an answer. */
    status: integer("status"),
    /** Why the attempt failed, so that an admin can act on it. */
    error: text("error"),
  },
  (t) => [index("delivery_attempts_by_event").on(t.eventId)],
);

/** Transcriptions that were accepted under idempotency keys (docs/decisions/idempotency.md). */
export const idempotencyKeys = sqliteTable(
  "idempotency_keys",
  {
    projectId: text("project_id").notNull(),
    submission: text("entrance").$type<Submission>().notNull(),
    key: text("key").notNull(),
    /** Identity of the request: `hashRequest` in services/transcriptions/acceptance.ts. */
    requestHash: text("request_hash").notNull(),
    transcriptionId: text("transcription_id").notNull(),
    createdAt: integer("created_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.projectId, t.submission, t.key] }),
    index("idempotency_keys_by_expiry").on(t.expiresAt),
  ],
);

/** Links and sessions of admins in the console, as hashes. */
export const consoleSecrets = sqliteTable("console_secrets", {
  /** SHA-256, hex. */
  hash: text("hash").primaryKey(),
  kind: text("kind").$type<"link" | "session">().notNull(),
  /** The user who asked for the link. */
  madeBy: text("made_by").notNull(),
  createdAt: integer("created_at").notNull(),
  expiresAt: integer("expires_at").notNull(),
});

/** Receipts of deletions. Each is written in the transaction of its deletion. */
export const receipts = sqliteTable(
  "receipts",
  {
    id: text("id").primaryKey(),
    /** Identifier of what was deleted. */
    object: text("object").notNull(),
    organizationId: text("organization_id").notNull(),
    createdAt: integer("created_at").notNull(),
    /** The signed document, JSON. */
    signed: text("signed").notNull(),
    /** When it was written into the file beside the database, which a restored database reads. */
    mirroredAt: integer("mirrored_at"),
  },
  (t) => [
    index("receipts_by_object").on(t.object),
    index("receipts_by_organization").on(t.organizationId, t.id),
    index("receipts_to_mirror").on(t.id).where(sql`mirrored_at IS NULL`),
  ],
);

/** Files of watched folders that were taken (docs/manual/intake.md), also those that are done: a file is taken once. */
export const watchedFiles = sqliteTable(
  "watched_files",
  {
    number: integer("number").primaryKey({ autoIncrement: true }),
    /** Absolute path of the folder. */
    folder: text("folder").notNull(),
    /** Path of the file below the folder. */
    name: text("name").notNull(),
    bytes: integer("bytes").notNull(),
    /** When the file was changed, as the file system says, microseconds since 1970. */
    changedUs: integer("changed_us").notNull(),
    /** Device and number of the folder when the file was taken: another one means that something else is mounted. */
    device: text("device").notNull(),
    /** SHA-256 of the bytes that were read; null before that. */
    sha256: text("sha256"),
    projectId: text("project_id").notNull(),
    organizationId: text("organization_id").notNull(),
    state: text("state").$type<WatchedFileState>().notNull(),
    uploadId: text("upload_id"),
    transcriptionId: text("transcription_id"),
    /** Path of the results below their folder, without the extension of a format; set before they are written. */
    resultName: text("result_name"),
    /** Where the file is moved to, or an empty text where it is deleted; set before that happens. */
    movedTo: text("moved_to"),
    /** Why it failed. */
    reason: text("reason"),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (t) => [
    uniqueIndex("watched_files_identity").on(t.folder, t.name, t.bytes, t.changedUs),
    index("watched_files_unfinished").on(t.number).where(sql`state NOT IN ('done', 'failed')`),
    index("watched_files_failed").on(t.folder, t.number).where(sql`state = 'failed'`),
    index("watched_files_by_result").on(t.folder, t.resultName).where(sql`result_name IS NOT NULL`),
    index("watched_files_by_organization").on(t.organizationId, t.number),
  ],
);

/** Choices that an admin makes at run time, such as the default model. */
export const settings = sqliteTable("settings", {
  name: text("name").primaryKey(),
  value: text("value", { mode: "json" }).$type<unknown>().notNull(),
  updatedAt: integer("updated_at").notNull(),
});
