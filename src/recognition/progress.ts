import type { ChunkRecord } from "./checkpoint.ts";

/**
 * Counts the work that is done, as milliseconds of audio over all channels. Where speakers are distinguished, a part of
 * each millisecond counts only once they are.
 */
export type Progress = {
  /** Returns the milliseconds of recording that a chunk accounts for. */
  shareOf(position: number): number;
  /** Counts a chunk as finished, and returns the sum so far. A second call for a chunk changes nothing. */
  finish(position: number): number;
  /** Counts the share of the audio whose speakers are distinguished, 0 to 1, and returns the sum so far. */
  hear(share: number): number;
};

type ProgressInput = {
  durationMs: number;
  chunks: readonly ChunkRecord[];
  /** Channels that each chunk accounts for: 2 where one channel is recognized for two identical ones. */
  channelsEach: number;
  /** The part of the work that distinguishes speakers, 0 to 1; left out: none. */
  speakersShare?: number;
};

/**
 * Starts from the chunks that have ended already. A chunk accounts for the audio from the end of the previous chunk of
 * its channel to its own end. The last chunk of a channel also accounts for the rest of the recording.
 */
export function createProgress({
  durationMs,
  chunks,
  channelsEach,
  speakersShare = 0,
}: ProgressInput): Progress {
  const shares = new Map<number, number>();
  const lastOfChannel = new Map<number, ChunkRecord>();
  for (const chunk of chunks) {
    const previous = lastOfChannel.get(chunk.channel);
    shares.set(chunk.position, chunk.endMs - (previous?.endMs ?? 0));
    lastOfChannel.set(chunk.channel, chunk);
  }
  for (const last of lastOfChannel.values()) {
    shares.set(last.position, (shares.get(last.position) ?? 0) + Math.max(0, durationMs - last.endMs));
  }
  const shareOf = (position: number) => (shares.get(position) ?? 0) * channelsEach;
  const finished = new Set(chunks.filter(({ state }) => state !== "waiting").map(({ position }) => position));
  const allMs = chunks.reduce((sum, { position }) => sum + shareOf(position), 0);
  let heard = 0;
  let doneMs = [...finished].reduce((sum, position) => sum + shareOf(position), 0);
  const sum = () => Math.round(doneMs * (1 - speakersShare) + allMs * heard * speakersShare);
  return {
    shareOf,
    finish(position) {
      if (!finished.has(position)) doneMs += shareOf(position);
      finished.add(position);
      return sum();
    },
    hear(share) {
      heard = Math.max(heard, share);
      return sum();
    },
  };
}
