import { AppError } from "../../domain/errors.ts";
import type { TranscriptionResult as Result } from "../../domain/result.ts";
import { SUBTITLE_LIMITS, type SubtitleLimits } from "../../domain/subtitles.ts";
import { nextTurn } from "../../lib/in-slices.ts";
import { bytesOfPieces } from "../../lib/text-pieces.ts";
import { type Format, resultPieces, type TextOptions } from "../../pipeline/render.ts";
import { resultInfoOf, type TranscriptionRow } from "../../store/transcriptions.ts";
import { choose } from "./accept.ts";
import type { ResultQuery } from "./schemas.ts";

type Found = { transcription: TranscriptionRow; result: Result };

/** Media types of a result beside JSON, described for the OpenAPI document. */
export const RESULT_ALTERNATIVES = {
  "text/vtt": "WebVTT subtitles.",
  "application/x-subrip": "SubRip subtitles.",
  "application/srt": "As `application/x-subrip`.",
  "text/srt": "As `application/x-subrip`.",
  "text/plain": "The text alone.",
} as const;

/** The format of each media type of a result. JSON is first, because it is the default. */
const FORMATS: Record<"application/json" | keyof typeof RESULT_ALTERNATIVES, Format> = {
  "application/json": "json",
  "text/vtt": "vtt",
  "application/x-subrip": "srt",
  "application/srt": "srt",
  "text/srt": "srt",
  "text/plain": "txt",
};
const TYPES = Object.keys(FORMATS) as (keyof typeof FORMATS)[];

/** The values of `?format=`, for links and for programs that cannot set header fields. */
const FORMS = {
  json: { format: "json", type: "application/json" },
  srt: { format: "srt", type: "application/x-subrip" },
  vtt: { format: "vtt", type: "text/vtt" },
  text: { format: "txt", type: "text/plain" },
  ctm: { format: "ctm", type: "text/plain" },
} as const satisfies Record<NonNullable<ResultQuery["format"]>, Form>;

/** As all other answers in JSON have it. */
const JSON_TYPE = "application/json;charset=utf-8";

/** How a result is written, and the media type of that. */
type Form = { format: Format; type: keyof typeof FORMATS };

/** What a request asks of a result. */
export type WantedResult = Form & {
  options: TextOptions;
  /** The request named the format by a parameter, and not by `Accept`. */
  isNamed: boolean;
  isDownload: boolean;
};

/** The formats for which each parameter is. */
const PARAMETERS = {
  word_times: ["vtt"],
  max_line_characters: ["srt", "vtt"],
  max_lines: ["srt", "vtt"],
  max_cue_seconds: ["srt", "vtt"],
} as const satisfies Partial<Record<keyof ResultQuery, readonly Format[]>>;

/**
 * Reads in what form a result is wanted: as the query says, else as `Accept` does.
 *
 * @throws AppError `invalid_request` with the name of a parameter that is not for this format
 */
export function wantedResult(request: Request, query: ResultQuery = {}): WantedResult {
  const { format: name, download, word_times, max_lines, max_line_characters, max_cue_seconds } = query;
  const form = name ? FORMS[name] : formOf(choose(request.headers.get("accept"), TYPES));
  for (const [parameter, formats] of Object.entries(PARAMETERS)) {
    const isGiven = query[parameter as keyof typeof PARAMETERS] !== undefined;
    if (isGiven && !(formats as readonly Format[]).includes(form.format))
      throw new AppError("invalid_request", {
        detail: parameter,
        message: `${parameter} is only for ${formats.join(" and ")}.`,
      });
  }
  const subtitles: SubtitleLimits = {
    maxLineCharacters: max_line_characters ?? SUBTITLE_LIMITS.maxLineCharacters,
    maxLines: max_lines ?? SUBTITLE_LIMITS.maxLines,
    maxCueMs: max_cue_seconds === undefined ? undefined : max_cue_seconds * 1000,
  };
  const options = { subtitles, hasWordTimes: word_times !== undefined };
  return { ...form, options, isNamed: name !== undefined, isDownload: download !== undefined };
}

const formOf = (type: keyof typeof FORMATS): Form => ({ format: FORMATS[type], type });

/**
 * Makes the answer with a result. Other requests are served meanwhile: a transcript may be of many hours.
 *
 * @throws AppError `invalid_request`, detail `format` or `word_times`, where the form has the times of words and they were
 *   not asked for
 */
export async function resultResponse(found: Found, wanted: WantedResult): Promise<Response> {
  const { format, type, options, isNamed, isDownload } = wanted;
  const { id, timestamps } = found.transcription;
  if (timestamps !== "word" && (format === "ctm" || options.hasWordTimes))
    throw new AppError("invalid_request", {
      detail: format === "ctm" ? "format" : "word_times",
      message: `The words of ${id} have no times: it was not requested with timestamps word.`,
    });
  // It took some time already to read the transcript from the database.
  await nextTurn();
  const info = resultInfoOf(found.transcription);
  const pieces = await resultPieces(found.result, format, info, options);
  const body = await bytesOfPieces(pieces);
  return new Response(body, {
    headers: {
      ...(isNamed ? {} : { vary: "Accept" }),
      ...(isDownload ? { "content-disposition": `attachment; filename="${id}.${format}"` } : {}),
      "content-type": format === "json" ? JSON_TYPE : `${type}; charset=utf-8`,
    },
  });
}
