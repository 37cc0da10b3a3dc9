import { type Static, type TOptional, type TProperties, type TSchema, Type } from "@sinclair/typebox";
import { CAPABILITIES, EXTENSION_CAPABILITIES } from "../../domain/capability.ts";
import { ERROR_CODES } from "../../domain/errors.ts";
import { RESULT_COPY_FORMATS, RESULT_COPY_STATES, SOURCE_STATES } from "../../domain/intake.ts";
import { MAX_METADATA_KEYS, MAX_METADATA_VALUE, METADATA_NAME_PATTERN } from "../../domain/metadata.ts";
import { GAP_REASONS, WARNINGS } from "../../domain/result.ts";
import { SUBTITLE_BOUNDS } from "../../domain/subtitles.ts";
import {
  CHANNEL_MODES,
  FINAL_STATES,
  MAX_SPEAKERS,
  MODES,
  NUMERALS,
  TASKS,
  TIMESTAMPS,
  TRANSCRIPTION_STATES,
} from "../../domain/transcription.ts";
import { UPLOAD_ERROR_CODES, UPLOAD_STATES } from "../../domain/upload.ts";
import { EVENT_TYPES, SUBSCRIBED_EVENT_TYPES } from "../../domain/webhook.ts";

/**
 * Every request and response once: types, validation and the OpenAPI document come from here.
 * A schema with a `title` becomes a named component of the document. All objects are closed.
 *
 * Fields with a default are components: generators of clients take a `default` that is written at the field itself
 * for a promise that the field is always there. `describedFormat` and `describedPattern` are `format` and
 * `pattern` in the document, and check nothing: the server's own checks give the errors.
 */

const TRANSCRIPTION_ID = "tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C";
const UPLOAD_ID = "up_01KAJ5KZQ8D3F5G7H9J1K3M5N7";
const ENDPOINT_ID = "whe_01KAJ5KZQ8D3F5G7H9J1K3M5N7";
const USAGE_EVENT_ID = "ue_01KAJ5M9T4R2W6S8V1X3Z5B7D9";
const ORGANIZATION_ID = "org_01KAJ5M9T4R2W6S8V1X3Z5B7D9";
/** Every server has the demonstration model until another one is installed. */
const MODEL_ID = "demo";
const MAX_ID_LENGTH = 64;

/** Options of a component: its name in the document and one complete example. */
type Named = { title: string; description: string; examples: unknown[] };

function closed<T extends TProperties>(properties: T, options: Partial<Named> = {}) {
  return Type.Object(properties, { additionalProperties: false, ...options });
}

/** One of some words. */
export function oneOf<const T extends string>(words: readonly T[], options: object = {}) {
  return Type.Union(
    words.map((word) => Type.Literal(word)),
    options,
  ) as unknown as TSchema & { static: T; params: [] };
}

const timestamp = (description: string) =>
  Type.String({
    describedFormat: "date-time",
    description: `${description} RFC 3339, UTC, milliseconds.`,
    examples: ["2026-11-21T04:05:06.789Z"],
  });
const identifier = (description: string, example: string) =>
  Type.String({ description, minLength: 1, maxLength: MAX_ID_LENGTH, examples: [example] });
const seconds = (description: string) =>
  Type.Number({ minimum: 0, description: `${description} Seconds, at most three decimals.` });
const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

// —— Errors (docs/interface.md section 7) ——

export const ErrorObject = closed(
  {
    error: closed({
      code: oneOf(ERROR_CODES, { description: "Stable; clients branch on it." }),
      message: Type.String({ description: "For people; may be reworded." }),
      detail: Type.Optional(
        Type.String({ description: "Dotted name of the field, parameter or capability involved." }),
      ),
    }),
  },
  {
    title: "Error",
    description: "Body of every error response.",
    examples: [
      {
        error: {
          code: "capability_unavailable",
          message: "This capability is not available yet.",
          detail: "language.auto",
        },
      },
    ],
  },
);
export type ErrorObject = Static<typeof ErrorObject>;

// —— Transcriptions (docs/interface.md sections 2.1 to 2.3 and 4.1 to 4.7) ——

