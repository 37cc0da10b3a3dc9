import type { Page } from "playwright-core";
import { VIEWS } from "../../console/lib/admin-views.ts";
import type {
  AdminTranscriptionList,
  ConsoleEndpointList,
  ConsoleModelList,
  DeliveryList,
  KeyList,
  LedgerList,
  Organization,
  Overview,
  ProjectList,
  Series,
  Session,
  UsageDays,
} from "../../http/wire/console.ts";

/** The admin's answers of a busy appliance, for pictures: a new installation has nothing to show. */

const NOW = "2026-11-22T10:00:00.000Z";
const ORGANIZATION_ID = "org_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C";
const PROJECT_ID = "prj_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C";

const wave = (count: number, at: (index: number) => number) =>
  Array.from({ length: count }, (_, index) => at(index));

const SESSION: Session = {
  object: "console.session",
  csrf_token: "made",
  expires_at: "2026-11-22T21:30:00.000Z",
};

const OVERVIEW: Overview = {
  object: "console.overview",
  version: "0.1.0",
  started_at: "2026-11-19T04:10:00.000Z",
  now: NOW,
  ready: true,
  reasons: [],
  queue: {
    organizations: [
      {
        ...{ organization_id: ORGANIZATION_ID, name: "District hospital", queued: 14, preparing: 1 },
        ...{ transcribing: 3, finalizing: 0, remaining_seconds: 31_250 },
      },
      {
        ...{ organization_id: "org_01KAJ5M0X2V7Q4N8R6T3Y9ZB1D", name: "Newsroom", queued: 2, preparing: 0 },
        ...{ transcribing: 1, finalizing: 0, remaining_seconds: 2_880 },
      },
    ],
    queued: 16,
    running: 5,
    empty_in_seconds: 2_640,
  },
  workers: { places: 8, busy: 7, chunks_waiting: 112 },
  real_time_factor: 12.9,
  clock: { trusted: true, expected: NOW },
  models: [
    { id: "large-v3-q5_0", state: "ready", device: "cpu", pid: 2211, restarts: 0, running: 7 },
    { id: "indicconformer", state: "stopped", device: "cpu", restarts: 1, running: 0 },
  ],
  restarts: 1,
  decoders: { places: 4, busy: 1, waiting: 0 },
  disk: { free_bytes: 412e9, total_bytes: 960e9, reserve_bytes: 1_073_741_824, database_bytes: 184e6 },
  memory: { server_bytes: 312e6, total_bytes: 64e9, available_bytes: 41e9 },
  webhooks: { pending: 3, paused: 0, failed_since_start: 2, oldest_undelivered_seconds: 12 },
};

const STEPS = 60;
const SERIES: Series = {
  object: "console.series",
  span: "hour",
  step_seconds: 60,
  at: wave(STEPS, (index) => Date.parse(NOW) / 1000 - (STEPS - index) * 60),
  queued: wave(STEPS, (index) => Math.round(14 + 8 * Math.sin(index / 9))),
  busy: wave(STEPS, (index) => Math.min(1, 0.8 + 0.25 * Math.sin(index / 7))),
  real_time_factor: wave(STEPS, (index) => 12 + 2 * Math.sin(index / 5)),
  finished: wave(STEPS, (index) => Math.round(3 + 2 * Math.sin(index / 3))),
  failed: wave(STEPS, (index) => (index === 31 ? 1 : 0)),
  requests: wave(STEPS, (index) => Math.round(160 + 60 * Math.sin(index / 11))),
  server_errors: wave(STEPS, () => 0),
  server_memory_bytes: wave(STEPS, (index) => 300e6 + 12e6 * Math.sin(index / 8)),
  disk_free_bytes: wave(STEPS, (index) => 414e9 - index * 3e7),
};

