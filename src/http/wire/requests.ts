import { Type } from "@sinclair/typebox";
import type { Config } from "../../config/schema.ts";
import { AppError } from "../../domain/errors.ts";
import { type Metadata, metadataFault } from "../../domain/metadata.ts";
import type { DiarizationRequest, TranscriptionRequest } from "../../domain/transcription.ts";
import { inspectJson } from "../../lib/strict-json.ts";
import { checkValue } from "./parse.ts";
import {
  ADDRESS_FIELDS,
  type AudioForm,
  Diarization,
  METADATA_FIELD,
  Metadata as MetadataSchema,
  TASK_FIELD,
  type TranscriptionCreate,
  WRITTEN_FORM_FIELDS,
} from "./schemas.ts";

/** Returns the fields of a request that the config does not switch on (docs/decisions/extensions.md). */
export function withheldFields({ capabilities }: Config): readonly string[] {
  return [
    ...(capabilities.written_form ? [] : WRITTEN_FORM_FIELDS),
    ...(capabilities.metadata ? [] : [METADATA_FIELD]),
    ...(capabilities.translation ? [] : [TASK_FIELD]),
  ];
}

/** The field of forms that says how many people speak. */
export const DIARIZATION_FIELD = "diarization";

/** Returns fields that OpenAI's API does not know and its clients may send: the number of speakers, and what the config switches on. */
export function ownFields(config: Config): ReadonlySet<string> {
  const withheld = withheldFields(config);
  const own = [DIARIZATION_FIELD, ...WRITTEN_FORM_FIELDS, METADATA_FIELD];
  return new Set(own.filter((name) => !withheld.includes(name)));
}

/** Returns the fields of the asynchronous endpoint's request that the config does not switch on. */
export function withheldFromStart(config: Config): readonly string[] {
  return [...withheldFields(config), ...(config.intake.url ? [] : ADDRESS_FIELDS)];
}

/**
 * Reads which recording a request names.
 *
 * @throws AppError `invalid_request` unless it names one, by `audio.upload_id` or `audio.source_url`
 */
export function namedAudio({ audio }: TranscriptionCreate): { uploadId: string } | { sourceUrl: string } {
  const { upload_id: uploadId, source_url: sourceUrl } = audio;
  const refuse = (detail: string, message: string) => new AppError("invalid_request", { detail, message });
  if (uploadId !== undefined && sourceUrl !== undefined)
    throw refuse("audio.source_url", "A request names audio.upload_id or audio.source_url, not both.");
  if (uploadId !== undefined) return { uploadId };
  if (sourceUrl !== undefined) return { sourceUrl };
  throw refuse("audio.upload_id", "audio.upload_id is missing.");
}

/** The request of the asynchronous endpoint, defaults filled in (docs/interface.md section 4.1). */
export function requestOf(body: TranscriptionCreate): TranscriptionRequest {
  return withDefaults(body, diarizationOf(body.diarization), metadataOf(body.metadata));
}

/**
 * The request of the synchronous endpoint, defaults filled in (docs/decisions/limits.md, "Synchronous requests").
 *
 * @param metadata as `metadataOfForm` returns it
 */
export function requestOfForm(fields: AudioForm, metadata?: Metadata): TranscriptionRequest {
  return withDefaults(fields, diarizationOf(readField(fields.diarization)), metadata);
}

/** The name of a form's field that gives one member of the metadata, such as `metadata[agent]`. */
const MEMBER = /^metadata\[(.*)\]$/s;

/** Returns the field to which the part of a form belongs: `metadata` for `metadata[agent]`, else its own name. */
export const fieldOfPart = (name: string): string => (MEMBER.test(name) ? METADATA_FIELD : name);

/**
 * Reads the metadata of a form: JSON in `metadata`, and fields such as `metadata[agent]`, as OpenAI's clients write objects.
 *
 * @throws AppError `invalid_request` with the name of what does not fit
 */
export function metadataOfForm(fields: ReadonlyMap<string, string>): Metadata | undefined {
  const json = fields.get(METADATA_FIELD);
  const members = [...fields].flatMap(([field, value]): [string, string][] => {
    const name = MEMBER.exec(field)?.[1];
    return name === undefined ? [] : [[name, value]];
  });
  const whole = json === undefined ? {} : readObject(json);
  const repeated = members.find(([name]) => Object.hasOwn(whole, name));
  const duplicate = repeated && `${METADATA_FIELD}.${repeated[0]}`;
  const value = Object.fromEntries([...Object.entries(whole), ...members]);
  return metadataOf(checkValue(MetadataValue, { metadata: value }, duplicate).metadata);
}

