// Generated from the OpenAPI document by scripts/clients/generate.ts. Do not edit it.

/** The version of the server whose document this is. */
export const VERSION = "0.1.0";

/** Fields of the form. Limits of the file are published by GET /v1/models. */
export type AudioForm = {
  /** The audio file; its format is found from its content. A file without a header is read as its name or media type says. */
  file: Blob;
  /** A code that the model lists in GET /v1/models. `auto` is announced and refused. */
  language: string;
  task?: Task | undefined;
  mode?: Mode | undefined;
  timestamps?: Timestamps | undefined;
  diarization?: DiarizationField | undefined;
  channel_mode?: ChannelMode | undefined;
  numerals?: Numerals | undefined;
  /** Script of the text: `native`, `latin` as people type it, `iso15919`, or a code of ISO 15924 in lower case. Only with `capabilities.written_form`. */
  script?: string | undefined;
  metadata?: MetadataField | undefined;
  /** ID of a model that GET /v1/models lists; left out: the default model. */
  model?: string | undefined;
};

/** An address for players that cannot send a key. */
export type AudioLink = {
  /** Identifier of the transcription. */
  id: string;
  object: "transcription.audio_link";
  /** Absolute address of the audio. It opens without the key until the link expires. */
  url: string;
  /** When the link expires. A new one can be asked for at any time. RFC 3339, UTC, milliseconds. */
  expires_at: string;
};

/** `separate` transcribes each channel on its own and is billed per channel. */
export type ChannelMode = "mix" | "separate";

/** Sent once when the balance falls below the threshold, to endpoints registered for it. */
export type CreditLowEvent = {
  type: "credit.low";
  data: CreditLowEventData;
};

export type CreditLowEventData = {
  /** Identifier of the organization. */
  organization_id: string;
  /** Grants less charges, when it fell below the threshold. */
  balance_paise: number;
  /** The organization's, else the config's. */
  threshold_paise: number;
  /** When it fell below the threshold. RFC 3339, UTC, milliseconds. */
  created_at: string;
};

/** Label segments by speaker: true finds the number, an object gives it or its bounds. Left out: false. */
export type Diarization = boolean | DiarizationSpeakers | DiarizationMinSpeakersMaxSpeakers;

/** Label segments by speaker: `true`, `false`, or as JSON the object with the number of speakers or its bounds. */
export type DiarizationField = string;

export type DiarizationMinSpeakersMaxSpeakers = {
  /** Fewest speakers; not above max_speakers. */
  min_speakers: number;
  /** Most speakers. */
  max_speakers: number;
};

export type DiarizationSpeakers = {
  /** Exact number of speakers. */
  speakers: number;
};

/** Body of every error response. */
export type ErrorBody = {
  error: ErrorBodyError;
};

export type ErrorBodyError = {
  /** Stable; clients branch on it. */
  code: "unauthorized" | "forbidden" | "not_found" | "method_not_allowed" | "invalid_request" | "unknown_parameter" | "unsupported_language" | "unsupported_mode" | "capability_unavailable" | "upload_incomplete" | "result_not_ready" | "idempotency_conflict" | "audio_too_large" | "capacity_unavailable" | "insufficient_credits" | "rate_limited" | "spend_limit_reached" | "too_many_queued" | "audio_decode_failed" | "audio_too_long" | "too_many_channels" | "upload_rejected" | "content_deleted" | "conflict" | "timeout" | "organization_disabled" | "transcription_failed" | "internal_error";
  /** For people; may be reworded. */
  message: string;
  /** Dotted name of the field, parameter or capability involved. */
  detail?: string;
};

/** A stretch of speech that could not be transcribed, and is not charged. */
export type Gap = {
  /** Start. Seconds, at most three decimals. */
  start: number;
  /** End. Seconds, at most three decimals. */
  end: number;
  reason: "engine_error" | "time_limit";
  /** Channel, from 0; only with channel mode `separate`. */
  channel?: number;
};

/** A language that may be spoken. */
export type LanguageCandidate = {
  /** ISO 639 code, or the model's own code. */
  language: string;
  probability: number;
};

/** What you note of it: at most 16 texts of 500 characters by names of 40 letters, digits, `_` and `-`. It is deleted with the transcript. Only with `capabilities.metadata`. */
export type Metadata = Record<string, string>;