const language = Type.String({
  minLength: 1,
  maxLength: 35,
  description: "A code that the model lists in GET /v1/models. `auto` is announced and refused.",
  examples: ["hi"],
});
export const Mode = oneOf(MODES, {
  title: "Mode",
  examples: ["native"],
  default: "native",
  description:
    "`native`: the language's own script; `codemix`: English words in Latin letters; `verbatim`: exactly what was said.",
});
export const Timestamps = oneOf(TIMESTAMPS, {
  title: "Timestamps",
  examples: ["segment"],
  default: "segment",
  description:
    "Whether segments carry times. `word`: words, too; refused unless GET /v1/models says that `timestamps.word` is `available`.",
});
export const ChannelMode = oneOf(CHANNEL_MODES, {
  title: "ChannelMode",
  examples: ["mix"],
  default: "mix",
  description: "`separate` transcribes each channel on its own and is billed per channel.",
});
export const Numerals = oneOf(NUMERALS, {
  title: "Numerals",
  examples: ["written"],
  default: "spoken",
  description:
    "`spoken`: numbers as they were said; `written`: numbers, money, dates and times in figures. Only with `capabilities.written_form`.",
});
export const Task = oneOf(TASKS, {
  title: "Task",
  examples: ["translate"],
  default: "transcribe",
  description:
    "`transcribe`: text in the language that is spoken; `translate`: text in English. Only with `capabilities.translation`.",
});
const script = Type.String({
  minLength: 1,
  maxLength: 16,
  description:
    "Script of the text: `native`, `latin` as people type it, `iso15919`, or a code of ISO 15924 in lower case. Only with `capabilities.written_form`.",
  examples: ["latin"],
});
/** Fields of requests that exist only where the config switches them on. */
export const WRITTEN_FORM_FIELDS = ["numerals", "script"] as const;
export const ADDRESS_FIELDS = ["audio.source_url", "results_to"] as const;
export const METADATA_FIELD = "metadata";
export const TASK_FIELD = "task";
export const Metadata = Type.Record(
  Type.String({ pattern: METADATA_NAME_PATTERN }),
  Type.String({ maxLength: MAX_METADATA_VALUE }),
  {
    title: "Metadata",
    additionalProperties: false,
    maxProperties: MAX_METADATA_KEYS,
    examples: [{ agent: "12", caller: "9820012345" }],
    description:
      "What you note of it: at most 16 texts of 500 characters by names of 40 letters, digits, `_` and `-`. It is deleted with the transcript. Only with `capabilities.metadata`.",
  },
);
const modelId = Type.String({
  minLength: 1,
  maxLength: 128,
  description: "ID of a model that GET /v1/models lists; left out: the default model.",
  examples: [MODEL_ID],
});
const speakerCount = (description: string) =>
  Type.Integer({ minimum: 1, maximum: MAX_SPEAKERS, description });

export const Diarization = Type.Union(
  [
    Type.Boolean(),
    closed({ speakers: speakerCount("Exact number of speakers.") }),
    closed({
      min_speakers: speakerCount("Fewest speakers; not above max_speakers."),
      max_speakers: speakerCount("Most speakers."),
    }),
  ],
  {
    title: "Diarization",
    // Generators for Go write a default of a union as code that does not compile.
    examples: [true, { speakers: 2 }],
    description:
      "Label segments by speaker: true finds the number, an object gives it or its bounds. Left out: false.",
  },
);

const sourceUrl = Type.String({
  minLength: 1,
  maxLength: 2048,
  description:
    "Address from which the server fetches the recording: `https://` to a host that the config lists, or `s3://bucket/key` of a bucket that an admin has added.",
  examples: ["https://files.example/calls/0412.wav", "s3://calls/2026/0412.wav"],
});

export const TranscriptionCreate = closed(
  {
    audio: closed(
      {
        upload_id: Type.Optional(identifier("A complete upload of this project.", UPLOAD_ID)),
        source_url: Type.Optional(sourceUrl),
      },
      { description: "`upload_id`, or with `intake.url` in the config `source_url` instead." },
    ),
    language,
    task: Type.Optional(Task),
    mode: Type.Optional(Mode),
    timestamps: Type.Optional(Timestamps),
    diarization: Type.Optional(Diarization),
    channel_mode: Type.Optional(ChannelMode),
    numerals: Type.Optional(Numerals),
    script: Type.Optional(script),
    metadata: Type.Optional(Metadata),
    webhook_endpoint_id: Type.Optional(
      identifier("Endpoint that receives the event of the end.", ENDPOINT_ID),
    ),
    model: Type.Optional(modelId),
    results_to: Type.Optional(
      closed(
        {
          url: Type.String({
            minLength: 1,
            maxLength: 2048,
            description: "Folder of a bucket, such as `s3://bucket/results/`.",
          }),
          formats: Type.Optional(
            Type.Array(oneOf(RESULT_COPY_FORMATS), {
              minItems: 1,
              maxItems: 4,
              description: "Left out: `json`.",
            }),
          ),
        },
        { description: "Where the result is written, too. Only with `intake.url` in the config." },
      ),
    ),
  },
  {
    title: "TranscriptionCreate",
    description: "What to transcribe, and how.",
    examples: [
      {
        audio: { upload_id: UPLOAD_ID },
        language: "hi",
        mode: "codemix",
        diarization: { min_speakers: 2, max_speakers: 4 },
        webhook_endpoint_id: ENDPOINT_ID,
      },
    ],
  },
);
export type TranscriptionCreate = Static<typeof TranscriptionCreate>;

/** A form has text only. What it says is read in `requests.ts`. */
export const DiarizationField = Type.String({
  title: "DiarizationField",
  maxLength: 200,
  examples: ["true", '{"speakers": 2}'],
  default: "false",
  description:
    "Label segments by speaker: `true`, `false`, or as JSON the object with the number of speakers or its bounds.",
});

export const MetadataField = Type.String({
  title: "MetadataField",
  examples: ['{"agent": "12"}'],
  description:
    "`metadata` as JSON. Fields such as `metadata[agent]` say the same. Only with `capabilities.metadata`.",
});

export const AudioForm = closed(
  {
    file: Type.String({
      description:
        "The audio file; its format is found from its content. A file without a header is read as its name or media type says.",
      contentMediaType: "application/octet-stream",
      describedFormat: "binary",
    }),
    language,
    task: Type.Optional(Task),
    mode: Type.Optional(Mode),
    timestamps: Type.Optional(Timestamps),
    diarization: Type.Optional(DiarizationField),
    channel_mode: Type.Optional(ChannelMode),
    numerals: Type.Optional(Numerals),
    script: Type.Optional(script),
    metadata: Type.Optional(MetadataField),
    model: Type.Optional(modelId),
  },
  {
    title: "AudioForm",
    description: "Fields of the form. Limits of the file are published by GET /v1/models.",
    examples: [{ file: "", language: "hi", mode: "native", timestamps: "segment" }],
  },
);
export type AudioForm = Static<typeof AudioForm>;

