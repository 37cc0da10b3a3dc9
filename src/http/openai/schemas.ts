import { type Static, type TProperties, Type } from "@sinclair/typebox";
import { TASKS } from "../../domain/transcription.ts";
import { oneOf } from "../wire/schemas.ts";

/**
 * Requests and responses of the OpenAI layer, as OpenAI's API reference defines them. A schema with a `title` becomes a
 * component of the OpenAPI document. All objects are closed.
 */

type Named = { title: string; description: string; examples: unknown[] };

function closed<T extends TProperties>(properties: T, options: Partial<Named> = {}) {
  return Type.Object(properties, { additionalProperties: false, ...options });
}

export const RESPONSE_FORMATS = ["json", "text", "srt", "verbose_json", "vtt", "diarized_json"] as const;
export type ResponseFormat = (typeof RESPONSE_FORMATS)[number];

export const OpenAiError = closed(
  {
    error: closed({
      message: Type.String({ description: "For people; may be reworded." }),
      type: Type.String({ description: "Kind of the error, such as `invalid_request_error`." }),
      param: Type.Union([Type.String(), Type.Null()], { description: "The field involved." }),
      code: Type.String({ description: "OpenAI's code where there is one, else the server's own." }),
    }),
  },
  {
    title: "OpenAiError",
    description: "Body of every error response below /openai/v1.",
    examples: [
      {
        error: {
          message: 'There is no model "whisper-2"; there is demo.',
          type: "invalid_request_error",
          param: "model",
          code: "model_not_found",
        },
      },
    ],
  },
);
export type OpenAiError = Static<typeof OpenAiError>;

export const OpenAiForm = closed(
  {
    file: Type.String({
      description: "The recording; its format is found from its content.",
      contentMediaType: "application/octet-stream",
      describedFormat: "binary",
    }),
    model: Type.Optional(
      Type.String({ description: "ID of an installed model, or an alias; left out: the default model." }),
    ),
    language: Type.Optional(
      Type.String({
        description:
          "Code, tag or English name: `hi`, `hi-IN`, `hindi`. Left out: the default of the project, else `openai.default_language`.",
      }),
    ),
    response_format: Type.Optional(
      oneOf(RESPONSE_FORMATS, {
        title: "OpenAiResponseFormat",
        examples: ["json"],
        default: "json",
        description: "Form of the answer; `diarized_json` distinguishes speakers.",
      }),
    ),
    stream: Type.Optional(
      Type.Boolean({
        description:
          "Server-sent events with the text as it is recognized; only with `json` and `text`. Left out: false.",
      }),
    ),
    temperature: Type.Optional(Type.String({ description: "0; other values are ignored." })),
    prompt: Type.Optional(Type.String({ description: "Ignored." })),
    chunking_strategy: Type.Optional(Type.String({ description: "`auto`; other values are ignored." })),
    "timestamp_granularities[]": Type.Optional(
      Type.Array(Type.String(), {
        description: "`segment`, and `word` with `verbose_json` where the model can time words.",
      }),
    ),
    diarization: Type.Optional(
      Type.String({
        description:
          'How many people speak, as JSON such as `{"speakers": 2}`, or in fields such as `diarization[speakers]`; only with `diarized_json`. Left out: their number is found.',
      }),
    ),
    numerals: Type.Optional(
      Type.String({ description: "`written`: numbers in figures; only with `capabilities.written_form`." }),
    ),
    script: Type.Optional(
      Type.String({ description: "Script of the text; only with `capabilities.written_form`." }),
    ),
    metadata: Type.Optional(
      Type.String({
        description:
          "What you note of it, as JSON, or in fields such as `metadata[agent]`; only with `capabilities.metadata`.",
      }),
    ),
  },
  {
    title: "OpenAiForm",
    description:
      "Fields of the form. What cannot be honoured is ignored where `openai.ignored_parameters` lists its field, and `x-ignored-parameters` names it; everything else is refused.",
    examples: [{ file: "", model: "whisper-1", language: "hi" }],
  },
);

const usage = Type.Optional(
  closed({ type: Type.Literal("duration"), seconds: Type.Integer({ description: "Length, rounded up." }) }),
);