/** `metadata` as JSON. Fields such as `metadata[agent]` say the same. Only with `capabilities.metadata`. */
export type MetadataField = string;

/** `native`: the language's own script; `codemix`: English words in Latin letters; `verbatim`: exactly what was said. */
export type Mode = "native" | "codemix" | "verbatim";

/** A model, what it can do, and its limits. */
export type Model = {
  /** ID of a model that GET /v1/models lists; left out: the default model. */
  id: string;
  object: "model";
  name: string;
  version: string;
  /** Used by requests that name no model, in all languages that no other model serves. */
  default: boolean;
  /** Codes of the languages in which requests that name no model use this one. */
  default_languages: Array<string>;
  languages: Array<ModelLanguagesItem>;
  modes: Array<"native" | "codemix" | "verbatim">;
  /** What is `coming_soon` is refused with `capability_unavailable`. `task.translate` is there where `capabilities.translation` is on. */
  capabilities: ModelCapabilities;
  /** How speakers are distinguished: by the built-in acoustic method, or with installed weights. */
  diarization: ModelDiarization;
  limits: ModelLimits;
  price_paise_per_audio_hour: number;
  /** What to know before using it. */
  notice?: string;
};

/** What is `coming_soon` is refused with `capability_unavailable`. `task.translate` is there where `capabilities.translation` is on. */
export type ModelCapabilities = {
  "mode.native": "available" | "coming_soon";
  "mode.codemix": "available" | "coming_soon";
  "mode.verbatim": "available" | "coming_soon";
  "timestamps.segment": "available" | "coming_soon";
  "timestamps.word": "available" | "coming_soon";
  "language.auto": "available" | "coming_soon";
  diarization: "available" | "coming_soon";
  "channel_mode.separate": "available" | "coming_soon";
  "task.translate"?: "available" | "coming_soon";
};

/** How speakers are distinguished: by the built-in acoustic method, or with installed weights. */
export type ModelDiarization = {
  method: "acoustic" | "neural";
};

export type ModelLanguagesItem = {
  code: string;
  name: string;
  modes: Array<"native" | "codemix" | "verbatim">;
  /** Values of `numerals`, where they are switched on. */
  numerals?: Array<"spoken" | "written">;
  /** Values of `script`, where they are switched on. */
  scripts?: Array<string>;
};

export type ModelLimits = {
  synchronous: ModelLimitsSynchronous;
  asynchronous: ModelLimitsAsynchronous;
};

export type ModelLimitsAsynchronous = {
  max_bytes: number;
  max_duration_seconds: number;
  max_channels: number;
};

export type ModelLimitsSynchronous = {
  max_bytes: number;
  max_duration_seconds: number;
  timeout_seconds: number;
};

/** Every installed model. */
export type ModelList = {
  object: "list";
  /** The default first. */
  data: Array<Model>;
  /** Requests and searches may have `metadata`: it is switched on. */
  metadata?: true;
};

/** `spoken`: numbers as they were said; `written`: numbers, money, dates and times in figures. Only with `capabilities.written_form`. */
export type Numerals = "spoken" | "written";

/** An endpoint's new secret. */
export type RotatedSecret = {
  /** Identifier. */
  id: string;
  object: "webhook_endpoint";
  /** The new signing secret; this is the only time it is shown. */
  secret: string;
  /** Until then events carry two signatures, separated by a space. RFC 3339, UTC, milliseconds. */
  previous_secret_expires_at: string;
};

/** How a secret is replaced. */
export type SecretRotate = {
  /** How long the previous secret signs as well; left out: 24 hours; 0: it ends at once. */
  keep_previous_seconds?: number | undefined;
};

/** One stretch of the transcript. */
export type Segment = {
  /** Position in the result, from 0. */
  index: number;
  /** Start on the recording's own clock; absent with timestamps `none`. Seconds, at most three decimals. */
  start?: number;
  /** End on the recording's own clock; absent with timestamps `none`. Seconds, at most three decimals. */
  end?: number;
  text: string;
  /** ISO 639 code. */
  language: string;
  /** How sure the model was. */
  confidence: number;
  /** `speaker_1`, … in order of first appearance; only with diarization. */
  speaker?: string;
  /** Channel, from 0; only with channel mode `separate`. */
  channel?: number;
  /** The words of the text; only with timestamps `word`, and absent where the words have no times. */
  words?: Array<Word>;
  /** What was rewritten in figures; with `numerals` = `written`. */
  written?: Array<Written>;
  /** The text as it was said, in the language's own script; where `text` is in another. */
  native_text?: string;
};

