import type { Warning } from "../domain/result.ts";
import { joinChannelSpeakers, speechByChannel } from "../pipeline/speakers.ts";
import type { LooseSegment } from "../pipeline/stitch.ts";
import type { ChunkRow } from "../store/chunks.ts";
import type { TranscriptionRow } from "../store/transcriptions.ts";
import type { RunContext } from "./context.ts";
import { patiently } from "./prepare.ts";

/** Segments with their speakers, and what there is to warn about. */
export type LabelledSegments = { segments: LooseSegment[]; warnings: Warning[] };

/**
 * Tells the speakers apart where the request asks for it, and joins them to the segments.
 *
 * @param segments of all chunks, wording applied
 * @throws the signal's reason when it is aborted, EngineError
 */
export async function labelSegments(
  context: RunContext,
  row: TranscriptionRow,
  chunks: readonly ChunkRow[],
  segments: LooseSegment[],
  pcmPaths: readonly string[],
  signal: AbortSignal,
): Promise<LabelledSegments> {
  if (!row.diarization || segments.length === 0) return { segments, warnings: [] };
  const job = {
    tracks: speechByChannel(pcmPaths, chunks),
    ...(row.minSpeakers === null ? {} : { minSpeakers: row.minSpeakers }),
    ...(row.maxSpeakers === null ? {} : { maxSpeakers: row.maxSpeakers }),
  };
  const { turns, isCountUncertain } = await patiently(context, row.id, signal, () => {
    // An admin may have changed them since the last try.
    const weights = context.speakerWeights();
    return context.engine.diarize(weights === undefined ? job : { ...job, weights }, signal);
  });
  return {
    segments: joinChannelSpeakers(segments, turns),
    warnings: isCountUncertain ? ["speaker_count_uncertain"] : [],
  };
}