const REQUEST_ECHO = {
  language: "hi",
  mode: "codemix",
  timestamps: "segment",
  diarization: true,
  channel_mode: "mix",
};

export const Transcription = closed(
  {
    id: identifier("Identifier.", TRANSCRIPTION_ID),
    object: Type.Literal("transcription"),
    model: modelId,
    version: Type.String({ description: "Version of the model, fixed when the request was accepted." }),
    state: oneOf(TRANSCRIPTION_STATES),
    request: closed({
      language: Type.String(),
      task: Type.Optional(oneOf(["translate"])),
      mode: oneOf(MODES),
      timestamps: oneOf(TIMESTAMPS),
      diarization: Type.Optional(Type.Boolean()),
      channel_mode: oneOf(CHANNEL_MODES),
      numerals: Type.Optional(oneOf(NUMERALS)),
      script: Type.Optional(Type.String()),
    }),
    created_at: timestamp("When it was accepted."),
    finished_at: nullable(timestamp("When it ended; null until then.")),
    result_url: Type.Optional(
      Type.String({
        describedFormat: "uri",
        description: "Absolute address of the result, while there is one.",
      }),
    ),
    error: Type.Optional(
      closed({ code: oneOf(ERROR_CODES), message: Type.String() }, { description: "Why it failed." }),
    ),
    content_deleted_at: Type.Optional(timestamp("When the recording and its transcript were deleted.")),
    metadata: Type.Optional(Metadata),
    duration_seconds: Type.Optional(seconds("Length of the recording.")),
    progress: Type.Optional(
      Type.Number({ minimum: 0, maximum: 1, description: "Share of the audio that is done." }),
    ),
    source: Type.Optional(
      closed(
        {
          url: Type.String({ description: "The address, without user and query." }),
          state: oneOf(SOURCE_STATES),
          total_bytes: Type.Optional(Type.Integer({ minimum: 1, description: "Where it is known." })),
          message: Type.Optional(
            Type.String({ description: "Why the last attempt failed, while another follows." }),
          ),
        },
        { description: "Where the recording is fetched from; left out for a recording that was sent." },
      ),
    ),
    results_to: Type.Optional(
      closed(
        {
          url: Type.String({ description: "As requested." }),
          formats: Type.Array(oneOf(RESULT_COPY_FORMATS)),
          state: oneOf(RESULT_COPY_STATES),
          message: Type.Optional(Type.String({ description: "Why the last attempt failed." })),
        },
        { description: "Where the result is written, too." },
      ),
    ),
    queue_position: Type.Optional(
      Type.Integer({
        minimum: 0,
        description:
          "While queued: how many of the organization are ahead, because they have less audio, or as much and were first.",
      }),
    ),
  },
  {
    title: "Transcription",
    description: "One requested piece of work.",
    examples: [
      {
        id: TRANSCRIPTION_ID,
        object: "transcription",
        model: MODEL_ID,
        version: "1.2.0",
        state: "completed",
        request: REQUEST_ECHO,
        created_at: "2026-11-21T04:05:06.789Z",
        finished_at: "2026-11-21T04:06:30.120Z",
        result_url: `https://speech.example/v1/transcriptions/${TRANSCRIPTION_ID}/result`,
        duration_seconds: 421.5,
        progress: 1,
      },
    ],
  },
);
export type Transcription = Static<typeof Transcription>;

export const TranscriptionList = closed(
  {
    object: Type.Literal("list"),
    data: Type.Array(Transcription, { description: "Newest first." }),
    next: nullable(
      Type.String({ description: "Pass it as `after` to get the next page; null on the last." }),
    ),
  },
  {
    title: "TranscriptionList",
    description: "A page of transcriptions.",
    examples: [{ object: "list", data: [], next: null }],
  },
);
export type TranscriptionList = Static<typeof TranscriptionList>;

const confidence = Type.Number({ minimum: 0, maximum: 1, description: "How sure the model was." });
const channel = Type.Integer({
  minimum: 0,
  description: "Channel, from 0; only with channel mode `separate`.",
});

export const Word = closed(
  {
    text: Type.String({ description: "Without white space; with the punctuation that belongs to it." }),
    start: seconds("Start on the recording's own clock."),
    end: seconds("End on the recording's own clock."),
    confidence,
  },
  {
    title: "Word",
    description: "A word of a segment. Words of a segment are in the order of time and do not overlap.",
    examples: [{ text: "नमस्ते,", start: 0.42, end: 0.98, confidence: 0.97 }],
  },
);

const offset = (description: string) => Type.Integer({ minimum: 0, description });
export const Written = closed(
  {
    start: offset("Where the figures begin in the segment's text, in UTF-16 units."),
    end: offset("Behind their last unit."),
    kind: Type.String({ description: "What they are, such as `money`, `date` or `phone`." }),
    value: Type.String({
      description:
        "Numbers in decimal, ₹ in paise, other money as `USD 25.50`, dates, times and durations after ISO 8601.",
    }),
    spoken: Type.String({ description: "The words that were said, in the language's own script." }),
  },
  {
    title: "Written",
    description: "Words that were rewritten in figures.",
    examples: [{ start: 5, end: 15, kind: "money", value: "125000000", spoken: "बारह लाख पचास हज़ार रुपये" }],
  },
);