/** `transcribe`: text in the language that is spoken; `translate`: text in English. Only with `capabilities.translation`. */
export type Task = "transcribe" | "translate";

/** Whether segments carry times. `word`: words, too; refused unless GET /v1/models says that `timestamps.word` is `available`. */
export type Timestamps = "none" | "segment" | "word";

/** One requested piece of work. */
export type Transcription = {
  /** Identifier. */
  id: string;
  object: "transcription";
  /** ID of a model that GET /v1/models lists; left out: the default model. */
  model: string;
  /** Version of the model, fixed when the request was accepted. */
  version: string;
  state: "queued" | "preparing" | "transcribing" | "finalizing" | "completed" | "partial" | "failed" | "cancelled";
  request: TranscriptionRequest;
  /** When it was accepted. RFC 3339, UTC, milliseconds. */
  created_at: string;
  finished_at: string | null;
  /** Absolute address of the result, while there is one. */
  result_url?: string;
  /** Why it failed. */
  error?: TranscriptionError;
  /** When the recording and its transcript were deleted. RFC 3339, UTC, milliseconds. */
  content_deleted_at?: string;
  metadata?: Metadata;
  /** Length of the recording. Seconds, at most three decimals. */
  duration_seconds?: number;
  /** Share of the audio that is done. */
  progress?: number;
  /** Where the recording is fetched from; left out for a recording that was sent. */
  source?: TranscriptionSource;
  /** Where the result is written, too. */
  results_to?: TranscriptionResultsTo;
  /** While queued: how many of the organization are ahead, because they have less audio, or as much and were first. */
  queue_position?: number;
};

/** What to transcribe, and how. */
export type TranscriptionCreate = {
  /** `upload_id`, or with `intake.url` in the config `source_url` instead. */
  audio: TranscriptionCreateAudio;
  /** A code that the model lists in GET /v1/models. `auto` is announced and refused. */
  language: string;
  task?: Task | undefined;
  mode?: Mode | undefined;
  timestamps?: Timestamps | undefined;
  diarization?: Diarization | undefined;
  channel_mode?: ChannelMode | undefined;
  numerals?: Numerals | undefined;
  /** Script of the text: `native`, `latin` as people type it, `iso15919`, or a code of ISO 15924 in lower case. Only with `capabilities.written_form`. */
  script?: string | undefined;
  metadata?: Metadata | undefined;
  /** Endpoint that receives the event of the end. */
  webhook_endpoint_id?: string | undefined;
  /** ID of a model that GET /v1/models lists; left out: the default model. */
  model?: string | undefined;
  /** Where the result is written, too. Only with `intake.url` in the config. */
  results_to?: TranscriptionCreateResultsTo | undefined;
};

/** `upload_id`, or with `intake.url` in the config `source_url` instead. */
export type TranscriptionCreateAudio = {
  /** A complete upload of this project. */
  upload_id?: string;
  /** Address from which the server fetches the recording: `https://` to a host that the config lists, or `s3://bucket/key` of a bucket that an admin has added. */
  source_url?: string;
};

/** Where the result is written, too. Only with `intake.url` in the config. */
export type TranscriptionCreateResultsTo = {
  /** Folder of a bucket, such as `s3://bucket/results/`. */
  url: string;
  /** Left out: `json`. */
  formats?: Array<"json" | "txt" | "srt" | "vtt">;
};

/** Why it failed. */
export type TranscriptionError = {
  code: "unauthorized" | "forbidden" | "not_found" | "method_not_allowed" | "invalid_request" | "unknown_parameter" | "unsupported_language" | "unsupported_mode" | "capability_unavailable" | "upload_incomplete" | "result_not_ready" | "idempotency_conflict" | "audio_too_large" | "capacity_unavailable" | "insufficient_credits" | "rate_limited" | "spend_limit_reached" | "too_many_queued" | "audio_decode_failed" | "audio_too_long" | "too_many_channels" | "upload_rejected" | "content_deleted" | "conflict" | "timeout" | "organization_disabled" | "transcription_failed" | "internal_error";
  message: string;
};

