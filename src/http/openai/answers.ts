import type { Segment, TranscriptionResult, Word } from "../../domain/result.ts";
import { type Task, textLanguageOf } from "../../domain/transcription.ts";
import { compressionRatio } from "../../lib/compression.ts";
import { inSlices } from "../../lib/in-slices.ts";
import { bytesOfPieces, jsonPieces } from "../../lib/text-pieces.ts";
import { toSeconds } from "../../lib/time.ts";
import { textPieces } from "../../pipeline/render.ts";
import type { TranscriptionRow } from "../../store/transcriptions.ts";
import { languageNameOf } from "./languages.ts";
import type { Granularity } from "./parameters.ts";
import type {
  OpenAiDiarizedSegment,
  OpenAiSegment,
  OpenAiTranscription,
  OpenAiWord,
  ResponseFormat,
} from "./schemas.ts";

export type Found = { transcription: TranscriptionRow; result: TranscriptionResult };

/** Least confidence of which a logarithm is taken. */
const LEAST_CONFIDENCE = 1e-6;

/** Makes the answer of a finished transcription in one of OpenAI's formats. Other requests are served meanwhile. */
export async function answerOf(
  { transcription, result }: Found,
  format: ResponseFormat,
  granularities: ReadonlySet<Granularity>,
): Promise<Response> {
  switch (format) {
    case "json":
      return jsonResponse(plainBody(result));
    case "verbose_json":
      return jsonResponse(await verboseBody(transcription, result, granularities));
    case "diarized_json":
      return jsonResponse(await diarizedBody(transcription, result));
    case "text":
      // OpenAI's text ends with a line feed, also where there is no text.
      return textResponse(`${result.text}\n`);
    default:
      return textResponse(await bytesOfPieces(textPieces(result, format)));
  }
}

/** Answers as `Response.json` does. That would write a long list of segments without a pause. */
async function jsonResponse(body: OpenAiTranscription): Promise<Response> {
  return new Response(await bytesOfPieces(jsonPieces(body)), {
    headers: { "content-type": "application/json;charset=utf-8" },
  });
}

/** OpenAI sends subtitles as plain text as well, and some clients look for that. */
function textResponse(text: string | Uint8Array<ArrayBuffer>): Response {
  return new Response(text, { headers: { "content-type": "text/plain; charset=utf-8" } });
}

function plainBody({ text, durationMs }: TranscriptionResult): OpenAiTranscription {
  return { text, usage: usageOf(durationMs) };
}

async function verboseBody(
  transcription: TranscriptionRow,
  result: TranscriptionResult,
  granularities: ReadonlySet<Granularity>,
): Promise<OpenAiTranscription> {
  const { text, durationMs, segments } = result;
  return {
    task: taskOf(transcription),
    language: languageNameOf(textLanguageOf(transcription)),
    duration: toSeconds(durationMs),
    text,
    ...(granularities.has("word")
      ? { words: await inSlices(segments, (slice) => slice.flatMap(({ words = [] }) => words.map(toWord))) }
      : {}),
    ...(granularities.has("segment")
      ? { segments: await inSlices(segments, (slice) => slice.map(toSegment)) }
      : {}),
    usage: usageOf(durationMs),
  };
}

const toWord = ({ text, startMs, endMs }: Word): OpenAiWord => ({
  word: text,
  start: toSeconds(startMs),
  end: toSeconds(endMs),
});

const taskOf = ({ task }: TranscriptionRow): Task => task ?? "transcribe";

async function diarizedBody(
  transcription: TranscriptionRow,
  result: TranscriptionResult,
): Promise<OpenAiTranscription> {
  const { text, durationMs, segments } = result;
  return {
    task: taskOf(transcription),
    duration: toSeconds(durationMs),
    text,
    segments: await inSlices(segments, (slice) => slice.map(toDiarizedSegment)),
    usage: usageOf(durationMs),
  };
}

function toDiarizedSegment({ index, startMs, endMs, text, speaker }: Segment): OpenAiDiarizedSegment {
  return {
    type: "transcript.text.segment",
    id: `seg_${index}`,
    start: toSeconds(startMs),
    end: toSeconds(endMs),
    text,
    speaker: letterOf(speaker),
  };
}

/** Returns OpenAI's label of a speaker. There are at most twenty, so a letter is enough. */
function letterOf(speaker: string | undefined): string {
  const number = Number(speaker?.slice("speaker_".length));
  return number >= 1 && number <= 26 ? String.fromCharCode("A".charCodeAt(0) + number - 1) : "unknown";
}

function usageOf(durationMs: number) {
  return { type: "duration" as const, seconds: Math.ceil(durationMs / 1000) };
}

/**
 * Docs: docs/clients/openai.md, "Answers". The text begins with a space, as Whisper's segments do: programs join
 * segments without anything between them.
 */
function toSegment({ index, startMs, endMs, text, confidence }: Segment): OpenAiSegment {
  return {
    id: index,
    seek: Math.floor(startMs / 10),
    start: toSeconds(startMs),
    end: toSeconds(endMs),
    text: ` ${text}`,
    tokens: [],
    temperature: 0,
    avg_logprob: rounded(Math.log(Math.max(LEAST_CONFIDENCE, confidence))),
    // Whisper's measure of repetition.
    compression_ratio: rounded(compressionRatio(new TextEncoder().encode(text))),
    no_speech_prob: 0,
  };
}

function rounded(value: number): number {
  return Math.round(value * 1000) / 1000 || 0;
}
