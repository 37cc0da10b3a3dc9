import type { ChunkRecord } from "./checkpoint.ts";

/** Counts the audio that has its outcome, milliseconds over all channels. */
export type Progress = {
  /** The part of the recording that a chunk accounts for. */
  shareOf(position: number): number;
  /** Counts a chunk, once; returns the sum so far. */
  finish(position: number): number;
};

type ProgressInput = {
  durationMs: number;
  chunks: readonly ChunkRecord[];
  /** Channels that each chunk stands for: 2 where one channel is recognized for its twin too. */
  channelsEach: number;
};

/**
 * Starts from what is done already. A chunk accounts for the audio from the end of the one before it in its channel,
 * the last for the rest.
 */
export function createProgress({ durationMs, chunks, channelsEach }: ProgressInput): Progress {
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
  let doneMs = [...finished].reduce((sum, position) => sum + shareOf(position), 0);
  return {
    shareOf,
    finish(position) {
      if (!finished.has(position)) doneMs += shareOf(position);
      finished.add(position);
      return Math.round(doneMs);
    },
  };
}