const ORGANIZATION: Organization = {
  id: ORGANIZATION_ID,
  object: "organization",
  name: "District hospital",
  disabled: false,
  disabled_at: null,
  purged_at: null,
  price_paise_per_audio_hour: 2500,
  daily_spend_limit_paise: null,
  max_queued: null,
  requests_per_second: null,
  max_stored_bytes: null,
  low_credit_paise: null,
  weight: 2,
  effective: {
    price_paise_per_audio_hour: 2500,
    daily_spend_limit_paise: 0,
    max_queued: 1000,
    requests_per_second: 50,
    max_stored_bytes: 720e9,
    low_credit_paise: 0,
  },
  stored_bytes: 61e9,
  credit: { balance_paise: 12_345_650, reserved_paise: 21_700, available_paise: 12_323_950 },
  created_at: "2026-10-02T04:00:00.000Z",
};

const LEDGER: LedgerList = {
  object: "list",
  next: null,
  data: [
    {
      ...{ sequence: 812, object: "ledger_entry", kind: "charge", amount_paise: 1_420 },
      ...{ transcription_id: "tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C", note: null, created_at: NOW },
      ...{ organization_id: ORGANIZATION_ID, previous_hash: "1".repeat(64), hash: "2".repeat(64) },
    },
    {
      ...{
        sequence: 640,
        object: "ledger_entry",
        kind: "grant",
        amount_paise: 5_000_000,
        transcription_id: null,
      },
      ...{ note: "November", created_at: "2026-11-01T05:00:00.000Z" },
      ...{ organization_id: ORGANIZATION_ID, previous_hash: "3".repeat(64), hash: "4".repeat(64) },
    },
  ],
};

const DAY_MS = 86_400_000;
const USAGE: UsageDays = {
  object: "console.usage",
  currency: "INR",
  timezone: "Asia/Kolkata",
  days: wave(30, (index) => index).map((index) => {
    const seconds = Math.round(20_000 + 9_000 * Math.sin(index) + (index % 7 > 4 ? -8_000 : 0));
    return {
      day: new Date(Date.parse(NOW) - (29 - index) * DAY_MS).toISOString().slice(0, 10),
      transcriptions: Math.round(seconds / 900),
      audio_seconds: seconds,
      billed_seconds: seconds,
      amount_paise: Math.round((seconds * 2500) / 3600),
    };
  }),
};

const SCOPES: KeyList["data"][number]["scopes"] = [
  ...(["transcriptions:read", "transcriptions:write", "uploads:write"] as const),
  ...(["models:read", "usage:read", "webhooks:write"] as const),
];
const KEYS: KeyList = {
  object: "list",
  next: null,
  data: [
    {
      ...{ id: "key_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C", object: "api_key", organization_id: ORGANIZATION_ID },
      ...{ project_id: PROJECT_ID, name: "recorder", hint: "shr_VSpWcj…", scopes: SCOPES, state: "active" },
      ...{ created_at: "2026-10-02T04:00:00.000Z", last_used_at: NOW, expires_at: null, revoked_at: null },
    },
  ],
};
const PROJECTS: ProjectList = {
  object: "list",
  next: null,
  data: [
    {
      ...{ id: PROJECT_ID, object: "project", organization_id: ORGANIZATION_ID, name: "outpatients" },
      ...{ audio_days: null, transcript_days: null, default_language: null },
      created_at: "2026-10-02T04:00:00.000Z",
    },
  ],
};

const MODELS: ConsoleModelList = {
  object: "list",
  next: null,
  problems: ["old.bin has no manifest, old.toml"],
  data: [
    {
      ...{
        id: "large-v3-q5_0",
        object: "model",
        name: "Whisper large v3",
        version: "d75795ecff3f",
        default: true,
      },
      default_languages: [],
      languages: [{ code: "hi", name: "Hindi", modes: ["native"] }],
      ...{ family: "whisper", bytes: 1_081_140_203, licence: "MIT", source: "OpenAI" },
    },
  ],
};

