import type { Config } from "../../config/schema.ts";
import { AppError } from "../../domain/errors.ts";
import { type DiarizationRequest, NUMERALS, type TranscriptionRequest } from "../../domain/transcription.ts";
import type { ReceivedForm } from "../wire/multipart.ts";
import { DIARIZATION_FIELD, diarizationOfForm, fieldOfPart, metadataOfForm } from "../wire/requests.ts";
import { METADATA_FIELD, WRITTEN_FORM_FIELDS } from "../wire/schemas.ts";
import { languageCodeOf } from "./languages.ts";
import type { ModelNames } from "./model-names.ts";
import { RESPONSE_FORMATS, type ResponseFormat } from "./schemas.ts";

/** Parameters that are lists. */
const LISTS = [
  "timestamp_granularities",
  "include",
  "languages",
  "keywords",
  "known_speaker_names",
  "known_speaker_references",
];

/** Names that clients may write with and without brackets, and may repeat. */
export const LIST_FIELDS = LISTS.flatMap((name) => [name, `${name}[]`]);

/** A prompt has 224 tokens at most; what is longer is refused before it is judged. */
export const MAX_FIELD_BYTES = 16 * 1024;

/** What a request asks for, in this program's words. */
export type Wanted = {
  /** Undefined: the default model. */
  modelId: string | undefined;
  request: TranscriptionRequest;
  format: ResponseFormat;
  /** What has times in `verbose_json`. */
  granularities: ReadonlySet<Granularity>;
  isStream: boolean;
  /** Parameters that were ignored because an admin allows it, sorted. */
  ignored: string[];
};

type OpenAiConfig = Config["openai"];

const GRANULARITIES = ["segment", "word"] as const;
export type Granularity = (typeof GRANULARITIES)[number];

/** Reports whether a model, or without an ID the one for the language, can time words, and may. */
export type CanTimeWords = (modelId: string | undefined, language: string) => boolean;

/** Members of the parameters that are objects. A form carries each as a field, such as `chunking_strategy[type]`. */
const MEMBERS: Record<string, readonly string[]> = {
  chunking_strategy: ["type", "threshold", "prefix_padding_ms", "silence_duration_ms"],
  [DIARIZATION_FIELD]: ["speakers", "min_speakers", "max_speakers"],
};

/** Members whose value a parameter's rule judges; a value of any other is a preference. */
const JUDGED_MEMBERS = new Set(["chunking_strategy[type]"]);

/** What is made of a parameter that cannot be honoured. */
type Rule = {
  /** True for a value that changes nothing, or that describes what happens anyway. */
  isHarmless(value: string): boolean;
  /** Why any other value is refused. */
  reason: string;
};

const NO_TEXT = "recognition takes no text beside the recording.";
const RULES: Readonly<Record<string, Rule>> = {
  temperature: {
    isHarmless: (value) => Number(value) === 0,
    reason: "temperature other than 0 is not available: the decoder chooses its own.",
  },
  prompt: {
    isHarmless: (value) => value.trim() === "",
    reason: `prompt is not available: ${NO_TEXT}`,
  },
  keywords: {
    isHarmless: (value) => value.trim() === "",
    reason: `keywords is not available: ${NO_TEXT}`,
  },
  chunking_strategy: {
    isHarmless: (value) => ["auto", "server_vad", ""].includes(value),
    reason: "chunking_strategy must be auto: speech is always found by voice activity.",
  },
  timestamp_granularities: {
    isHarmless: (value) => value.split("\n").every((word) => word === "segment" || word === ""),
    reason: "timestamp_granularities must be segment, or word where the model can time words.",
  },
  include: {
    isHarmless: (value) => value === "",
    reason: "include is not available: tokens have no log probabilities here.",
  },
};

const ruleOf = (name: string): Rule | undefined => (Object.hasOwn(RULES, name) ? RULES[name] : undefined);

/** Returns the names under which a form may carry the parameters that an admin lets the server ignore. */
export function ignoredFieldsOf({ ignored_parameters: names }: OpenAiConfig): string[] {
  // Of these the value counts wherever it can be honoured.
  return names
    .map(parameterOf)
    .filter((name) => !READ.has(name))
    .flatMap((name) => [name, `${name}[]`, ...membersOf(name)]);
}

/** Fields that are read for what they say. */
const READ = new Set(["file", "model", "language", "response_format", "stream"]);

/** Parameters that are read, or judged by a rule. Of every other one the name alone is known. */
export const UNDERSTOOD: readonly string[] = [...READ, ...Object.keys(RULES)];

/** What clients of OpenAI's audio API send, whether it is honoured here or not. */
export const PARAMETERS: ReadonlySet<string> = new Set([...UNDERSTOOD, ...LISTS]);