/** A page of transcriptions. */
export type TranscriptionList = {
  object: "list";
  /** Newest first. */
  data: Array<Transcription>;
  next: string | null;
};

export type TranscriptionRequest = {
  language: string;
  task?: "translate";
  mode: "native" | "codemix" | "verbatim";
  timestamps: "none" | "segment" | "word";
  diarization?: boolean;
  channel_mode: "mix" | "separate";
  numerals?: "spoken" | "written";
  script?: string;
};

/** The outcome of a completed or partial transcription. */
export type TranscriptionResult = {
  /** Identifier of the transcription. */
  id: string;
  object: "transcription.result";
  /** ID of a model that GET /v1/models lists; left out: the default model. */
  model: string;
  version: string;
  status: "completed" | "partial";
  task?: "translate";
  mode: "native" | "codemix" | "verbatim";
  metadata?: Metadata;
  /** Length of the recording. Seconds, at most three decimals. */
  duration_seconds: number;
  /** Channels of the recording. */
  channels: number;
  /** Codes found in the segments. */
  languages: Array<string>;
  /** The full transcript. */
  text: string;
  /** Ordered by start, then channel. */
  segments: Array<Segment>;
  warnings: Array<"no_speech" | "low_confidence" | "repetition_removed" | "suspected_hallucination" | "clipped_audio" | "low_volume" | "narrowband_audio" | "identical_channels" | "script_mismatch" | "speaker_count_uncertain" | "truncated_audio" | "tracks_left_out" | "unrecognized_speech" | "language_mismatch" | "word_times_missing" | "punctuation_missing">;
  /** What is missing; present with status `partial`. */
  gaps?: Array<Gap>;
  /** Which audio tracks of the file; present with the warning `tracks_left_out`. */
  audio_tracks?: TranscriptionResultAudioTracks;
  /** Present with the warning `unrecognized_speech`. */
  unrecognized?: Array<Unrecognized>;
  /** The most probable first; present with the warning `language_mismatch`. */
  language_candidates?: Array<LanguageCandidate>;
};

/** Which audio tracks of the file; present with the warning `tracks_left_out`. */
export type TranscriptionResultAudioTracks = {
  /** From 0, in the order of the file. */
  transcribed: number;
  left_out: Array<number>;
};

/** Where the result is written, too. */
export type TranscriptionResultsTo = {
  /** As requested. */
  url: string;
  formats: Array<"json" | "txt" | "srt" | "vtt">;
  state: "waiting" | "written" | "failed" | "none";
  /** Why the last attempt failed. */
  message?: string;
};

/** Where the recording is fetched from; left out for a recording that was sent. */
export type TranscriptionSource = {
  /** The address, without user and query. */
  url: string;
  state: "fetching" | "fetched" | "failed";
  /** Where it is known. */
  total_bytes?: number;
  /** Why the last attempt failed, while another follows. */
  message?: string;
};

/** A stretch of speech whose words the model does not know. It is charged. */
export type Unrecognized = {
  /** Start. Seconds, at most three decimals. */
  start: number;
  /** End. Seconds, at most three decimals. */
  end: number;
  /** Channel, from 0; only with channel mode `separate`. */
  channel?: number;
};

/** The resource that receives audio. */
export type Upload = {
  /** Identifier. */
  id: string;
  object: "upload";
  state: "allocated" | "verifying" | "complete" | "rejected";
  /** Size of the file, bytes. */
  bytes?: number;
  /** Length of the recording, once verified. Seconds, at most three decimals. */
  duration_seconds?: number;
  /** Once verified. */
  channels?: number;
  /** True once the audio was deleted. */
  deleted?: boolean;
  /** Why it was rejected. */
  error?: UploadError;
};

/** Announces a file. */
export type UploadCreate = {
  /** Size of the file, bytes. */
  bytes: number;
  /** SHA-256 of the file in lower-case hex; other bytes are rejected. */
  sha256?: string | undefined;
};

/** A place for a file to be sent to. */
export type UploadCreated = {
  /** Identifier. */
  id: string;
  object: "upload";
  state: "allocated";
  /** Size of the file, bytes. */
  bytes: number;
  /** Seconds until the bytes must have arrived. */
  expires_in: number;
  /** Where and how to send the file in one request; no project key is needed there. */
  upload: UploadCreatedUpload;
  /** tus 1.0; recommended above 50 MB. */
  resumable_upload?: UploadCreatedResumableUpload;
};

