/** The rate of all decoded audio: what Silero and Whisper are made for. */
export const SAMPLE_RATE_HZ = 16_000;

/** What the speech detector adds before and after speech, for its soft beginning and end. */
export const SPEECH_PADDING_MS = 300;

/** A stretch of speech: samples of the 16 kHz file it lies in, the end not included. */
export type ChunkRegion = {
  startSample: number;
  endSample: number;
  /** Edges at which speech was cut: it may begin or end right there, without the detector's padding. */
  isCutAtStart?: true;
  isCutAtEnd?: true;
};

/** What the decoder gets at once: speech regions whose silences are shortened. */
export type Chunk = {
  /** Start of the first region on the recording's clock, whole milliseconds, rounded down. */
  startMs: number;
  /** End of the last region on the recording's clock, whole milliseconds, rounded up. */
  endMs: number;
  /** Speech only, whole milliseconds. */
  speechMs: number;
  /** In order of time, not overlapping. */
  regions: ChunkRegion[];
};

/** What a chunk holds at most, in samples: audio, and silence that is kept between two of its regions. */
export type ChunkLimits = { maxSamples: number; gapSamples: number };

/** Regions that lie no further apart were one, or share the silence between them: neither has its whole padding. */
export const SPLICE_SAMPLES = 1;

/**
 * Puts regions into a chunk, one after the other, and the next chunk. Whoever cuts speech and whoever packs it count
 * with this, so that both see the same room.
 */
export function createFilling({ maxSamples, gapSamples }: ChunkLimits) {
  let filled = 0;
  let lastEnd: number | undefined;
  const silenceBefore = (startSample: number) =>
    lastEnd === undefined ? 0 : Math.min(gapSamples, startSample - lastEnd);
  return {
    /** Samples that a region beginning there may have to go into this chunk. */
    roomFrom: (startSample: number) => maxSamples - filled - silenceBefore(startSample),
    isEmpty: () => lastEnd === undefined,
    add({ startSample, endSample }: Pick<ChunkRegion, "startSample" | "endSample">): void {
      filled += silenceBefore(startSample) + endSample - startSample;
      lastEnd = endSample;
    },
    /** Begins the next chunk. */
    next(): void {
      filled = 0;
      lastEnd = undefined;
    },
  };
}
