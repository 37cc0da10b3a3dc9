import type { Warning } from "../domain/result.ts";
import type { DiarizationRequest } from "../domain/transcription.ts";
import { joinChannelSpeakers, speechByChannel } from "../pipeline/speakers.ts";
import type { LooseSegment } from "../pipeline/stitch.ts";
import type { ChunkRecord } from "./checkpoint.ts";
import type { RecognitionTools } from "./context.ts";
import { withRetries } from "./retry.ts";

export type SpeakerInput = {
  /** Absent: no speaker labels. */
  diarization: DiarizationRequest | undefined;
  tracks: readonly string[];
  chunks: readonly ChunkRecord[];
  /** Of all chunks, wording applied. */
  segments: LooseSegment[];
};

/** Segments with their speakers, and what there is to warn about. */
export type LabelledSegments = { segments: LooseSegment[]; warnings: Warning[] };

/**
 * Finds out who speaks where the request asks for it, and labels the segments.
 *
 * @throws the signal's reason when it is aborted, EngineError
 */
export async function labelSpeakers(
  tools: RecognitionTools,
  { diarization, tracks, chunks, segments }: SpeakerInput,
  signal: AbortSignal,
): Promise<LabelledSegments> {
  if (!diarization || segments.length === 0) return { segments, warnings: [] };
  const job = { tracks: speechByChannel(tracks, chunks), ...diarization };
  const { turns, isCountUncertain } = await withRetries(tools, signal, () => {
    // An admin may have changed them since the last attempt.
    const weights = tools.speakerWeights();
    return tools.engine.diarize(weights === undefined ? job : { ...job, weights }, signal);
  });
  return {
    segments: joinChannelSpeakers(segments, turns),
    warnings: isCountUncertain ? ["speaker_count_uncertain"] : [],
  };
}