/** tus 1.0; recommended above 50 MB. */
export type UploadCreatedResumableUpload = {
  protocol: "tus";
  /** Takes the creation request. */
  endpoint: string;
  /** Bytes. */
  chunk_size: number;
  /** Header fields to send with every request. */
  headers: Record<string, string>;
  /** For `Upload-Metadata`. */
  metadata: Record<string, string>;
};

/** Where and how to send the file in one request; no project key is needed there. */
export type UploadCreatedUpload = {
  method: string;
  url: string;
  /** Header fields to send with the file. */
  headers: Record<string, string>;
};

/** Why it was rejected. */
export type UploadError = {
  code: "audio_decode_failed" | "upload_rejected";
  message?: string;
};

/** Credit of the organization, and this project's usage events. */
export type Usage = {
  object: "usage";
  currency: "INR";
  price_paise_per_audio_hour: number;
  credit: UsageCredit;
  /** Newest first. */
  data: Array<UsageEvent>;
  next: string | null;
};

export type UsageCredit = {
  /** Grants minus charges. */
  balance_paise: number;
  /** Held for unfinished transcriptions. */
  reserved_paise: number;
  /** Balance minus reserved. */
  available_paise: number;
};

/** One finished transcription and what it cost. */
export type UsageEvent = {
  /** Identifier. */
  id: string;
  object: "usage_event";
  transcription_id: string;
  model: string;
  /** How the transcription ended. */
  state: "queued" | "preparing" | "transcribing" | "finalizing" | "completed" | "partial" | "failed" | "cancelled";
  /** Length of the recording. Seconds, at most three decimals. */
  audio_seconds: number;
  /** What was charged: transcribed time, times channels with `separate`. Seconds, at most three decimals. */
  billed_seconds: number;
  /** Channels that were charged. */
  channels: number;
  amount_paise: number;
  /** When the transcription finished. RFC 3339, UTC, milliseconds. */
  created_at: string;
};

/** The shape of a recording's sound. */
export type Waveform = {
  /** Identifier of the transcription. */
  id: string;
  object: "transcription.waveform";
  /** Length of the recording. Seconds, at most three decimals. */
  duration_seconds: number;
  /** Length of sound behind one peak. */
  seconds_per_peak: number;
  /** One, or with channel mode `separate` one for each channel. */
  lanes: Array<WaveformLanesItem>;
};

export type WaveformLanesItem = {
  /** Channel, from 0; only with channel mode `separate`. */
  channel?: number;
  /** One byte for each peak, in base64: the largest sample, 0 for silence to 255 for full scale. The last one may cover less sound. */
  peaks: string;
  speech: Array<Array<number>> | null;
};

/** A receiver of events. */
export type WebhookEndpoint = {
  /** Identifier. */
  id: string;
  object: "webhook_endpoint";
  url: string;
  /** Signing secret; this is the only time it is shown. */
  secret: string;
  /** Events that it receives beside those of the transcriptions that name it. */
  events?: Array<"credit.low">;
};

/** Registers a receiver. */
export type WebhookEndpointCreate = {
  /** HTTPS address that receives events. */
  url: string;
  /** Events that it receives beside those of the transcriptions that name it. */
  events?: Array<"credit.low"> | undefined;
};

/** A page of webhook endpoints. */
export type WebhookEndpointList = {
  object: "list";
  /** Newest first. */
  data: Array<WebhookEndpointView>;
  next: string | null;
};

/** A receiver that gets no events any more. */
export type WebhookEndpointRemoved = {
  /** Identifier. */
  id: string;
  object: "webhook_endpoint";
  deleted: true;
};

/** A receiver of events, without its secret. */
export type WebhookEndpointView = {
  /** Identifier. */
  id: string;
  object: "webhook_endpoint";
  url: string;
  /** A disabled one receives nothing until it is enabled. */
  state: "enabled" | "disabled";
  /** Why it was disabled; for people. */
  disabled_reason?: string;
  /** When it was registered. RFC 3339, UTC, milliseconds. */
  created_at: string;
  /** Until then events are signed with the previous secret as well. RFC 3339, UTC, milliseconds. */
  previous_secret_expires_at?: string;
  /** Events that it receives beside those of the transcriptions that name it. */
  events: Array<"credit.low">;
  /** Events that wait for delivery. */
  pending_deliveries: number;
  /** Events that were given up. */
  failed_deliveries: number;
};