export const OpenAiSegment = closed(
  {
    id: Type.Integer({ minimum: 0, description: "Position, from 0." }),
    seek: Type.Integer({ description: "Start, hundredths of a second." }),
    start: Type.Number({ description: "Seconds." }),
    end: Type.Number({ description: "Seconds." }),
    text: Type.String({ description: "Begins with a space, so that segments can be joined." }),
    tokens: Type.Array(Type.Integer(), { description: "Always empty." }),
    temperature: Type.Number({ description: "Always 0." }),
    avg_logprob: Type.Number({ description: "Natural logarithm of the segment's confidence." }),
    compression_ratio: Type.Number({ description: "Bytes of the text, by those of its zlib form." }),
    no_speech_prob: Type.Number({ description: "Always 0: what has no speech has no segment." }),
  },
  {
    title: "OpenAiSegment",
    description: "One stretch of the transcript.",
    examples: [
      {
        id: 0,
        seek: 42,
        start: 0.42,
        end: 3.1,
        text: " नमस्ते, आप कैसे हैं?",
        tokens: [],
        temperature: 0,
        avg_logprob: -0.062,
        compression_ratio: 1.12,
        no_speech_prob: 0,
      },
    ],
  },
);
export type OpenAiSegment = Static<typeof OpenAiSegment>;

export const OpenAiDiarizedSegment = closed(
  {
    type: Type.Literal("transcript.text.segment"),
    id: Type.String({ description: "`seg_` and the position, from 0." }),
    start: Type.Number({ description: "Seconds." }),
    end: Type.Number({ description: "Seconds." }),
    text: Type.String(),
    speaker: Type.String({
      description: "`A`, `B`, … in order of first appearance; `unknown` where no speaker was found.",
    }),
  },
  {
    title: "OpenAiDiarizedSegment",
    description: "What one speaker says, without a break.",
    examples: [
      { type: "transcript.text.segment", id: "seg_0", start: 0.42, end: 3.1, text: "नमस्ते", speaker: "A" },
    ],
  },
);
export type OpenAiDiarizedSegment = Static<typeof OpenAiDiarizedSegment>;

export const OpenAiWord = closed(
  {
    word: Type.String({ description: "Without white space; with the punctuation that belongs to it." }),
    start: Type.Number({ description: "Seconds." }),
    end: Type.Number({ description: "Seconds." }),
  },
  {
    title: "OpenAiWord",
    description: "A word of the transcript.",
    examples: [{ word: "नमस्ते,", start: 0.42, end: 0.98 }],
  },
);
export type OpenAiWord = Static<typeof OpenAiWord>;

/** `json`, `verbose_json` and `diarized_json`: the second has all fields, the third all but `language`. */
export const OpenAiTranscription = closed(
  {
    text: Type.String({ description: "The full transcript." }),
    task: Type.Optional(oneOf(TASKS)),
    language: Type.Optional(
      Type.String({ description: "English name of the text's language, in lower case." }),
    ),
    duration: Type.Optional(Type.Number({ description: "Length of the recording, seconds." })),
    segments: Type.Optional(
      Type.Union([Type.Array(OpenAiSegment), Type.Array(OpenAiDiarizedSegment)], {
        description: "Of `verbose_json`, or of `diarized_json`.",
      }),
    ),
    words: Type.Optional(
      Type.Array(OpenAiWord, {
        description:
          "Of `verbose_json` with `timestamp_granularities[]` = `word`; without words that have no times.",
      }),
    ),
    usage,
  },
  {
    title: "OpenAiTranscription",
    description:
      "`json` has `text` and `usage`, `verbose_json` has the other fields as well, `diarized_json` all but `language` and `words`.",
    examples: [{ text: "नमस्ते, आप कैसे हैं?", usage: { type: "duration", seconds: 4 } }],
  },
);
export type OpenAiTranscription = Static<typeof OpenAiTranscription>;

export const OpenAiModel = closed(
  {
    id: Type.String({ description: "ID of an installed model, or an alias." }),
    object: Type.Literal("model"),
    created: Type.Integer({ description: "Always 0: models have no date here." }),
    owned_by: Type.String({ description: "Always `shruti`." }),
  },
  {
    title: "OpenAiModel",
    description: "A name that requests can give as `model`.",
    examples: [{ id: "whisper-1", object: "model", created: 0, owned_by: "shruti" }],
  },
);
export type OpenAiModel = Static<typeof OpenAiModel>;

export const OpenAiModelList = closed(
  { object: Type.Literal("list"), data: Type.Array(OpenAiModel) },
  {
    title: "OpenAiModelList",
    description: "Installed models, the default first, then aliases.",
    examples: [{ object: "list", data: [] }],
  },
);
export type OpenAiModelList = Static<typeof OpenAiModelList>;
