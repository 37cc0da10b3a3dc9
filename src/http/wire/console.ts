import { type Static, type TProperties, type TSchema, Type } from "@sinclair/typebox";
import { SCOPES } from "../../domain/api-key.ts";
import { AUDIT_ACTIONS } from "../../domain/audit.ts";
import { LEDGER_KINDS } from "../../domain/credit.ts";
import { ERROR_CODES } from "../../domain/errors.ts";
import {
  CHANNEL_MODES,
  MODES,
  NUMERALS,
  SUBMISSIONS,
  TASKS,
  TIMESTAMPS,
  TRANSCRIPTION_STATES,
} from "../../domain/transcription.ts";
import { TRIAL_VERDICTS } from "../../domain/trial.ts";
import { UPLOAD_STATES } from "../../domain/upload.ts";
import { ALL_EVENT_TYPES, DELIVERY_STATES, SUBSCRIBED_EVENT_TYPES } from "../../domain/webhook.ts";
import { ACTOR_SOURCES } from "../../lib/actor.ts";
import { ReadingDocument } from "../../services/signed/evidence.ts";
import { Model, oneOf } from "./schemas.ts";

/**
 * Requests and answers of the console's admin part, `/console/api/…` (docs/console.md section 4). They are in the style of the
 * interface: all objects are closed, times are RFC 3339, money is whole paise. The page imports the types only. The rows
 * have the same shapes in the `--json` of commands.
 */

const closed = <T extends TProperties>(properties: T) =>
  Type.Object(properties, { additionalProperties: false });
const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const list = <T extends TSchema>(item: T) =>
  closed({
    object: Type.Literal("list"),
    data: Type.Array(item),
    /** Pass it as `after` to get the next page; null: this is the last one. */
    next: nullable(Type.String()),
  });

const text = Type.String();
const id = Type.String({ minLength: 1, maxLength: 64 });
const time = Type.String();
const count = Type.Integer({ minimum: 0 });
const paise = Type.Integer();
const number = Type.Number();
const name = Type.String({ minLength: 1, maxLength: 200 });

// —— Session ——

/** The text after `#admin=` of the link that `shruti console` prints. */
export const SessionCreate = closed({ token: Type.String({ minLength: 1, maxLength: 128 }) });
export type SessionCreate = Static<typeof SessionCreate>;

export const Session = closed({
  object: Type.Literal("console.session"),
  /** Every request that changes something carries this as `x-csrf-token`. */
  csrf_token: text,
  expires_at: time,
});
export type Session = Static<typeof Session>;

export const SessionEnded = closed({ object: Type.Literal("console.session"), ended: Type.Literal(true) });
export type SessionEnded = Static<typeof SessionEnded>;

// —— Overview and series ——

const QueueOfOrganization = closed({
  organization_id: id,
  name: text,
  queued: count,
  preparing: count,
  transcribing: count,
  finalizing: count,
  /** What is left to recognize, over all channels. */
  remaining_seconds: number,
});
export type QueueOfOrganization = Static<typeof QueueOfOrganization>;

const ModelProcess = closed({
  id: text,
  state: oneOf(["stopped", "starting", "ready", "backoff"]),
  /** Where it runs, such as `cpu` or the name of a GPU. */
  device: Type.Optional(text),
  /** Why a GPU is not used. */
  gpu_failure: Type.Optional(text),
  pid: Type.Optional(count),
  restarts: count,
  running: count,
  problem: Type.Optional(text),
  /** The model that drafts for it, what it has written since the start, and why it is not used. */
  draft: Type.Optional(
    closed({ id: text, drafted_tokens: count, accepted_tokens: count, problem: Type.Optional(text) }),
  ),
});
export type ModelProcess = Static<typeof ModelProcess>;

export const Overview = closed({
  object: Type.Literal("console.overview"),
  version: text,
  started_at: time,
  /** The server's clock. */
  now: time,
  ready: Type.Boolean(),
  /** Why the server cannot take work; for people. */
  reasons: Type.Array(text),
  queue: closed({
    /** Organizations with unfinished work, the one with most first; at most 100. */
    organizations: Type.Array(QueueOfOrganization),
    queued: count,
    running: count,
    empty_in_seconds: count,
  }),
  workers: closed({ places: count, busy: count, chunks_waiting: count }),
  /** Length of recordings transcribed per time by the whole machine; null before the first chunk. */
  real_time_factor: nullable(number),
  /** In doubt, nothing is removed because of its age. `expected` is what the clock should say. */
  clock: closed({ trusted: Type.Boolean(), expected: time }),
  models: Type.Array(ModelProcess),
  /** Worker processes that ended unexpectedly since the start. */
  restarts: count,
  decoders: closed({ places: count, busy: count, waiting: count }),
  disk: closed({
    free_bytes: count,
    total_bytes: count,
    /** `storage.reserve_bytes`: below it the server takes no new uploads. */
    reserve_bytes: count,
    database_bytes: count,
  }),
  memory: closed({
    /** Resident memory of the server's own process. */
    server_bytes: count,
    total_bytes: count,
    available_bytes: count,
  }),
  webhooks: closed({
    pending: count,
    paused: count,
    failed_since_start: count,
    oldest_undelivered_seconds: number,
  }),
});
export type Overview = Static<typeof Overview>;