const MetadataValue = Type.Object({ metadata: MetadataSchema });

/** The metadata that a text gives as JSON. @throws AppError `invalid_request` */
function readObject(text: string): Record<string, string> {
  let value: unknown;
  let duplicate: string | undefined;
  try {
    value = JSON.parse(text);
    ({ duplicate } = inspectJson(text));
  } catch {
    // `checkValue` refuses the missing value.
  }
  return checkValue(MetadataValue, { metadata: value }, duplicate && `${METADATA_FIELD}.${duplicate}`)
    .metadata;
}

/** The name of a form's field that gives one member of `diarization`, such as `diarization[speakers]`. */
const COUNT_MEMBER = /^diarization\[(.*)\]$/s;

/**
 * Reads how many people speak from a form of OpenAI's clients: JSON in `diarization`, as in the form of the synchronous
 * endpoint, or fields such as `diarization[speakers]`, as those clients write objects.
 *
 * @returns undefined where the form does not say it; false where it says that speakers are not distinguished
 * @throws AppError `invalid_request` or `unknown_parameter`, as for the asynchronous endpoint
 */
export function diarizationOfForm(
  fields: ReadonlyMap<string, string>,
): DiarizationRequest | false | undefined {
  const text = fields.get(DIARIZATION_FIELD);
  const members = [...fields].flatMap(([field, value]): [string, string | number][] => {
    const name = COUNT_MEMBER.exec(field)?.[1];
    return name === undefined ? [] : [[name, /^\d{1,9}$/.test(value) ? Number(value) : value]];
  });
  const [first] = members;
  if (!first) return text === undefined ? undefined : (diarizationOf(readField(text)) ?? false);
  const duplicate = text === undefined ? undefined : `${DIARIZATION_FIELD}.${first[0]}`;
  const value = { diarization: Object.fromEntries(members) };
  return diarizationOf(checkValue(FieldValue, value, duplicate).diarization) ?? false;
}

/** @throws AppError `invalid_request` or `unknown_parameter`, as for the asynchronous endpoint */
function readField(text = "false"): TranscriptionCreate["diarization"] {
  let value: unknown;
  let duplicate: string | undefined;
  try {
    if (/^(true|false|\{.*)$/s.test(text)) value = JSON.parse(text);
    if (value !== undefined) ({ duplicate } = inspectJson(text));
  } catch {
    // `checkValue` refuses the missing value.
  }
  return checkValue(FieldValue, { diarization: value }, duplicate && `diarization.${duplicate}`).diarization;
}

const FieldValue = Type.Object({ diarization: Diarization });

/** @throws AppError `invalid_request` with the name of a value that no metadata has; undefined: there is none */
function metadataOf(metadata: Metadata | undefined): Metadata | undefined {
  // No metadata is the same request as empty metadata.
  if (metadata === undefined || Object.keys(metadata).length === 0) return undefined;
  const fault = metadataFault(metadata);
  if (!fault) return metadata;
  const detail = fault.name === "" ? METADATA_FIELD : `${METADATA_FIELD}.${fault.name}`;
  throw new AppError("invalid_request", { detail, message: `${detail} ${fault.is}.` });
}

function withDefaults(
  values: Omit<AudioForm, "file" | "diarization" | "metadata">,
  diarization: DiarizationRequest | undefined,
  metadata: Metadata | undefined,
): TranscriptionRequest {
  return {
    language: values.language,
    ...(values.task === "translate" ? { task: values.task } : {}),
    mode: values.mode ?? "native",
    timestamps: values.timestamps ?? "segment",
    channelMode: values.channel_mode ?? "mix",
    ...(values.numerals === "written" ? { numerals: values.numerals } : {}),
    ...(values.script === undefined || values.script === "native" ? {} : { script: values.script }),
    ...(diarization === undefined ? {} : { diarization }),
    ...(metadata === undefined ? {} : { metadata }),
  };
}

/** docs/decisions/transcriptions.md, "Object form of `diarization`". */
function diarizationOf(value: TranscriptionCreate["diarization"]): DiarizationRequest | undefined {
  if (value === undefined || value === false) return undefined;
  if (value === true) return {};
  if ("speakers" in value) return { minSpeakers: value.speakers, maxSpeakers: value.speakers };
  if (value.min_speakers > value.max_speakers) {
    throw new AppError("invalid_request", {
      detail: "diarization.min_speakers",
      message: "diarization.min_speakers must not be above diarization.max_speakers.",
    });
  }
  return { minSpeakers: value.min_speakers, maxSpeakers: value.max_speakers };
}
