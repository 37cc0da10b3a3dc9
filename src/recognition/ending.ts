import type { RecognitionEnding } from "../domain/ending.ts";
import { AppError } from "../domain/errors.ts";
import type { PunctuationHashes, SpeakerWeightHashes } from "../domain/model.ts";
import type { Reading } from "../domain/reading.ts";
import type { Gap, TranscriptionResult, Warning } from "../domain/result.ts";
import { billedMsOf, type TranscriptionRequest } from "../domain/transcription.ts";
import type { EngineError } from "../engine/protocol.ts";
import { mismatchedLanguages } from "../pipeline/spoken-language.ts";
import { assembleResult, type LooseSegment } from "../pipeline/stitch.ts";
import type { ChunkRecord } from "./checkpoint.ts";

export type EndingInput = {
  request: Pick<TranscriptionRequest, "channelMode" | "language" | "mode" | "timestamps">;
  durationMs: number;
  /** Channels of the recording. */
  channels: number;
  /** All chunks. Each has ended. */
  chunks: readonly ChunkRecord[];
  /** Segments of all chunks, with wording, speakers and punctuation applied. */
  segments: readonly LooseSegment[];
  /** Warnings about the recording as a whole. */
  warnings: readonly Warning[];
  speakerWeights?: SpeakerWeightHashes;
  punctuation?: PunctuationHashes;
  /** How the file was read, where it has several audio tracks. */
  reading?: Reading;
};

/** Makes a result, a partial result or a failure from the outcomes of the chunks (docs/decisions/transcriptions.md). */
export function endingOf({
  request,
  chunks,
  durationMs,
  channels,
  ...input
}: EndingInput): RecognitionEnding<TranscriptionResult> {
  const isSeparate = request.channelMode === "separate";
  const failed = chunks.filter(({ state }) => state === "failed");
  if (failed.length > 0 && failed.length === chunks.length) {
    const message = "No part of the speech could be transcribed.";
    return { kind: "failed", code: "transcription_failed", message };
  }
  const gaps: Gap[] = failed.map(({ startMs, endMs, gapReason, channel }) => ({
    startMs,
    endMs: Math.min(endMs, durationMs),
    reason: gapReason ?? "engine_error",
    ...(isSeparate ? { channel } : {}),
  }));
  const unrecognized = chunks.flatMap(({ doubts, channel }) =>
    (doubts?.unrecognized ?? []).map((span) => ({ ...span, ...(isSeparate ? { channel } : {}) })),
  );
  const languageCandidates = mismatchedLanguages(
    request,
    chunks.map(({ speechMs, doubts }) => ({ speechMs, languages: doubts?.languages ?? [] })),
  );
  const result = assembleResult({
    segments: input.segments,
    gaps,
    warnings: [...input.warnings, ...chunks.flatMap((chunk) => chunk.warnings ?? [])],
    durationMs,
    channels,
    request,
    unrecognized,
    ...(languageCandidates ? { languageCandidates } : {}),
    ...(input.reading ? { reading: input.reading } : {}),
  });
  const gapMs = gaps.reduce((sum, { startMs, endMs }) => sum + endMs - startMs, 0);
  const totalMs = billedMsOf({ durationMs, channelMode: request.channelMode, channels });
  const { speakerWeights, punctuation } = input;
  const ending = { kind: "result", result, billedMs: Math.max(0, totalMs - gapMs) } as const;
  return {
    ...ending,
    ...(speakerWeights ? { speakerWeights } : {}),
    ...(punctuation ? { punctuation } : {}),
  };
}

/** Makes the ending of a recognition that failed because of the recording or the engine. */
export function failureOf(
  cause: AppError | EngineError,
): Extract<RecognitionEnding<never>, { kind: "failed" }> {
  if (cause instanceof AppError) return { kind: "failed", code: cause.code, message: cause.message, cause };
  if (cause.kind === "unusable_model") {
    const message = "The model could not be loaded.";
    return { kind: "failed", code: "capacity_unavailable", message, cause };
  }
  const message = "The transcription failed.";
  return { kind: "failed", code: "transcription_failed", message, cause };
}