export const SPANS = ["hour", "day"] as const;
export const SeriesQuery = closed({ span: Type.Optional(oneOf(SPANS)) });
export type SeriesQuery = Static<typeof SeriesQuery>;

const values = Type.Array(nullable(number));
/** Columns of equal length for a chart; null: the server did not run then, or there was nothing to measure. */
export const Series = closed({
  object: Type.Literal("console.series"),
  span: oneOf(SPANS),
  step_seconds: count,
  /** Ends of the steps, Unix seconds, oldest first. */
  at: Type.Array(number),
  /** Highest in the step. */
  queued: values,
  /** Mean share of the places that were busy, 0 to 1. */
  busy: values,
  /** Seconds of recordings transcribed per second of the step. */
  real_time_factor: values,
  /** Transcriptions that ended in the step. */
  finished: values,
  failed: values,
  /** Requests answered in the step, and those of them with a status of 500 or more. */
  requests: values,
  server_errors: values,
  server_memory_bytes: values,
  disk_free_bytes: values,
});
export type Series = Static<typeof Series>;

// —— Organizations, credit, usage ——

const credit = closed({ balance_paise: paise, reserved_paise: paise, available_paise: paise });

export const Organization = closed({
  id,
  object: Type.Literal("organization"),
  name: text,
  disabled: Type.Boolean(),
  disabled_at: nullable(time),
  purged_at: nullable(time),
  /** Null: the config's value, which is beside it as `effective`. */
  price_paise_per_audio_hour: nullable(paise),
  daily_spend_limit_paise: nullable(paise),
  max_queued: nullable(count),
  requests_per_second: nullable(count),
  max_stored_bytes: nullable(count),
  low_credit_paise: nullable(paise),
  weight: count,
  effective: closed({
    price_paise_per_audio_hour: paise,
    /** 0: no limit. */
    daily_spend_limit_paise: paise,
    max_queued: count,
    requests_per_second: count,
    /** 0: no limit. It is lower while the organization has no credit. */
    max_stored_bytes: count,
    low_credit_paise: paise,
  }),
  /** Recordings that it keeps, unfinished uploads included. */
  stored_bytes: count,
  credit,
  created_at: time,
});
export type Organization = Static<typeof Organization>;
export const OrganizationList = list(Organization);
export type OrganizationList = Static<typeof OrganizationList>;

const setting = Type.Optional(nullable(Type.Integer()));
export const OrganizationCreate = closed({
  name,
  price_paise_per_audio_hour: setting,
  daily_spend_limit_paise: setting,
  max_queued: setting,
  requests_per_second: setting,
  max_stored_bytes: setting,
  weight: Type.Optional(Type.Integer()),
});
export type OrganizationCreate = Static<typeof OrganizationCreate>;
/** The fields that change; null returns a setting to the config's value. */
export const OrganizationChange = closed({
  ...OrganizationCreate.properties,
  name: Type.Optional(name),
});
export type OrganizationChange = Static<typeof OrganizationChange>;

export const GrantCreate = closed({
  /** Negative: a mistaken grant is taken back, and the note is required. */
  amount_paise: Type.Integer(),
  note: Type.Optional(Type.String({ maxLength: 500 })),
});
export type GrantCreate = Static<typeof GrantCreate>;

export const LedgerEntry = closed({
  sequence: count,
  object: Type.Literal("ledger_entry"),
  organization_id: id,
  kind: oneOf(LEDGER_KINDS),
  amount_paise: paise,
  transcription_id: nullable(id),
  note: nullable(text),
  created_at: time,
  /** Each entry has the hash of the one before it. */
  previous_hash: text,
  hash: text,
});
export type LedgerEntry = Static<typeof LedgerEntry>;
export const Granted = closed({ object: Type.Literal("grant"), entry: LedgerEntry, credit });
export type Granted = Static<typeof Granted>;
/** `next` is a sequence number as text. */
export const LedgerList = list(LedgerEntry);
export type LedgerList = Static<typeof LedgerList>;