/** Sent once a transcription is final, to its endpoint. */
export type WebhookEvent = {
  type: "transcription.completed" | "transcription.partial" | "transcription.failed" | "transcription.cancelled";
  data: WebhookEventData;
};

export type WebhookEventData = {
  /** Identifier of the transcription. */
  id: string;
  state: "completed" | "partial" | "failed" | "cancelled";
  error?: WebhookEventDataError;
  metadata?: Metadata;
};

export type WebhookEventDataError = {
  code: "unauthorized" | "forbidden" | "not_found" | "method_not_allowed" | "invalid_request" | "unknown_parameter" | "unsupported_language" | "unsupported_mode" | "capability_unavailable" | "upload_incomplete" | "result_not_ready" | "idempotency_conflict" | "audio_too_large" | "capacity_unavailable" | "insufficient_credits" | "rate_limited" | "spend_limit_reached" | "too_many_queued" | "audio_decode_failed" | "audio_too_long" | "too_many_channels" | "upload_rejected" | "content_deleted" | "conflict" | "timeout" | "organization_disabled" | "transcription_failed" | "internal_error";
  message: string;
};

/** A word of a segment. Words of a segment are in the order of time and do not overlap. */
export type Word = {
  /** Without white space; with the punctuation that belongs to it. */
  text: string;
  /** Start on the recording's own clock. Seconds, at most three decimals. */
  start: number;
  /** End on the recording's own clock. Seconds, at most three decimals. */
  end: number;
  /** How sure the model was. */
  confidence: number;
};

/** Words that were rewritten in figures. */
export type Written = {
  /** Where the figures begin in the segment's text, in UTF-16 units. */
  start: number;
  /** Behind their last unit. */
  end: number;
  /** What they are, such as `money`, `date` or `phone`. */
  kind: string;
  /** Numbers in decimal, ₹ in paise, other money as `USD 25.50`, dates, times and durations after ISO 8601. */
  value: string;
  /** The words that were said, in the language's own script. */
  spoken: string;
};

/** The query of `listTranscriptions`. */
export type ListTranscriptionsQuery = {
  /** Page size. */
  limit?: number | undefined;
  /** The `next` of the previous page. */
  after?: string | undefined;
  /** States, separated by commas, such as `completed,partial`. */
  state?: string | undefined;
  /** What you note of it: at most 16 texts of 500 characters by names of 40 letters, digits, `_` and `-`. It is deleted with the transcript. Only with `capabilities.metadata`. */
  metadata?: Metadata | undefined;
};

/** The query of `getTranscriptionResult`. */
export type GetTranscriptionResultQuery = {
  /** Form of the answer; it goes before `Accept`. `ctm` needs word times. */
  format?: "json" | "srt" | "vtt" | "text" | "ctm" | undefined;
  /** Each word has its time in the cues. Only of WebVTT, with word times. */
  word_times?: "1" | "true" | undefined;
  /** Characters of a line; wide ones count as two. Left out: 42. Only of subtitles. */
  max_line_characters?: number | undefined;
  /** Lines of a cue. Left out: 2. Only of subtitles. */
  max_lines?: number | undefined;
  /** How long a cue stays. Left out: 7 where words have times, else as long as the segment. Only of subtitles. */
  max_cue_seconds?: number | undefined;
  /** The answer is a file to save, named after the transcription. */
  download?: "1" | "true" | undefined;
};

/** The query of `getTranscriptionAudio`. */
export type GetTranscriptionAudioQuery = {
  /** Of an audio link; it replaces the key. */
  link?: string | undefined;
};

/** The query of `getUsage`. */
export type GetUsageQuery = {
  /** Page size. */
  limit?: number | undefined;
  /** The `next` of the previous page. */
  after?: string | undefined;
};

/** The query of `listWebhookEndpoints`. */
export type ListWebhookEndpointsQuery = {
  /** Page size. */
  limit?: number | undefined;
  /** The `next` of the previous page. */
  after?: string | undefined;
};