export const Segment = closed(
  {
    index: Type.Integer({ minimum: 0, description: "Position in the result, from 0." }),
    start: Type.Optional(seconds("Start on the recording's own clock; absent with timestamps `none`.")),
    end: Type.Optional(seconds("End on the recording's own clock; absent with timestamps `none`.")),
    text: Type.String(),
    language: Type.String({ description: "ISO 639 code." }),
    confidence,
    speaker: Type.Optional(
      Type.String({ description: "`speaker_1`, … in order of first appearance; only with diarization." }),
    ),
    channel: Type.Optional(channel),
    words: Type.Optional(
      Type.Array(Word, {
        description:
          "The words of the text; only with timestamps `word`, and absent where the words have no times.",
      }),
    ),
    written: Type.Optional(
      Type.Array(Written, { description: "What was rewritten in figures; with `numerals` = `written`." }),
    ),
    native_text: Type.Optional(
      Type.String({
        description: "The text as it was said, in the language's own script; where `text` is in another.",
      }),
    ),
  },
  {
    title: "Segment",
    description: "One stretch of the transcript.",
    examples: [
      {
        index: 0,
        start: 0.42,
        end: 3.1,
        text: "नमस्ते, आप कैसे हैं?",
        language: "hi",
        confidence: 0.94,
        speaker: "speaker_1",
      },
    ],
  },
);

export const Gap = closed(
  {
    start: seconds("Start."),
    end: seconds("End."),
    reason: oneOf(GAP_REASONS),
    channel: Type.Optional(channel),
  },
  {
    title: "Gap",
    description: "A stretch of speech that could not be transcribed, and is not charged.",
    examples: [{ start: 61.2, end: 88.75, reason: "engine_error" }],
  },
);

const audioTrack = Type.Integer({ minimum: 0, description: "From 0, in the order of the file." });

const AudioTracks = closed(
  { transcribed: audioTrack, left_out: Type.Array(audioTrack, { minItems: 1 }) },
  { description: "Which audio tracks of the file; present with the warning `tracks_left_out`." },
);

export const Unrecognized = closed(
  { start: seconds("Start."), end: seconds("End."), channel: Type.Optional(channel) },
  {
    title: "Unrecognized",
    description: "A stretch of speech whose words the model does not know. It is charged.",
    examples: [{ start: 12.4, end: 15.1 }],
  },
);

export const LanguageCandidate = closed(
  {
    language: Type.String({ description: "ISO 639 code, or the model's own code." }),
    probability: Type.Number({ minimum: 0, maximum: 1 }),
  },
  {
    title: "LanguageCandidate",
    description: "A language that may be spoken.",
    examples: [{ language: "hi", probability: 0.93 }],
  },
);

export const TranscriptionResult = closed(
  {
    id: identifier("Identifier of the transcription.", TRANSCRIPTION_ID),
    object: Type.Literal("transcription.result"),
    model: modelId,
    version: Type.String(),
    status: oneOf(["completed", "partial"]),
    task: Type.Optional(oneOf(["translate"])),
    mode: oneOf(MODES),
    metadata: Type.Optional(Metadata),
    duration_seconds: seconds("Length of the recording."),
    channels: Type.Integer({ minimum: 1, description: "Channels of the recording." }),
    languages: Type.Array(Type.String(), { description: "Codes found in the segments." }),
    text: Type.String({ description: "The full transcript." }),
    segments: Type.Array(Segment, { description: "Ordered by start, then channel." }),
    warnings: Type.Array(oneOf(WARNINGS)),
    gaps: Type.Optional(Type.Array(Gap, { description: "What is missing; present with status `partial`." })),
    audio_tracks: Type.Optional(AudioTracks),
    unrecognized: Type.Optional(
      Type.Array(Unrecognized, { description: "Present with the warning `unrecognized_speech`." }),
    ),
    language_candidates: Type.Optional(
      Type.Array(LanguageCandidate, {
        description: "The most probable first; present with the warning `language_mismatch`.",
      }),
    ),
  },
  {
    title: "TranscriptionResult",
    description: "The outcome of a completed or partial transcription.",
    examples: [
      {
        id: TRANSCRIPTION_ID,
        object: "transcription.result",
        model: MODEL_ID,
        version: "1.2.0",
        status: "completed",
        mode: "native",
        duration_seconds: 3.5,
        channels: 1,
        languages: ["hi"],
        text: "नमस्ते, आप कैसे हैं?",
        segments: [
          { index: 0, start: 0.42, end: 3.1, text: "नमस्ते, आप कैसे हैं?", language: "hi", confidence: 0.94 },
        ],
        warnings: [],
      },
    ],
  },
);
export type TranscriptionResult = Static<typeof TranscriptionResult>;

// —— Listening (docs/console.md section 2) ——