const ENDPOINTS: ConsoleEndpointList = {
  object: "list",
  next: null,
  data: [
    {
      ...{
        id: "whe_01KAJ5KZQ8D3F5G7H9J1K3M5N7",
        object: "webhook_endpoint",
        organization_id: ORGANIZATION_ID,
      },
      ...{ project_id: PROJECT_ID, url: "https://records.example/transcripts", state: "enabled" },
      ...{ created_at: "2026-10-02T04:00:00.000Z", pending: 1, failed: 1 },
      ...{ disabled_at: null, disabled_reason: null, previous_secret_expires_at: null },
      events: ["credit.low"],
    },
  ],
};
const DELIVERIES: DeliveryList = {
  object: "list",
  next: null,
  data: [
    {
      ...{
        event_id: "evt_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C",
        object: "webhook_delivery",
        endpoint_id: "whe_01KAJ5KZQ8D3F5G7H9J1K3M5N7",
      },
      ...{
        transcription_id: "tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C",
        type: "transcription.completed",
        state: "failed",
      },
      ...{ attempts: 10, reason: "status", last_status: 500, created_at: "2026-11-18T08:00:00.000Z" },
      ...{ next_attempt_at: null, delivered_at: null, failed_at: NOW },
    },
  ],
};

const TRANSCRIPTIONS: AdminTranscriptionList = {
  object: "list",
  next: null,
  data: (["transcribing", "completed", "failed"] as const).map((state, index) => ({
    ...{ id: `tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB${10 + index}`, object: "transcription" as const },
    ...{
      organization_id: ORGANIZATION_ID,
      project_id: PROJECT_ID,
      model: "large-v3-q5_0",
      version: "1",
      state,
    },
    ...{ upload_id: "up_01KAJ5KZQ8D3F5G7H9J1K3M5N7", entrance: "asynchronous" as const },
    ...{ language: "hi", mode: "native" as const, diarization: false, channel_mode: "mix" as const },
    ...{
      timestamps: "segment" as const,
      task: "transcribe" as const,
      numerals: "spoken" as const,
      script: "native",
      reserved_paise: 1_420,
    },
    ...{ duration_seconds: 1260 + 300 * index, channels: 1, progress: state === "transcribing" ? 0.42 : 1 },
    ...{
      created_at: "2026-11-22T09:41:00.000Z",
      started_at: NOW,
      finished_at: null,
      content_deleted_at: null,
    },
    error:
      state === "failed"
        ? { code: "audio_decode_failed" as const, message: "The audio cannot be decoded." }
        : null,
  })),
};

/** The answers by their addresses below `/console/api`. */
export const ANSWERS: Readonly<Record<string, unknown>> = {
  session: SESSION,
  overview: OVERVIEW,
  series: SERIES,
  organizations: { object: "list", next: null, data: [ORGANIZATION] },
  [`organizations/${ORGANIZATION_ID}`]: ORGANIZATION,
  [`organizations/${ORGANIZATION_ID}/ledger`]: LEDGER,
  [`organizations/${ORGANIZATION_ID}/usage`]: USAGE,
  projects: PROJECTS,
  keys: KEYS,
  models: MODELS,
  webhook_endpoints: ENDPOINTS,
  deliveries: DELIVERIES,
  transcriptions: TRANSCRIPTIONS,
};

/** Views of the admin, by the parts of their addresses; one organization is a view of its own. */
export const ADMIN_VIEWS: readonly string[] = VIEWS.flatMap((view) =>
  view === "organizations" ? [view, `${view}/${ORGANIZATION_ID}`] : [view],
);

/** Answers a page's requests of the admin. */
export async function showMadeAdmin(page: Page): Promise<void> {
  await page.route("**/console/api/**", (route) => {
    const path = new URL(route.request().url()).pathname.replace(/^.*\/console\/api\//, "");
    const answer = ANSWERS[path];
    return answer === undefined ? route.fulfill({ status: 404, json: {} }) : route.fulfill({ json: answer });
  });
}