const day = Type.String({ pattern: "^\\d{4}-\\d{2}-\\d{2}$" });
/** Days of `billing.timezone`, both included; without them the last 30 days. At most 366 days. */
export const UsageQuery = closed({ from: Type.Optional(day), to: Type.Optional(day) });
export type UsageQuery = Static<typeof UsageQuery>;
export const UsageDays = closed({
  object: Type.Literal("console.usage"),
  currency: Type.Literal("INR"),
  timezone: text,
  /** Each day of the range, oldest first, days without usage too. */
  days: Type.Array(
    closed({
      day,
      transcriptions: count,
      audio_seconds: number,
      billed_seconds: number,
      amount_paise: paise,
    }),
  ),
});
export type UsageDays = Static<typeof UsageDays>;

// —— Projects and keys ——

export const Project = closed({
  id,
  object: Type.Literal("project"),
  organization_id: id,
  name: text,
  created_at: time,
  /** Days for which recordings and transcripts are kept, and the language of requests that name none; null: the config's. */
  audio_days: nullable(count),
  transcript_days: nullable(count),
  default_language: nullable(text),
});
export type Project = Static<typeof Project>;
export const ProjectList = list(Project);
export type ProjectList = Static<typeof ProjectList>;
export const ProjectQuery = closed({ organization_id: Type.Optional(id) });
export type ProjectQuery = Static<typeof ProjectQuery>;
export const ProjectCreate = closed({ organization_id: id, name });
export type ProjectCreate = Static<typeof ProjectCreate>;

export const Key = closed({
  id,
  object: Type.Literal("api_key"),
  organization_id: id,
  project_id: id,
  name: text,
  /** The beginning of the key; no part of its secret. */
  hint: text,
  scopes: Type.Array(oneOf(SCOPES)),
  state: oneOf(["active", "expired", "revoked", "held"]),
  created_at: time,
  last_used_at: nullable(time),
  expires_at: nullable(time),
  revoked_at: nullable(time),
});
export type Key = Static<typeof Key>;
export const KeyList = list(Key);
export type KeyList = Static<typeof KeyList>;
export const KeyQuery = closed({ organization_id: Type.Optional(id), project_id: Type.Optional(id) });
export type KeyQuery = Static<typeof KeyQuery>;
export const KeyCreate = closed({
  project_id: id,
  name,
  /** Left out: all scopes. */
  scopes: Type.Optional(Type.Array(oneOf(SCOPES), { maxItems: 32 })),
  /** RFC 3339; left out: the key does not expire. */
  expires_at: Type.Optional(Type.String({ maxLength: 40 })),
});
export type KeyCreate = Static<typeof KeyCreate>;
/** The only answer that has the key itself. */
export const KeyCreated = closed({ ...Key.properties, key: text });
export type KeyCreated = Static<typeof KeyCreated>;

// —— Models ——

export const ConsoleModel = closed({
  id: text,
  object: Type.Literal("model"),
  name: text,
  version: text,
  default: Type.Boolean(),
  default_languages: Type.Array(text),
  languages: Type.Array(closed({ code: text, name: text, modes: Type.Array(oneOf(MODES)) })),
  family: text,
  bytes: count,
  licence: text,
  source: text,
  notice: Type.Optional(text),
});
export type ConsoleModel = Static<typeof ConsoleModel>;
/** A model in the `--json` of commands: also what it can do, and its files. */
export const InstalledModelRow = closed({
  ...ConsoleModel.properties,
  languages: Type.Array(
    closed({
      ...ConsoleModel.properties.languages.items.properties,
      /** What the trial has found when the model was added; left out: it was not tried in this language. */
      trial: Type.Optional(oneOf(TRIAL_VERDICTS)),
    }),
  ),
  capabilities: Model.properties.capabilities,
  diarization: Model.properties.diarization,
  /** It is in the executable. */
  embedded: Type.Boolean(),
  engine: text,
  path: text,
  sha256: text,
});
export type InstalledModelRow = Static<typeof InstalledModelRow>;
export const ConsoleModelList = closed({
  ...list(ConsoleModel).properties,
  /** Why files of the models' directory are left out, and choices that cannot be followed; for people. */
  problems: Type.Array(text),
});
export type ConsoleModelList = Static<typeof ConsoleModelList>;

// —— Webhooks ——

export const ConsoleEndpoint = closed({
  id,
  object: Type.Literal("webhook_endpoint"),
  organization_id: id,
  project_id: id,
  url: text,
  state: oneOf(["enabled", "disabled"]),
  disabled_at: nullable(time),
  disabled_reason: nullable(text),
  previous_secret_expires_at: nullable(time),
  created_at: time,
  /** What it receives beside the events of transcriptions that name it. */
  events: Type.Array(oneOf(SUBSCRIBED_EVENT_TYPES)),
  /** Events that wait, and events that were given up. */
  pending: count,
  failed: count,
});
export type ConsoleEndpoint = Static<typeof ConsoleEndpoint>;
export const ConsoleEndpointList = list(ConsoleEndpoint);
export type ConsoleEndpointList = Static<typeof ConsoleEndpointList>;
export const EndpointQuery = closed({ project_id: Type.Optional(id) });
export type EndpointQuery = Static<typeof EndpointQuery>;