export const Waveform = closed(
  {
    id: identifier("Identifier of the transcription.", TRANSCRIPTION_ID),
    object: Type.Literal("transcription.waveform"),
    duration_seconds: seconds("Length of the recording."),
    seconds_per_peak: Type.Number({ exclusiveMinimum: 0, description: "Length of sound behind one peak." }),
    lanes: Type.Array(
      closed({
        channel: Type.Optional(channel),
        peaks: Type.String({
          contentEncoding: "base64",
          description:
            "One byte for each peak, in base64: the largest sample, 0 for silence to 255 for full scale. The last one may cover less sound.",
        }),
        speech: nullable(
          Type.Array(Type.Array(Type.Number({ minimum: 0 }), { minItems: 2, maxItems: 2 }), {
            description:
              "Start and end of each stretch in which speech was found, in seconds and in order; null while it has not been looked for.",
          }),
        ),
      }),
      { minItems: 1, description: "One, or with channel mode `separate` one for each channel." },
    ),
  },
  {
    title: "Waveform",
    description: "The shape of a recording's sound.",
    examples: [
      {
        id: TRANSCRIPTION_ID,
        object: "transcription.waveform",
        duration_seconds: 0.06,
        seconds_per_peak: 0.02,
        lanes: [{ peaks: "AICA", speech: [[0.01, 0.05]] }],
      },
    ],
  },
);
export type Waveform = Static<typeof Waveform>;

export const AudioLink = closed(
  {
    id: identifier("Identifier of the transcription.", TRANSCRIPTION_ID),
    object: Type.Literal("transcription.audio_link"),
    url: Type.String({
      describedFormat: "uri",
      description: "Absolute address of the audio. It opens without the key until the link expires.",
    }),
    expires_at: timestamp("When the link expires. A new one can be asked for at any time."),
  },
  {
    title: "AudioLink",
    description: "An address for players that cannot send a key.",
    examples: [
      {
        id: TRANSCRIPTION_ID,
        object: "transcription.audio_link",
        url: `https://speech.example/v1/transcriptions/${TRANSCRIPTION_ID}/audio?link=alt_example`,
        expires_at: "2026-11-21T08:05:06.789Z",
      },
    ],
  },
);
export type AudioLink = Static<typeof AudioLink>;

// —— Queries ——

const limit = Type.Integer({ minimum: 1, maximum: 100, default: 20, description: "Page size." });
const after = Type.String({
  describedPattern: "^[a-z]+_[0-9A-HJKMNP-TV-Z]{26}$",
  minLength: 1,
  maxLength: MAX_ID_LENGTH,
  description: "The `next` of the previous page.",
});

export const TranscriptionListQuery = closed({
  limit: Type.Optional(limit),
  after: Type.Optional(after),
  state: Type.Optional(
    Type.String({ minLength: 1, description: "States, separated by commas, such as `completed,partial`." }),
  ),
  metadata: Type.Optional(Metadata),
});
export type TranscriptionListQuery = Static<typeof TranscriptionListQuery>;

const limitOfSubtitles = ({ min, max }: { min: number; max: number }, description: string) =>
  Type.Optional(
    Type.Integer({ minimum: min, maximum: max, description: `${description} Only of subtitles.` }),
  );

export const ResultQuery = closed({
  format: Type.Optional(
    oneOf(["json", "srt", "vtt", "text", "ctm"], {
      description: "Form of the answer; it goes before `Accept`. `ctm` needs word times.",
    }),
  ),
  word_times: Type.Optional(
    oneOf(["1", "true"], {
      description: "Each word has its time in the cues. Only of WebVTT, with word times.",
    }),
  ),
  max_line_characters: limitOfSubtitles(
    SUBTITLE_BOUNDS.maxLineCharacters,
    "Characters of a line; wide ones count as two. Left out: 42.",
  ),
  max_lines: limitOfSubtitles(SUBTITLE_BOUNDS.maxLines, "Lines of a cue. Left out: 2."),
  max_cue_seconds: limitOfSubtitles(
    SUBTITLE_BOUNDS.maxCueSeconds,
    "How long a cue stays. Left out: 7 where words have times, else as long as the segment.",
  ),
  download: Type.Optional(
    oneOf(["1", "true"], { description: "The answer is a file to save, named after the transcription." }),
  ),
});

export type ResultQuery = Static<typeof ResultQuery>;

export const AudioQuery = closed({
  link: Type.Optional(
    Type.String({ minLength: 1, maxLength: 128, description: "Of an audio link; it replaces the key." }),
  ),
});

export const UsageQuery = closed({ limit: Type.Optional(limit), after: Type.Optional(after) });
export type UsageQuery = Static<typeof UsageQuery>;

// —— Uploads (docs/interface.md sections 2.4, 4.8 to 4.10) ——

const uploadBytes = Type.Integer({ minimum: 1, description: "Size of the file, bytes." });
const headerMap = (description: string) => Type.Record(Type.String(), Type.String(), { description });

