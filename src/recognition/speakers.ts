import type { SpeakerWeightHashes } from "../domain/model.ts";
import type { Warning } from "../domain/result.ts";
import type { DiarizationRequest } from "../domain/transcription.ts";
import { joinSpeakers, speechByChannel } from "../pipeline/speakers.ts";
import type { LooseSegment } from "../pipeline/stitch.ts";
import type { ChunkRecord } from "./checkpoint.ts";
import type { RecognitionTools } from "./context.ts";
import { withRetries } from "./retry.ts";

export type SpeakerInput = {
  /** Undefined where the request asks for no speakers. */
  diarization: DiarizationRequest | undefined;
  tracks: readonly string[];
  chunks: readonly ChunkRecord[];
  /** Segments of all chunks, with wording applied. */
  segments: LooseSegment[];
};

/** Segments with their speakers, and the warnings about them. */
export type LabelledSegments = {
  segments: LooseSegment[];
  warnings: Warning[];
  /** Of installed weights, where they distinguished the speakers. */
  speakerWeights?: SpeakerWeightHashes;
};

/**
 * Distinguishes the speakers, where the request asks for it, and labels the segments.
 *
 * @throws the signal's reason when it is aborted; EngineError
 */
export async function labelSpeakers(
  tools: RecognitionTools,
  { diarization, tracks, chunks, segments }: SpeakerInput,
  signal: AbortSignal,
): Promise<LabelledSegments> {
  if (!diarization || segments.length === 0) return { segments, warnings: [] };
  const job = { tracks: speechByChannel(tracks, chunks), ...diarization };
  const { turns, isCountUncertain, weightHashes } = await withRetries(tools, signal, () => {
    // An admin may have changed the weights since the last attempt.
    const weights = tools.speakerWeights();
    return tools.engine.diarize(weights === undefined ? job : { ...job, weights }, signal);
  });
  return {
    segments: joinSpeakers(segments, turns),
    warnings: isCountUncertain ? ["speaker_count_uncertain"] : [],
    ...(weightHashes ? { speakerWeights: weightHashes } : {}),
  };
}