export const Delivery = closed({
  event_id: id,
  object: Type.Literal("webhook_delivery"),
  endpoint_id: id,
  /** Null: the event is not about a transcription. */
  transcription_id: nullable(id),
  type: oneOf(ALL_EVENT_TYPES),
  state: oneOf(DELIVERY_STATES),
  attempts: count,
  /** Why it has not arrived. */
  reason: nullable(text),
  last_status: nullable(count),
  created_at: time,
  next_attempt_at: nullable(time),
  delivered_at: nullable(time),
  failed_at: nullable(time),
});
export type Delivery = Static<typeof Delivery>;
export const DeliveryList = list(Delivery);
export type DeliveryList = Static<typeof DeliveryList>;
const page = {
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
  after: Type.Optional(id),
};
export const PageQuery = closed(page);
export const DeliveryQuery = closed({
  ...page,
  endpoint_id: Type.Optional(id),
  state: Type.Optional(oneOf(DELIVERY_STATES)),
});
export type DeliveryQuery = Static<typeof DeliveryQuery>;
export type PageQuery = Static<typeof PageQuery>;
export const Redelivered = closed({ object: Type.Literal("console.redelivery"), events: count });
export type Redelivered = Static<typeof Redelivered>;

// —— Transcriptions ——

/** A transcription of any project, without its transcript. */
export const AdminTranscription = closed({
  id,
  object: Type.Literal("transcription"),
  organization_id: id,
  project_id: id,
  upload_id: id,
  entrance: oneOf(SUBMISSIONS),
  model: text,
  version: text,
  state: oneOf(TRANSCRIPTION_STATES),
  language: text,
  task: oneOf(TASKS),
  mode: oneOf(MODES),
  timestamps: oneOf(TIMESTAMPS),
  numerals: oneOf(NUMERALS),
  /** `native`, or the code of another script. */
  script: text,
  /** Left out: none. */
  metadata: Type.Optional(Type.Record(Type.String(), Type.String())),
  diarization: Type.Boolean(),
  channel_mode: oneOf(CHANNEL_MODES),
  duration_seconds: number,
  channels: count,
  progress: number,
  reserved_paise: paise,
  created_at: time,
  started_at: nullable(time),
  finished_at: nullable(time),
  content_deleted_at: nullable(time),
  error: nullable(closed({ code: oneOf(ERROR_CODES), message: text })),
});
export type AdminTranscription = Static<typeof AdminTranscription>;
export const AdminTranscriptionList = list(AdminTranscription);
export type AdminTranscriptionList = Static<typeof AdminTranscriptionList>;
export const AdminTranscriptionQuery = closed({
  ...page,
  project_id: Type.Optional(id),
  /** States, separated by commas. */
  state: Type.Optional(Type.String({ maxLength: 100 })),
});
export type AdminTranscriptionQuery = Static<typeof AdminTranscriptionQuery>;

// —— What only commands show ——

/** An upload of any project. */
export const AdminUpload = closed({
  id,
  organization_id: id,
  project_id: id,
  key_id: nullable(id),
  state: oneOf(UPLOAD_STATES),
  bytes: count,
  sha256: nullable(text),
  duration_seconds: nullable(number),
  channels: nullable(count),
  sample_rate_hz: nullable(count),
  truncated: nullable(Type.Boolean()),
  reading: nullable(ReadingDocument),
  created_at: time,
  expires_at: time,
  finished_at: nullable(time),
  deleted_at: nullable(time),
  error: nullable(closed({ code: oneOf(ERROR_CODES), message: text })),
});
export type AdminUpload = Static<typeof AdminUpload>;

/** Small values of an object before or after an act. */
const actValues = nullable(
  Type.Record(Type.String(), Type.Union([text, number, Type.Boolean(), Type.Null()])),
);
export const AuditEntry = closed({
  entry: count,
  created_at: time,
  source: oneOf(ACTOR_SOURCES),
  actor: text,
  via: nullable(text),
  action: oneOf(AUDIT_ACTIONS),
  object: nullable(text),
  organization_id: nullable(id),
  before: actValues,
  after: actValues,
  previous_hash: text,
  hash: text,
});
export type AuditEntry = Static<typeof AuditEntry>;

/** What is known of a receipt without reading it. */
export const Receipt = closed({ id, deleted: id, organization_id: id, created_at: time });
export type Receipt = Static<typeof Receipt>;
