import { DEVICES, PRECISIONS, STEP_SHARING_CHOICES } from "../domain/engine-options.ts";
import { TRACK_CHOICES } from "../domain/reading.ts";
import { DOUBTFUL_TEXT_CHOICES } from "../domain/result.ts";
import { FOLDER_FIELDS } from "./folder-fields.ts";
import {
  auto,
  boolean,
  choice,
  integer,
  list,
  map,
  reloaded,
  type Setting,
  tables,
  text,
  type ValueOf,
} from "./setting.ts";

export type { Setting } from "./setting.ts";

/** All settings: section, name, type, default, bounds, help (docs/decisions/config.md). */

const GIB = 1024 ** 3;
const MIB = 1024 ** 2;
const MANY = Number.MAX_SAFE_INTEGER;
const DAY_SECONDS = 86_400;

export const CONFIG_SCHEMA = {
  server: {
    listen: text("127.0.0.1:8080", "Address and port the server listens on; port 0 takes a free one.", {
      pattern: /^.+:(\d{1,4}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])$/,
    }),
    base_url: reloaded(
      text(
        "",
        "Address that clients use to reach the server, without a slash at the end; empty: made from listen.",
        {
          pattern: /^(https?:\/\/[^\s]+[^/])?$/,
          example: "https://shruti.example.in",
          problem: problemOfBaseUrl,
        },
      ),
    ),
    tls_cert: reloaded(
      text(
        "",
        "PEM file of the certificate and its chain, read at the start and at a reload; empty: plain HTTP.",
        {
          isPath: true,
        },
      ),
    ),
    tls_key: reloaded(text("", "PEM file of the certificate's private key.", { isPath: true })),
    cors_origins: reloaded(
      list(
        "Origins that browsers may call from, such as https://app.example.in, app://obsidian.md or chrome-extension://…, without a path; *: all; empty: none.",
        { pattern: /^(\*|[a-z][a-z0-9+.-]*:\/\/[^\s/?#]+)$/, example: "https://app.example.in" },
      ),
    ),
    trusted_proxies: reloaded(
      list(
        "Networks in CIDR form of proxies whose X-Forwarded-For names the client's address for the log; empty: none.",
        { example: "10.0.0.0/8" },
      ),
    ),
    drain_seconds: reloaded(
      integer(
        30,
        0,
        3600,
        "How long a stop waits for running chunks; unfinished work continues after the next start.",
      ),
    ),
  },
  storage: {
    data_dir: text("./shruti-data", "Directory of the database, recordings and copied-out native files.", {
      pattern: /\S/,
      isPath: true,
    }),
    reserve_bytes: reloaded(
      integer(1 * GIB, 0, MANY, "Free disk space below which new uploads are refused."),
    ),
    ballast_bytes: reloaded(
      integer(
        16 * MIB,
        0,
        1 * GIB,
        "Space that is kept for commands on a full disk, at most a sixteenth of the disk; 0: none.",
      ),
    ),
  },
  engine: {
    workers: auto(1, 256, "Chunks recognized at once; auto: from cores and memory."),
    threads_per_worker: auto(
      1,
      256,
      "Threads for one chunk; auto: its part of all cores, larger while few chunks run.",
    ),
    device: choice("auto", DEVICES, "Where the model runs; auto takes a GPU when its backend is installed."),
    precision: choice(
      "fast",
      PRECISIONS,
      "fast: the processor's quickest code, which rounds to bf16, 16 or 8 bits where it multiplies those; exact: whisper.cpp's own code.",
    ),
    shared_steps: choice(
      "auto",
      STEP_SHARING_CHOICES,
      "Decoding steps that several chunks make together, for which the weights are read once; cpu: not on a GPU. None with precision = exact.",
    ),
    draft_model: reloaded(
      text(
        "",
        "Id of a small model that writes tokens ahead of larger ones with the same tokens, which decode several at once then; empty: none. Texts are the same.",
        { pattern: /^\S*$/, example: "tiny" },
      ),
    ),
    synchronous_workers: auto(
      0,
      64,
      "Synchronous requests that are recognized at once, beside other work; 0: none; auto: as many as have memory, and are done within half of limits.synchronous_timeout_seconds at the measured speed.",
    ),
    background_niceness: integer(
      10,
      0,
      14,
      "How much less urgent recognition is for the system where no client waits for it with an open connection; 0: equally urgent.",
    ),
    speech_workers: auto(
      1,
      64,
      "Processes that find speech, a core each, while there is work for them; auto: half of the cores, at least 2, at most 16.",
    ),
    doubtful_text: reloaded(
      choice(
        "omit",
        DOUBTFUL_TEXT_CHOICES,
        "Text that is less sure than the floor of its model; omit: left out of the transcript.",
      ),
    ),
    diarization: choice(
      "auto",
      ["auto", "acoustic"],
      "How speakers are distinguished; auto: with nets, the installed ones or those of the executable; acoustic: by the built-in method without nets, which takes less time and is less exact.",
    ),
    punctuation: choice(
      "auto",
      ["auto", "off"],
      "Whether an installed model of punctuation is used; auto: for texts of models that write none.",
    ),
    chunk_attempts: reloaded(integer(3, 1, 10, "Attempts for one chunk before it becomes a gap.")),
    model_idle_seconds: integer(
      900,
      0,
      30 * DAY_SECONDS,
      "Idle time after which a model is unloaded; 0: never.",
    ),
    tracks: choice(
      "one",
      TRACK_CHOICES,
      "Audio tracks of a file that has several with sound; one: the one that players take; all: each becomes a channel, and channel mode mix mixes them.",
    ),
    decoder: text(
      "",
      "Another decoder program, absolute path, such as one with another FFmpeg; empty: ours.",
    ),
  },
  models: {
    dir: text("", "Directory of installed models; empty: models/ in the data directory.", { isPath: true }),
    default: reloaded(
      text(
        "",
        "Model for requests that name none; empty: the choice of `shruti models default`, else the only model.",
      ),
    ),
    languages: reloaded(
      map(
        'Models for the languages of requests that name none, such as hi = "indic-conformer"; else the choice of `shruti models route`, else the default where it has the language.',
        /^[a-z]{2,3}$/,
        /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/,
      ),
    ),
  },
  capabilities: {
    word_timestamps: reloaded(
      boolean(
        false,
        "Accept timestamps = word for models that can time words; false: such requests are refused.",
      ),
    ),
    metadata: reloaded(
      boolean(
        false,
        "Accept the field metadata, names and values that a client notes of a transcription; false: it is an unknown parameter.",
      ),
    ),
    translation: reloaded(
      boolean(
        false,
        "Accept the field task, which asks for the text in English, for models that can translate; false: it is an unknown parameter.",
      ),
    ),
    written_form: reloaded(
      boolean(
        false,
        "Accept the fields numerals and script, which write numbers in figures and text in another script; false: they are unknown parameters.",
      ),
    ),
  },
  limits: {
    requests_per_second: reloaded(integer(50, 0, 1_000_000, "Requests of one key per second; 0: no limit.")),
    request_burst: reloaded(
      integer(100, 1, 1_000_000, "Requests that one key may send at once before the rate applies."),
    ),
    unpaid_acts_per_second: reloaded(
      integer(
        1,
        0,
        1_000_000,
        "What one organization may do that costs nothing and leaves a record: changes of webhook endpoints, rejected uploads and cancelled transcriptions, each per second; 0: no limit.",
      ),
    ),
    unpaid_act_burst: reloaded(
      integer(1000, 1, 1_000_000, "Such acts of each kind before the rate applies."),
    ),
    max_queued: reloaded(
      integer(1000, 0, 10_000_000, "Waiting transcriptions of one organization; 0: no limit."),
    ),
    max_open_uploads: reloaded(
      integer(
        1000,
        0,
        10_000_000,
        "Uploads of one organization that have been created and are not yet complete; 0: no limit.",
      ),
    ),
    stored_bytes: reloaded(
      auto(
        0,
        MANY,
        "Bytes of recordings that one organization may keep, unfinished uploads included; auto: three quarters of the disk's size where there is another organization; 0: no limit.",
      ),
    ),
    stored_bytes_without_credit: reloaded(
      integer(
        1 * GIB,
        0,
        MANY,
        "The same for an organization without a balance that has to pay, and at most a tenth of the disk's size; 0: as with credit.",
      ),
    ),
    max_upload_bytes: reloaded(integer(5 * GIB, 1, MANY, "Size of the largest upload.")),
    max_duration_seconds: reloaded(integer(12 * 3600, 1, 1000 * 3600, "Length of the longest recording.")),
    max_channels: reloaded(integer(2, 1, 8, "Highest number of channels of a recording.")),
    synchronous_max_bytes: reloaded(
      integer(25 * MIB, 1, 1 * GIB, "Size of the largest file of a synchronous request."),
    ),
    synchronous_max_duration_seconds: reloaded(
      integer(60, 1, 3600, "Length of the longest audio of a synchronous request."),
    ),
    synchronous_timeout_seconds: reloaded(
      integer(120, 1, 3600, "Time in which a synchronous request is answered."),
    ),
    synchronous_wait_seconds: reloaded(
      integer(0, 0, 600, "How long a synchronous request waits for a free place before it is refused."),
    ),
    synchronous_max_receiving: integer(
      16,
      1,
      10_000,
      "Synchronous requests whose bodies are received at once.",
    ),
    upload_expiry_seconds: reloaded(
      integer(DAY_SECONDS, 60, 365 * DAY_SECONDS, "Time in which all bytes of an upload must arrive."),
    ),
    min_receive_bytes_per_second: reloaded(
      integer(500, 0, 1 * GIB, "Least average rate of a file that is being received; 0: any."),
    ),
    slow_receive_seconds: reloaded(
      integer(60, 1, 3600, "How long a file that is being received may pause, or stay behind that rate."),
    ),
    verify_in_request_bytes: reloaded(
      integer(
        32 * MIB,
        0,
        1 * GIB,
        "Uploads up to this size are verified within the `complete` request, for 25 seconds at most.",
      ),
    ),
  },
  mcp: {
    enabled: boolean(
      false,
      "Serve assistants by the Model Context Protocol under /mcp, with a project's key.",
    ),
  },
  openai: {
    enabled: boolean(false, "Serve OpenAI's audio API under /openai/v1."),
    default_language: text(
      "",
      "Language code for requests that name no language, where their project has none of its own; empty: they are refused.",
      {
        pattern: /^([a-z]{2,3})?$/,
        example: "hi",
      },
    ),
    model_aliases: list(
      "Further names of models, such as whisper-1=large-v3, or whisper-1 alone for the model that serves the language; * matches any characters.",
      {
        default: ["whisper-1", "gpt-*transcribe*"],
        pattern: /^[^\s=,]+(=[^\s=,]+)?$/,
        example: "whisper-1=large-v3",
      },
    ),
    ignored_parameters: list(
      "Parameters that are ignored where they cannot be honoured, such as prompt or temperature; the answer names them in a header.",
      {
        default: ["prompt", "keywords", "temperature", "include", "chunking_strategy", "language"],
        pattern: /^[a-z][a-z0-9_]*(\[[a-z0-9_]*\])*$/,
        example: "temperature",
      },
    ),
    wait_seconds: integer(10, 0, 600, "How long a request waits for a free synchronous place."),
    max_bytes: integer(128 * MIB, 1, 1 * GIB, "Size of the largest file."),
    max_duration_seconds: integer(
      3600,
      1,
      1000 * 3600,
      "Length of the longest recording; what is longer than limits.synchronous_max_duration_seconds waits in the queue.",
    ),
    timeout_seconds: integer(1800, 1, DAY_SECONDS, "Time in which a request is answered."),
  },
  console: {
    enabled: boolean(true, "Serve the console under /console."),
    admin_from: reloaded(
      list("Networks in CIDR form from which admins may use the console; empty: this machine only.", {
        example: "10.0.0.0/8",
      }),
    ),
  },
  billing: {
    price_paise_per_audio_hour: reloaded(
      integer(3000, 0, 1_000_000_000, "Price for organizations without a price of their own."),
    ),
    daily_spend_limit_paise: reloaded(
      integer(0, 0, MANY, "Spending limit of one organization per day; 0: no limit."),
    ),
    low_credit_paise: reloaded(
      integer(
        0,
        0,
        MANY,
        "Balance below which an organization's credit is low: the log and a metric say so; 0: never.",
      ),
    ),
    timezone: text("Asia/Kolkata", "IANA time zone whose midnight ends the day.", {
      problem: (value) => (isTimeZone(value) ? undefined : `is not a valid IANA time zone: ${value}`),
    }),
  },
  intake: {
    url: reloaded(
      boolean(false, "Accept addresses from which the server fetches recordings (audio.source_url)."),
    ),
    hosts: reloaded(
      list(
        "Hosts from which recordings are fetched: a name, *.example.com for its subdomains, or a name with a port other than 443.",
        { pattern: /^(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?$/i, example: "*.example.com" },
      ),
    ),
    allowed_networks: list(
      "Networks in CIDR form from which recordings are fetched although their addresses are private or otherwise refused.",
      { example: "10.1.0.0/16" },
    ),
    ca_file: text("", "PEM file with further certificate authorities for these hosts and for buckets.", {
      isPath: true,
    }),
    max_fetches: integer(8, 1, 1000, "Recordings being fetched at once; organizations share them."),
    folder: reloaded(
      tables(
        "Folders that the server watches for recordings; each is a table [[intake.folder]].",
        FOLDER_FIELDS,
        ["path", "project"],
      ),
    ),
  },
  webhooks: {
    allow_http: boolean(false, "Also accept http:// endpoints; for test benches only."),
    allow_private_networks: boolean(
      true,
      "Deliver to private addresses (10/8, 172.16/12, 192.168/16, fc00::/7).",
    ),
    allowed_networks: list(
      "Networks in CIDR form that may receive events although their addresses are loopback, link-local or otherwise refused.",
      { example: "10.0.0.0/8" },
    ),
    ca_file: text("", "PEM file with further certificate authorities for endpoints.", { isPath: true }),
    timeout_seconds: integer(15, 1, 120, "Time for one whole delivery attempt."),
    max_in_flight: integer(64, 1, 10_000, "Deliveries being sent at once."),
    max_in_flight_per_endpoint: integer(4, 1, 1000, "Deliveries being sent at once to one endpoint."),
    keep_days: reloaded(integer(30, 1, 3650, "Days for which finished deliveries are kept.")),
  },
  retention: {
    audio_days: reloaded(
      integer(30, 0, 36_500, "Days after which a complete upload's audio is removed; 0: kept."),
    ),
    transcript_days: reloaded(
      integer(0, 0, 36_500, "Days after which a finished transcription's transcript is removed; 0: kept."),
    ),
    rejected_days: reloaded(
      integer(
        7,
        0,
        36_500,
        "Days after which the records of rejected uploads and removed webhook endpoints are removed, where nothing refers to them; 0: kept.",
      ),
    ),
    watched_files_days: reloaded(
      integer(
        90,
        0,
        36_500,
        "Days after which the server forgets a file of a watched folder that is done or has failed and does not lie there any more; 0: never.",
      ),
    ),
    restore_copies_days: reloaded(
      integer(
        30,
        0,
        36_500,
        "Days after which a database that `shruti restore` has replaced is removed; 0: kept.",
      ),
    ),
    upgrade_copies_days: reloaded(
      integer(
        30,
        0,
        36_500,
        "Days after which the copy of the database from before an upgrade is removed; 0: kept. The newest three are kept at most.",
      ),
    ),
  },
  backup: {
    schedule: reloaded(
      text(
        "",
        "When the server makes a backup of everything: minute, hour, day, month and weekday as in crontab(5), such as 30 2 * * *, in billing.timezone; empty: never.",
        { example: "30 2 * * *" },
      ),
    ),
    to: reloaded(
      text(
        "",
        "Folder of these backups, on another disk or machine; it holds each recording once for all of them.",
        { isPath: true },
      ),
    ),
    keep: reloaded(integer(14, 1, 10_000, "Number of backups to keep; older ones are removed.")),
    with_models: reloaded(boolean(false, "Also the weights of installed models.")),
    with_secrets: reloaded(
      boolean(
        false,
        "Also the key that signs receipts, evidence and backups, the keys of a fleet, and the secrets of this file.",
      ),
    ),
  },
  fleet: {
    nats: list(
      "Addresses of the messaging server (NATS with JetStream) of a fleet, such as tls://nats.example:4222; empty: this machine works alone.",
      { pattern: /^tls:\/\/[^\s:/]+(:\d{1,5})?$/, example: "tls://nats.example:4222" },
    ),
    name: text("main", "Name of the fleet; fleets with different names can share a messaging server.", {
      pattern: /^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$/,
    }),
    worker: text("", "Name of this worker, for `shruti worker`; `shruti fleet add` writes it.", {
      pattern: /^([a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?)?$/,
      example: "gpu-1",
    }),
    key_file: text(
      "",
      "File with this machine's secret for the messaging server; empty: fleet/control.key in the data directory.",
      { isPath: true },
    ),
    ca_file: text(
      "",
      "PEM file of the authority that the fleet's certificates come from; empty: fleet/ca.pem in the data directory.",
      { isPath: true },
    ),
    replicas: integer(1, 1, 5, "Servers of a NATS cluster that hold each ticket."),
    listen: text(
      "0.0.0.0:8443",
      "Address and port at which workers fetch audio by HTTPS; port 0 takes a free one.",
      { pattern: /^.+:(\d{1,4}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])$/ },
    ),
    base_url: text(
      "",
      "Address at which workers reach fleet.listen, such as https://shruti.example:8443; empty: this machine only.",
      { pattern: /^(https:\/\/[^\s]+[^/])?$/, example: "https://shruti.example:8443" },
    ),
    lost_after_seconds: integer(
      4,
      2,
      600,
      "A worker that is silent for this long is lost, and its chunks run elsewhere.",
    ),
    synchronous_places: integer(
      1,
      0,
      64,
      "Chunks of synchronous requests that a worker recognizes beside others.",
    ),
    preparing_places: integer(
      0,
      0,
      64,
      "Recordings that a worker decodes and searches for speech at once; 0: the control plane does that.",
    ),
    fetch_models: boolean(
      false,
      "A worker fetches the models that the fleet uses and it lacks from the control plane.",
    ),
    fetch_models_max_bytes: integer(
      50 * GIB,
      0,
      MANY,
      "A worker fetches no model with which its models would take more than this.",
    ),
  },
  log: {
    level: reloaded(
      choice("info", ["debug", "info", "warn", "error", "silent"], "Least serious lines to write."),
    ),
    format: choice("json", ["json", "text"], "One JSON object a line, or readable text."),
  },
  metrics: {
    enabled: boolean(true, "Serve GET /metrics."),
    token: reloaded(
      text("", "Bearer token that GET /metrics asks for; empty: none.", {
        // Another one could not be sent in a header.
        pattern: /^[\x21-\x7e]*$/,
        example: "a-long-random-text",
        isSecret: true,
      }),
    ),
  },
} as const satisfies Record<string, Record<string, Setting>>;

/** The paths of the API are put behind the address, so nothing may come after its own path. */
function problemOfBaseUrl(value: string): string | undefined {
  if (value === "") return undefined;
  if (!URL.canParse(value)) return "is not an address that can be read";
  const { username, password } = new URL(value);
  if (username !== "" || password !== "") return "must not have a user name or a password";
  return /[?#]/.test(value) ? "must not have a query or a fragment" : undefined;
}

function isTimeZone(value: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: value });
    return true;
  } catch {
    return false;
  }
}

/** Lists the settings with a mark, by their dotted names. */
const settingsThat = (isMarked: (setting: Setting) => boolean): readonly string[] =>
  Object.entries(CONFIG_SCHEMA).flatMap(([section, settings]) =>
    Object.entries<Setting>(settings).flatMap(([name, setting]) =>
      isMarked(setting) ? [`${section}.${name}`] : [],
    ),
  );

/** Settings whose values commands hide, and backups leave out. */
export const SECRET_SETTINGS = settingsThat(
  (setting) => setting.type === "text" && setting.isSecret === true,
);

/** Settings that a running server takes over when it reloads its config. All other settings need a restart. */
export const RELOADED_SETTINGS = settingsThat(({ isReloaded }) => isReloaded === true);

/** The whole configuration, with sections and names as in the file. */
export type Config = {
  readonly [Section in keyof typeof CONFIG_SCHEMA]: {
    readonly [Name in keyof (typeof CONFIG_SCHEMA)[Section]]: ValueOf<(typeof CONFIG_SCHEMA)[Section][Name]>;
  };
};

/** Settings that choose a program to run. */
export const PROGRAM_SETTINGS: readonly string[] = ["engine.decoder"];
