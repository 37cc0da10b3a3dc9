import type { TranscriptionRequest } from "../domain/transcription.ts";
import { assembleResult, type LooseSegment } from "../pipeline/stitch.ts";
import { wordSegments } from "../pipeline/worded.ts";
import type { ChunkRecord } from "./checkpoint.ts";

type Ended = Pick<ChunkRecord, "state" | "segments">;
type Recording = Pick<TranscriptionRequest, "mode" | "channelMode"> & {
  durationMs: number;
  channels: number;
};

/**
 * The text from the beginning of a recording up to its first chunk without an outcome, worded as in the result. It grows
 * with the chunks, and each is worded once.
 */
export type TextSoFar = {
  /** Returns how many chunks are in the text. */
  chunks(): number;
  /**
   * Adds the chunks that follow, in order of position, up to the first without an outcome. A chunk that failed has no
   * text. With channel mode `mix` the result's text begins with this text, unless a segment of the next chunk begins
   * before it.
   *
   * @returns the text
   */
  add(following: readonly Ended[]): string;
};

export function createTextSoFar({ mode, channelMode, durationMs, channels }: Recording): TextSoFar {
  const segments: LooseSegment[] = [];
  const rest = { gaps: [], warnings: [], durationMs, channels, request: { channelMode } };
  let count = 0;
  return {
    chunks: () => count,
    add(following) {
      for (const chunk of following) {
        if (chunk.state === "waiting") break;
        segments.push(...wordSegments(chunk.segments ?? [], mode));
        count += 1;
      }
      return assembleResult({ segments, ...rest }).text;
    },
  };
}