/**
 * Reads a form of OpenAI's audio API. Each parameter is honoured, harmless, ignored by the admin's leave, or refused.
 *
 * @param canTimeWords undefined: words never have times
 * @param own Shruti's own fields that are parameters, too
 * @throws AppError `unknown_parameter`, `capability_unavailable`, `invalid_request` (also for an unknown model);
 *   `audio_too_large` for a part that was cut off
 */
export function wantedOf(
  form: ReceivedForm,
  config: OpenAiConfig,
  models: ModelNames,
  canTimeWords: CanTimeWords | undefined,
  own: ReadonlySet<string> = new Set(),
): Wanted {
  const ignorable = new Set(config.ignored_parameters.map(parameterOf));
  const ignored = new Set<string>();
  const names = new Set(
    form.names.map((name) => parameterOf(own.has(fieldOfPart(name)) ? fieldOfPart(name) : name)),
  );
  const leaveOut = (name: string) => {
    if (!ignorable.has(name)) throw refusalOf(name);
    ignored.add(name);
  };
  const granularities = canTimeWords && granularitiesOf(form);
  for (const name of names) {
    if (READ.has(name) || own.has(name) || isHarmless(form, name)) continue;
    // Whether words can have times depends on the model, which is read last.
    if (name !== "timestamp_granularities" || !granularities) leaveOut(name);
  }
  if (form.isCutOff) throw new AppError("audio_too_large", { detail: "file" });
  const { fault } = form;
  if (fault)
    throw new AppError("invalid_request", { detail: parameterOf(fault.name), message: fault.message });
  if (!form.file)
    throw new AppError("invalid_request", { detail: "file", message: "file is required, with a file name." });
  const format = formatOf(form.fields.get("response_format"));
  const isStream = isStreamed(form.fields.get("stream"), format);
  const request = {
    language: languageOf(form, config, ignorable, ignored),
    ...UNCHOSEN,
    ...ownFieldsOf(form, own),
    ...diarizationFor(format, own.has(DIARIZATION_FIELD) ? diarizationOfForm(form.fields) : undefined),
  };
  const modelId = models.idOf(form.fields.get("model"));
  const wanted = { modelId, request, format, granularities: ONLY_SEGMENTS, isStream };
  const done = () => ({ ignored: [...ignored].sort() });
  if (!canTimeWords || !granularities?.has("word")) return { ...wanted, ...done() };
  if (!canTimeWords(modelId, request.language)) leaveOut("timestamp_granularities");
  else if (format === "verbose_json")
    return { ...wanted, granularities, request: { ...request, timestamps: "word" }, ...done() };
  else if (ignorable.has("timestamp_granularities")) ignored.add("timestamp_granularities");
  else throw new AppError("invalid_request", NEEDS_VERBOSE);
  return { ...wanted, ...done() };
}

const NEEDS_VERBOSE = {
  detail: "timestamp_granularities",
  message: "timestamp_granularities with word needs response_format verbose_json.",
};
const ONLY_SEGMENTS: ReadonlySet<Granularity> = new Set(["segment"]);

/**
 * Speakers are distinguished where the answer has them. Their number is found unless the request gives it.
 *
 * @throws AppError `invalid_request` where the request says another thing than its answer can have
 */
function diarizationFor(
  format: ResponseFormat,
  given: DiarizationRequest | false | undefined,
): Pick<TranscriptionRequest, "diarization"> {
  const isDiarized = format === "diarized_json";
  if (given !== undefined && isDiarized !== (given !== false)) {
    const message = isDiarized
      ? "diarization cannot be false with response_format diarized_json."
      : "diarization needs response_format diarized_json.";
    throw new AppError("invalid_request", { detail: DIARIZATION_FIELD, message });
  }
  return isDiarized ? { diarization: given || {} } : {};
}

/** Reads what is to have times; undefined: it names something else. */
function granularitiesOf(form: ReceivedForm): ReadonlySet<Granularity> | undefined {
  const named = [...form.fields]
    .filter(([field]) => field === "timestamp_granularities" || field === "timestamp_granularities[]")
    .flatMap(([, value]) => value.split("\n"))
    .filter((value) => value !== "");
  const known = named.map((value) => GRANULARITIES.find((each) => each === value));
  return known.includes(undefined) ? undefined : new Set(known as Granularity[]);
}

