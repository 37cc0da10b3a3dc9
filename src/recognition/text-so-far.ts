import { billedMsOf, type TranscriptionRequest } from "../domain/transcription.ts";
import { assembleResult, type LooseSegment } from "../pipeline/stitch.ts";
import { wordSegments } from "../pipeline/worded.ts";
import type { ChunkRecord } from "./checkpoint.ts";
import { leaveSegments, type SegmentWriter } from "./written-form.ts";

type Ended = Pick<ChunkRecord, "state" | "segments" | "channel" | "startMs" | "endMs">;
type Recording = Pick<TranscriptionRequest, "mode" | "channelMode"> & {
  durationMs: number;
  channels: number;
};

/** A text, and the audio that it is the text of, milliseconds over the recognized channels. */
export type TextOfAudio = { text: string; audioMs: number };

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
   * @param chunkCount chunks of the whole recording
   * @returns the text and its audio. This is what a result would be billed for if the recording ended with the last chunk
   *   that has text. Where that is the last chunk of all, it is what the result is billed for
   */
  add(following: readonly Ended[], chunkCount: number): TextOfAudio;
};

/** @param write writes segments in the form that was asked for; left out: as they were said */
export function createTextSoFar(
  { mode, channelMode, durationMs, channels }: Recording,
  write: SegmentWriter = leaveSegments,
): TextSoFar {
  const segments: LooseSegment[] = [];
  const rest = { gaps: [], warnings: [], durationMs, channels, request: { channelMode } };
  const audio = createAudioSoFar(durationMs);
  const totalMs = billedMsOf({ durationMs, channelMode, channels });
  let count = 0;
  let lastWithText = -1;
  return {
    chunks: () => count,
    add(following, chunkCount) {
      for (const chunk of following) {
        if (chunk.state === "waiting") break;
        const worded = write(wordSegments(chunk.segments ?? [], mode));
        const hasText = worded.some(({ text }) => text !== "");
        segments.push(...worded);
        audio.add(chunk, hasText);
        if (hasText) lastWithText = count;
        count += 1;
      }
      const { text } = assembleResult({ segments, ...rest });
      const isWhole = lastWithText >= 0 && lastWithText === chunkCount - 1;
      const audioMs = isWhole ? totalMs - audio.gapMs() : audio.reachedMs();
      return { text, audioMs: Math.max(0, audioMs) };
    },
  };
}

/** Adds up audio chunk by chunk: each channel from its beginning to its last chunk with text, without the gaps before it. */
function createAudioSoFar(durationMs: number) {
  const channels = new Map<number, { reachedMs: number; gapMs: number }>();
  let gapMs = 0;
  return {
    add({ channel, state, startMs, endMs }: Ended, hasText: boolean): void {
      const own = channels.get(channel) ?? { reachedMs: 0, gapMs: 0 };
      channels.set(channel, own);
      const upToMs = Math.min(endMs, durationMs);
      if (state === "failed") {
        own.gapMs += upToMs - startMs;
        gapMs += upToMs - startMs;
      }
      if (hasText) own.reachedMs = upToMs - own.gapMs;
    },
    gapMs: () => gapMs,
    reachedMs: () => [...channels.values()].reduce((sum, { reachedMs }) => sum + reachedMs, 0),
  };
}
