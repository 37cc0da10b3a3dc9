import { Type } from "@sinclair/typebox";
import type { Config } from "../../config/schema.ts";
import { AppError } from "../../domain/errors.ts";
import type { DiarizationRequest, TranscriptionRequest } from "../../domain/transcription.ts";
import { inspectJson } from "../../lib/strict-json.ts";
import { checkValue } from "./parse.ts";
import { type AudioForm, Diarization, type TranscriptionCreate, WRITTEN_FORM_FIELDS } from "./schemas.ts";

/** Returns the fields of a request that the config does not switch on (docs/decisions/extensions.md). */
export function withheldFields({ capabilities }: Config): readonly string[] {
  return capabilities.written_form ? [] : WRITTEN_FORM_FIELDS;
}

/** The request of the asynchronous endpoint, defaults filled in (docs/interface.md section 4.1). */
export function requestOf(body: TranscriptionCreate): TranscriptionRequest {
  return withDefaults(body, diarizationOf(body.diarization));
}

/** The request of the synchronous endpoint, defaults filled in (docs/decisions/limits.md, "Synchronous requests"). */
export function requestOfForm(fields: AudioForm): TranscriptionRequest {
  return withDefaults(fields, diarizationOf(readField(fields.diarization)));
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

function withDefaults(
  values: Omit<AudioForm, "file" | "diarization">,
  diarization: DiarizationRequest | undefined,
): TranscriptionRequest {
  return {
    language: values.language,
    mode: values.mode ?? "native",
    timestamps: values.timestamps ?? "segment",
    channelMode: values.channel_mode ?? "mix",
    ...(values.numerals === "written" ? { numerals: values.numerals } : {}),
    ...(values.script === undefined || values.script === "native" ? {} : { script: values.script }),
    ...(diarization === undefined ? {} : { diarization }),
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