export const UploadCreate = closed(
  {
    bytes: uploadBytes,
    sha256: Type.Optional(
      Type.String({
        pattern: "^[0-9a-f]{64}$",
        description: "SHA-256 of the file in lower-case hex; other bytes are rejected.",
      }),
    ),
  },
  {
    title: "UploadCreate",
    description: "Announces a file.",
    examples: [
      { bytes: 7_340_032, sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" },
    ],
  },
);
export type UploadCreate = Static<typeof UploadCreate>;

const UPLOAD_HEADERS = { authorization: "Bearer <upload token>", "content-type": "application/octet-stream" };

export const UploadCreated = closed(
  {
    id: identifier("Identifier.", UPLOAD_ID),
    object: Type.Literal("upload"),
    state: Type.Literal("allocated"),
    bytes: uploadBytes,
    expires_in: Type.Integer({ minimum: 0, description: "Seconds until the bytes must have arrived." }),
    upload: closed(
      {
        method: Type.String(),
        url: Type.String(),
        headers: headerMap("Header fields to send with the file."),
      },
      { description: "Where and how to send the file in one request; no project key is needed there." },
    ),
    resumable_upload: Type.Optional(
      closed(
        {
          protocol: Type.Literal("tus"),
          endpoint: Type.String({ description: "Takes the creation request." }),
          chunk_size: Type.Integer({ minimum: 1, description: "Bytes." }),
          headers: headerMap("Header fields to send with every request."),
          metadata: Type.Record(Type.String(), Type.String(), { description: "For `Upload-Metadata`." }),
        },
        { description: "tus 1.0; recommended above 50 MB." },
      ),
    ),
  },
  {
    title: "UploadCreated",
    description: "A place for a file to be sent to.",
    examples: [
      {
        id: UPLOAD_ID,
        object: "upload",
        state: "allocated",
        bytes: 7_340_032,
        expires_in: 86_400,
        upload: {
          method: "PUT",
          url: `https://speech.example/storage/uploads/${UPLOAD_ID}`,
          headers: UPLOAD_HEADERS,
        },
        resumable_upload: {
          protocol: "tus",
          endpoint: "https://speech.example/storage/tus",
          chunk_size: 8_388_608,
          headers: { authorization: "Bearer <upload token>" },
          metadata: { upload_id: UPLOAD_ID },
        },
      },
    ],
  },
);
export type UploadCreated = Static<typeof UploadCreated>;

export const Upload = closed(
  {
    id: identifier("Identifier.", UPLOAD_ID),
    object: Type.Literal("upload"),
    state: oneOf(UPLOAD_STATES),
    bytes: Type.Optional(uploadBytes),
    duration_seconds: Type.Optional(seconds("Length of the recording, once verified.")),
    channels: Type.Optional(Type.Integer({ minimum: 1, description: "Once verified." })),
    deleted: Type.Optional(Type.Boolean({ description: "True once the audio was deleted." })),
    error: Type.Optional(
      closed(
        { code: oneOf(UPLOAD_ERROR_CODES), message: Type.Optional(Type.String()) },
        { description: "Why it was rejected." },
      ),
    ),
  },
  {
    title: "Upload",
    description: "The resource that receives audio.",
    examples: [
      {
        id: UPLOAD_ID,
        object: "upload",
        state: "complete",
        bytes: 7_340_032,
        duration_seconds: 421.5,
        channels: 1,
      },
    ],
  },
);
export type Upload = Static<typeof Upload>;

// —— Models (docs/interface.md section 2.5, docs/decisions/models.md) ——

const capabilityStatus = oneOf(["available", "coming_soon"]);

export const Model = closed(
  {
    id: modelId,
    object: Type.Literal("model"),
    name: Type.String(),
    version: Type.String(),
    default: Type.Boolean({
      description: "Used by requests that name no model, in all languages that no other model serves.",
    }),
    default_languages: Type.Array(Type.String(), {
      description: "Codes of the languages in which requests that name no model use this one.",
    }),
    languages: Type.Array(
      closed({
        code: Type.String(),
        name: Type.String(),
        modes: Type.Array(oneOf(MODES)),
        numerals: Type.Optional(
          Type.Array(oneOf(NUMERALS), { description: "Values of `numerals`, where they are switched on." }),
        ),
        scripts: Type.Optional(
          Type.Array(Type.String(), { description: "Values of `script`, where they are switched on." }),
        ),
      }),
    ),
    modes: Type.Array(oneOf(MODES)),
    capabilities: closed(
      {
        ...(Object.fromEntries(CAPABILITIES.map((name) => [name, capabilityStatus])) as Record<
          (typeof CAPABILITIES)[number],
          typeof capabilityStatus
        >),
        ...(Object.fromEntries(
          EXTENSION_CAPABILITIES.map((name) => [name, Type.Optional(capabilityStatus)]),
        ) as Record<(typeof EXTENSION_CAPABILITIES)[number], TOptional<typeof capabilityStatus>>),
      },
      {
        description:
          "What is `coming_soon` is refused with `capability_unavailable`. `task.translate` is there where `capabilities.translation` is on.",
      },
    ),
    diarization: closed(
      { method: oneOf(["acoustic", "neural"]) },
      {
        description:
          "How speakers are distinguished: by the built-in acoustic method, or with installed weights.",
      },
    ),
    limits: closed({
      synchronous: closed({
        max_bytes: Type.Integer(),
        max_duration_seconds: Type.Number(),
        timeout_seconds: Type.Number(),
      }),
      asynchronous: closed({
        max_bytes: Type.Integer(),
        max_duration_seconds: Type.Number(),
        max_channels: Type.Integer(),
      }),
    }),
    price_paise_per_audio_hour: Type.Integer(),
    notice: Type.Optional(Type.String({ description: "What to know before using it." })),
  },
  {
    title: "Model",
    description: "A model, what it can do, and its limits.",
    examples: [
      {
        id: MODEL_ID,
        object: "model",
        name: "Shruti demonstration",
        version: "2026-11-21.2",
        default: true,
        default_languages: ["hi", "en"],
        languages: [
          { code: "hi", name: "Hindi", modes: ["native", "codemix", "verbatim"] },
          { code: "en", name: "English", modes: ["native", "verbatim"] },
        ],
        modes: ["native", "codemix", "verbatim"],
        capabilities: {
          "mode.native": "available",
          "mode.codemix": "available",
          "mode.verbatim": "available",
          "timestamps.segment": "available",
          "timestamps.word": "coming_soon",
          "language.auto": "coming_soon",
          diarization: "available",
          "channel_mode.separate": "available",
        },
        diarization: { method: "acoustic" },
        limits: {
          synchronous: { max_bytes: 26_214_400, max_duration_seconds: 60, timeout_seconds: 120 },
          asynchronous: { max_bytes: 5_368_709_120, max_duration_seconds: 43_200, max_channels: 2 },
        },
        price_paise_per_audio_hour: 3000,
      },
    ],
  },
);
export type Model = Static<typeof Model>;

export const ModelList = closed(
  {
    object: Type.Literal("list"),
    data: Type.Array(Model, { description: "The default first." }),
    metadata: Type.Optional(
      Type.Literal(true, { description: "Requests and searches may have `metadata`: it is switched on." }),
    ),
  },
  {
    title: "ModelList",
    description: "Every installed model.",
    examples: [{ object: "list", data: [] }],
  },
);
export type ModelList = Static<typeof ModelList>;

// —— Usage (docs/interface.md section 2.6, docs/decisions/money.md) ——

export const UsageEvent = closed(
  {
    id: identifier("Identifier.", USAGE_EVENT_ID),
    object: Type.Literal("usage_event"),
    transcription_id: Type.String(),
    model: Type.String(),
    state: oneOf(TRANSCRIPTION_STATES, { description: "How the transcription ended." }),
    audio_seconds: seconds("Length of the recording."),
    billed_seconds: seconds("What was charged: transcribed time, times channels with `separate`."),
    channels: Type.Integer({ description: "Channels that were charged." }),
    amount_paise: Type.Integer(),
    created_at: timestamp("When the transcription finished."),
  },
  {
    title: "UsageEvent",
    description: "One finished transcription and what it cost.",
    examples: [
      {
        id: USAGE_EVENT_ID,
        object: "usage_event",
        transcription_id: TRANSCRIPTION_ID,
        model: MODEL_ID,
        state: "completed",
        audio_seconds: 421.5,
        billed_seconds: 421.5,
        channels: 1,
        amount_paise: 352,
        created_at: "2026-11-21T04:06:30.120Z",
      },
    ],
  },
);
export type UsageEvent = Static<typeof UsageEvent>;

export const Usage = closed(
  {
    object: Type.Literal("usage"),
    currency: Type.Literal("INR"),
    price_paise_per_audio_hour: Type.Integer(),
    credit: closed({
      balance_paise: Type.Integer({ description: "Grants minus charges." }),
      reserved_paise: Type.Integer({ description: "Held for unfinished transcriptions." }),
      available_paise: Type.Integer({ description: "Balance minus reserved." }),
    }),
    data: Type.Array(UsageEvent, { description: "Newest first." }),
    next: nullable(
      Type.String({ description: "Pass it as `after` to get the next page; null on the last." }),
    ),
  },
  {
    title: "Usage",
    description: "Credit of the organization, and this project's usage events.",
    examples: [
      {
        object: "usage",
        currency: "INR",
        price_paise_per_audio_hour: 3000,
        credit: { balance_paise: 100_000, reserved_paise: 352, available_paise: 99_648 },
        data: [],
        next: null,
      },
    ],
  },
);
export type Usage = Static<typeof Usage>;

// —— Webhook endpoints (docs/interface.md sections 2.7, 4.13) ——

const SubscribedEvents = Type.Array(oneOf(SUBSCRIBED_EVENT_TYPES), {
  uniqueItems: true,
  maxItems: SUBSCRIBED_EVENT_TYPES.length,
  description: "Events that it receives beside those of the transcriptions that name it.",
});

export const WebhookEndpointCreate = closed(
  {
    url: Type.String({
      describedPattern: "^[Hh][Tt][Tt][Pp][Ss]?://[^\\s\\\\#@/?]+([/?][^\\s\\\\#]*)?$",
      minLength: 1,
      maxLength: 2048,
      description: "HTTPS address that receives events.",
    }),
    events: Type.Optional(SubscribedEvents),
  },
  {
    title: "WebhookEndpointCreate",
    description: "Registers a receiver.",
    examples: [{ url: "https://hooks.example/transcriptions" }],
  },
);
export type WebhookEndpointCreate = Static<typeof WebhookEndpointCreate>;

export const WebhookEndpoint = closed(
  {
    id: identifier("Identifier.", ENDPOINT_ID),
    object: Type.Literal("webhook_endpoint"),
    url: Type.String(),
    secret: Type.String({ description: "Signing secret; this is the only time it is shown." }),
    events: Type.Optional(SubscribedEvents),
  },
  {
    title: "WebhookEndpoint",
    description: "A receiver of events.",
    examples: [
      {
        id: ENDPOINT_ID,
        object: "webhook_endpoint",
        url: "https://hooks.example/transcriptions",
        secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=",
      },
    ],
  },
);
export type WebhookEndpoint = Static<typeof WebhookEndpoint>;

export const WebhookEndpointView = closed(
  {
    id: identifier("Identifier.", ENDPOINT_ID),
    object: Type.Literal("webhook_endpoint"),
    url: Type.String(),
    state: oneOf(["enabled", "disabled"], {
      description: "A disabled one receives nothing until it is enabled.",
    }),
    disabled_reason: Type.Optional(Type.String({ description: "Why it was disabled; for people." })),
    created_at: timestamp("When it was registered."),
    previous_secret_expires_at: Type.Optional(
      timestamp("Until then events are signed with the previous secret as well."),
    ),
    events: SubscribedEvents,
    pending_deliveries: Type.Integer({ minimum: 0, description: "Events that wait for delivery." }),
    failed_deliveries: Type.Integer({ minimum: 0, description: "Events that were given up." }),
  },
  {
    title: "WebhookEndpointView",
    description: "A receiver of events, without its secret.",
    examples: [
      {
        id: ENDPOINT_ID,
        object: "webhook_endpoint",
        url: "https://hooks.example/transcriptions",
        state: "enabled",
        created_at: "2026-11-21T04:05:06.789Z",
        events: [],
        pending_deliveries: 0,
        failed_deliveries: 0,
      },
    ],
  },
);
export type WebhookEndpointView = Static<typeof WebhookEndpointView>;

export const WebhookEndpointList = closed(
  {
    object: Type.Literal("list"),
    data: Type.Array(WebhookEndpointView, { description: "Newest first." }),
    next: nullable(
      Type.String({ description: "Pass it as `after` to get the next page; null on the last." }),
    ),
  },
  {
    title: "WebhookEndpointList",
    description: "A page of webhook endpoints.",
    examples: [{ object: "list", data: [], next: null }],
  },
);
export type WebhookEndpointList = Static<typeof WebhookEndpointList>;

export const WebhookEndpointListQuery = closed({ limit: Type.Optional(limit), after: Type.Optional(after) });

export const WebhookEndpointRemoved = closed(
  {
    id: identifier("Identifier.", ENDPOINT_ID),
    object: Type.Literal("webhook_endpoint"),
    deleted: Type.Literal(true),
  },
  {
    title: "WebhookEndpointRemoved",
    description: "A receiver that gets no events any more.",
    examples: [{ id: ENDPOINT_ID, object: "webhook_endpoint", deleted: true }],
  },
);
export type WebhookEndpointRemoved = Static<typeof WebhookEndpointRemoved>;

export const SecretRotate = closed(
  {
    keep_previous_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 604_800,
        description: "How long the previous secret signs as well; left out: 24 hours; 0: it ends at once.",
      }),
    ),
  },
  {
    title: "SecretRotate",
    description: "How a secret is replaced.",
    examples: [{ keep_previous_seconds: 86_400 }],
  },
);

