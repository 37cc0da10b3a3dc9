import type { TranscriptionRequest } from "../domain/transcription.ts";
import { assembleResult } from "../pipeline/stitch.ts";
import { wordSegments } from "../pipeline/worded.ts";
import type { ChunkRecord } from "./checkpoint.ts";

/**
 * Returns the text from the beginning of a recording up to its first chunk without an outcome, worded as in the result.
 * Chunks are in order of position. A chunk that failed has no text. With channel mode `mix` the result's text begins
 * with this text, unless a segment of the next chunk begins before it.
 */
export function textSoFar(
  chunks: readonly Pick<ChunkRecord, "state" | "segments">[],
  { mode, channelMode, durationMs, channels }: Recording,
): string {
  const firstWaiting = chunks.findIndex(({ state }) => state === "waiting");
  const ended = firstWaiting < 0 ? chunks : chunks.slice(0, firstWaiting);
  const segments = wordSegments(
    ended.flatMap((chunk) => chunk.segments ?? []),
    mode,
  );
  const rest = { gaps: [], warnings: [], durationMs, channels, request: { channelMode } };
  return assembleResult({ segments, ...rest }).text;
}

type Recording = Pick<TranscriptionRequest, "mode" | "channelMode"> & {
  durationMs: number;
  channels: number;
};