/** Reads the fields of Shruti's own, which OpenAI's API does not have (docs/decisions/extensions.md). */
function ownFieldsOf(form: ReceivedForm, own: ReadonlySet<string>): Partial<TranscriptionRequest> {
  const metadata = own.has(METADATA_FIELD) ? metadataOfForm(form.fields) : undefined;
  return {
    ...(WRITTEN_FORM_FIELDS.some((name) => own.has(name)) ? writtenFormOf(form) : {}),
    ...(metadata === undefined ? {} : { metadata }),
  };
}

/** @throws AppError `invalid_request` for a value of `numerals` that there is not */
function writtenFormOf(form: ReceivedForm): Pick<TranscriptionRequest, "numerals" | "script"> {
  const numerals = form.fields.get("numerals") ?? "spoken";
  const script = form.fields.get("script") ?? "native";
  if (!NUMERALS.some((known) => known === numerals)) {
    const message = `numerals must be one of ${NUMERALS.join(", ")}.`;
    throw new AppError("invalid_request", { detail: "numerals", message });
  }
  return {
    ...(numerals === "written" ? { numerals } : {}),
    ...(script === "native" ? {} : { script }),
  };
}

/** What a request cannot choose. */
const UNCHOSEN = { mode: "native", timestamps: "segment", channelMode: "mix" } as const;

function membersOf(parameter: string): string[] {
  const members = Object.hasOwn(MEMBERS, parameter) ? MEMBERS[parameter] : undefined;
  return (members ?? []).map((member) => `${parameter}[${member}]`);
}

/**
 * Returns the parameter that a field belongs to: `include` for `include[]`, and `chunking_strategy` for
 * `chunking_strategy[type]`. Other names are returned as they are.
 */
function parameterOf(field: string): string {
  const at = field.indexOf("[");
  if (at < 0) return field;
  const name = field.slice(0, at);
  const isList = field === `${name}[]` && !READ.has(name);
  return isList || Object.hasOwn(MEMBERS, name) ? name : field;
}

function isHarmless(form: ReceivedForm, name: string): boolean {
  const rule = ruleOf(name);
  const fields = [...form.fields].filter(([field]) => parameterOf(field) === name);
  const isJudged = (field: string) => field === name || field === `${name}[]` || JUDGED_MEMBERS.has(field);
  return rule !== undefined && fields.every(([field, value]) => isJudged(field) && rule.isHarmless(value));
}

function refusalOf(name: string): AppError {
  const { reason } = ruleOf(name) ?? {};
  if (reason !== undefined) return new AppError("capability_unavailable", { detail: name, message: reason });
  const detail = name === "" ? "(empty)" : name.replaceAll(/[\p{C}\p{Z}]/gu, "?").slice(0, 200);
  return new AppError("unknown_parameter", { detail, message: `There is no parameter ${detail} here.` });
}

function formatOf(value: string | undefined): ResponseFormat {
  if (value === undefined || value === "") return "json";
  const format = RESPONSE_FORMATS.find((candidate) => candidate === value);
  if (format) return format;
  throw new AppError("invalid_request", {
    detail: "response_format",
    message: `response_format must be one of ${RESPONSE_FORMATS.join(", ")}.`,
  });
}

function isStreamed(value: string | undefined, format: ResponseFormat): boolean {
  const word = (value ?? "").toLowerCase();
  if (["", "false", "0"].includes(word)) return false;
  if (!["true", "1"].includes(word)) {
    throw new AppError("invalid_request", { detail: "stream", message: "stream must be true or false." });
  }
  if (format === "json" || format === "text") return true;
  throw new AppError("invalid_request", {
    detail: "stream",
    message: `stream gives text alone; response_format must be json or text, not ${format}.`,
  });
}

/** @throws AppError `invalid_request`, `capability_unavailable` where neither the request nor the config names a language */
function languageOf(
  form: ReceivedForm,
  { default_language: fallback }: OpenAiConfig,
  ignorable: ReadonlySet<string>,
  ignored: Set<string>,
): string {
  const given = (form.fields.get("language") ?? "").trim();
  const isAuto = given.toLowerCase() === "auto";
  if (given !== "" && !isAuto) return languageCodeOf(given);
  if (fallback === "") {
    const message = `${isAuto ? "language cannot be auto" : "language is required"}: the server cannot find it out. Send a language such as hi, or let the server's admin set openai.default_language, or one for the project.`;
    throw new AppError(isAuto ? "capability_unavailable" : "invalid_request", {
      detail: "language",
      message,
    });
  }
  if (!isAuto) return fallback;
  if (!ignorable.has("language")) {
    throw new AppError("capability_unavailable", {
      detail: "language",
      message: `language cannot be auto: the server cannot find it out. Leave it out to mean ${fallback}, or let the server's admin add language to openai.ignored_parameters.`,
    });
  }
  ignored.add("language");
  return fallback;
}