export const RotatedSecret = closed(
  {
    id: identifier("Identifier.", ENDPOINT_ID),
    object: Type.Literal("webhook_endpoint"),
    secret: Type.String({ description: "The new signing secret; this is the only time it is shown." }),
    previous_secret_expires_at: timestamp("Until then events carry two signatures, separated by a space."),
  },
  {
    title: "RotatedSecret",
    description: "An endpoint's new secret.",
    examples: [
      {
        id: ENDPOINT_ID,
        object: "webhook_endpoint",
        secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=",
        previous_secret_expires_at: "2026-11-22T04:05:06.789Z",
      },
    ],
  },
);
export type RotatedSecret = Static<typeof RotatedSecret>;

export const WebhookEvent = closed(
  {
    type: oneOf(EVENT_TYPES),
    data: closed({
      id: identifier("Identifier of the transcription.", TRANSCRIPTION_ID),
      state: oneOf(FINAL_STATES),
      error: Type.Optional(closed({ code: oneOf(ERROR_CODES), message: Type.String() })),
      metadata: Type.Optional(Metadata),
    }),
  },
  {
    title: "WebhookEvent",
    description: "Sent once a transcription is final, to its endpoint.",
    examples: [{ type: "transcription.completed", data: { id: TRANSCRIPTION_ID, state: "completed" } }],
  },
);

