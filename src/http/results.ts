import type { TranscriptionResult as Result, Segment as ResultSegment } from "../domain/result.ts";
import { toSeconds } from "../lib/time.ts";
import { renderResult } from "../pipeline/render.ts";
import type { TranscriptionRow } from "../store/transcriptions.ts";
import { choose } from "./accept.ts";
import type { TranscriptionResult } from "./schemas.ts";

type Found = { transcription: TranscriptionRow; result: Result };

/** Media types of a result and the format each stands for; JSON first, because it is what everything else gets. */
const FORMATS = {
  "application/json": "json",
  "text/vtt": "vtt",
  "application/x-subrip": "srt",
  "text/plain": "txt",
} as const;
const TYPES = Object.keys(FORMATS) as (keyof typeof FORMATS)[];

/** The result in the form that `Accept` asks for. */
export function resultResponse(request: Request, found: Found): TranscriptionResult | Response {
  const type = choose(request.headers.get("accept"), TYPES);
  const format = FORMATS[type];
  if (format === "json") return toResult(found);
  return new Response(renderResult(found.result, format), {
    headers: { "content-type": `${type}; charset=utf-8`, vary: "Accept" },
  });
}

/** interface.md 2.3 and decisions.md section 4, "Result". */
export function toResult({ transcription, result }: Found): TranscriptionResult {
  const isTimed = transcription.timestamps !== "none";
  return {
    id: transcription.id,
    object: "transcription.result",
    model: transcription.modelId,
    version: transcription.modelVersion,
    status: result.status,
    mode: transcription.mode,
    duration_seconds: toSeconds(result.durationMs),
    channels: result.channels,
    languages: result.languages,
    text: result.text,
    segments: result.segments.map((segment) => toSegment(segment, isTimed)),
    warnings: result.warnings,
    ...(result.gaps.length === 0
      ? {}
      : {
          gaps: result.gaps.map(({ startMs, endMs, reason, channel }) => ({
            start: toSeconds(startMs),
            end: toSeconds(endMs),
            reason,
            ...(channel === undefined ? {} : { channel }),
          })),
        }),
  };
}

function toSegment(segment: ResultSegment, isTimed: boolean): TranscriptionResult["segments"][number] {
  const { index, startMs, endMs, text, language, confidence, speaker, channel } = segment;
  return {
    index,
    ...(isTimed ? { start: toSeconds(startMs), end: toSeconds(endMs) } : {}),
    text,
    language,
    confidence,
    ...(speaker === undefined ? {} : { speaker }),
    ...(channel === undefined ? {} : { channel }),
  };
}
