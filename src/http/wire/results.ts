import type { TranscriptionResult as Result } from "../../domain/result.ts";
import { nextTurn } from "../../lib/in-slices.ts";
import { bytesOfPieces, jsonPieces } from "../../lib/text-pieces.ts";
import { type Format, resultBody, textPieces } from "../../pipeline/render.ts";
import type { TranscriptionRow } from "../../store/transcriptions.ts";
import { choose } from "./accept.ts";
import type { TranscriptionResult } from "./schemas.ts";

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
const TYPE_OF_NAME = {
  json: "application/json",
  srt: "application/x-subrip",
  vtt: "text/vtt",
  text: "text/plain",
} as const satisfies Record<string, keyof typeof FORMATS>;

/** As all other answers in JSON have it. */
const JSON_TYPE = "application/json;charset=utf-8";

/** What a link may ask of a result. */
type Wanted = { format?: keyof typeof TYPE_OF_NAME; download?: string };

/**
 * Makes the result in the form that the query names, else in the one that `Accept` asks for. Other requests are served
 * meanwhile: a transcript may be of many hours.
 */
export async function resultResponse(request: Request, found: Found, wanted: Wanted = {}): Promise<Response> {
  const type = wanted.format ? TYPE_OF_NAME[wanted.format] : choose(request.headers.get("accept"), TYPES);
  const format = FORMATS[type];
  // It took some time already to read the transcript from the database.
  await nextTurn();
  const pieces = format === "json" ? jsonPieces(toResponse(found)) : textPieces(found.result, format);
  const body = await bytesOfPieces(pieces);
  return new Response(body, {
    headers: {
      ...(wanted.format ? {} : { vary: "Accept" }),
      ...(wanted.download === undefined
        ? {}
        : { "content-disposition": `attachment; filename="${found.transcription.id}.${format}"` }),
      "content-type": format === "json" ? JSON_TYPE : `${type}; charset=utf-8`,
    },
  });
}

/** docs/interface.md section 2.3 and docs/decisions/transcriptions.md, "Result". */
function toResponse({ transcription, result }: Found): TranscriptionResult {
  const { id, modelId: model, modelVersion: version, mode, timestamps } = transcription;
  return resultBody({ id, model, version, mode, timestamps }, result);
}