export const CreditLowEvent = closed(
  {
    type: oneOf(SUBSCRIBED_EVENT_TYPES),
    data: closed({
      organization_id: identifier("Identifier of the organization.", ORGANIZATION_ID),
      balance_paise: Type.Integer({ description: "Grants less charges, when it fell below the threshold." }),
      threshold_paise: Type.Integer({ minimum: 0, description: "The organization's, else the config's." }),
      created_at: timestamp("When it fell below the threshold."),
    }),
  },
  {
    title: "CreditLowEvent",
    description: "Sent once when the balance falls below the threshold, to endpoints registered for it.",
    examples: [
      {
        type: "credit.low",
        data: {
          organization_id: ORGANIZATION_ID,
          balance_paise: 4_800,
          threshold_paise: 5_000,
          created_at: "2026-11-21T04:05:06.789Z",
        },
      },
    ],
  },
);

// —— Operations (docs/decisions/health.md) ——

export const Health = closed(
  { status: Type.Literal("ok") },
  { title: "Health", description: "The program is alive.", examples: [{ status: "ok" }] },
);

export const Readiness = closed(
  { status: Type.Literal("ready") },
  { title: "Readiness", description: "The program can take work.", examples: [{ status: "ready" }] },
);

export const NotReady = closed(
  {
    status: Type.Literal("not_ready"),
    reasons: Type.Array(Type.String(), { minItems: 1, description: "For people; may be reworded." }),
  },
  {
    title: "NotReady",
    description: "The program cannot take work now.",
    examples: [{ status: "not_ready", reasons: ["the server is stopping"] }],
  },
);
