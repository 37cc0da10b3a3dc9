import type { TranscriptionResult as Result } from "../../domain/result.ts";
import { renderResult, resultBody } from "../../pipeline/render.ts";
import type { TranscriptionRow } from "../../store/transcriptions.ts";
import { choose } from "./accept.ts";
import type { TranscriptionResult } from "./schemas.ts";

type Found = { transcription: TranscriptionRow; result: Result };

/** Media types of a result and the format each stands for; JSON first, because it is the default. */
const FORMATS = {
  "application/json": "json",
  "text/vtt": "vtt",
  "application/x-subrip": "srt",
  "text/plain": "txt",
} as const;
const TYPES = Object.keys(FORMATS) as (keyof typeof FORMATS)[];

/** The result in the form that `Accept` asks for. */
export function resultResponse(request: Request, found: Found): Response {
  const type = choose(request.headers.get("accept"), TYPES);
  const format = FORMATS[type];
  const headers = { vary: "Accept" };
  if (format === "json") return Response.json(toResponse(found), { headers });
  return new Response(renderResult(found.result, format), {
    headers: { ...headers, "content-type": `${type}; charset=utf-8` },
  });
}

/** docs/interface.md section 2.3 and docs/decisions.md section 4, "Result". */
function toResponse({ transcription, result }: Found): TranscriptionResult {
  const { id, modelId: model, modelVersion: version, mode, timestamps } = transcription;
  return resultBody({ id, model, version, mode, timestamps }, result);
}
