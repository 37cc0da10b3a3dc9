/** Sample rate of all decoded audio, because Silero and Whisper need it. */
export const SAMPLE_RATE_HZ = 16_000;

/** Padding that the speech detector adds before and after speech, whose beginning and end may be soft. */
export const SPEECH_PADDING_MS = 300;

/** A stretch of speech: positions in its 16 kHz file, in samples. The end is not included. */
export type ChunkRegion = {
  startSample: number;
  endSample: number;
  /** True for an edge at which speech was cut. Such an edge has no padding. */
  isCutAtStart?: true;
  isCutAtEnd?: true;
  /** Samples of the pause before and after it that the chunk's audio holds anyway. Left out: what the layout gives. */
  pauseBefore?: number;
  pauseAfter?: number;
};

/** Regions for one run of the model, with shortened silences between them. */
export type Chunk = {
  /** Start of the first region on the recording's clock, whole milliseconds, rounded down. */
  startMs: number;
  /** End of the last region on the recording's clock, whole milliseconds, rounded up. */
  endMs: number;
  /** Duration of the speech without silences, whole milliseconds. */
  speechMs: number;
  /** In order of time, not overlapping. */
  regions: ChunkRegion[];
};

/** Limits of a chunk, in samples: its audio, and the silence that is kept between two of its regions. */
export type ChunkLimits = { maxSamples: number; gapSamples: number };

/** Regions this close, in samples, were split from one or share a silence. So neither has its full padding there. */
export const SPLICE_SAMPLES = 1;

/**
 * Counts the samples of a chunk while regions are added to it. Both the module that cuts speech and the module that
 * packs it use this count, so that they agree on the space that is left.
 */
export function createFilling({ maxSamples, gapSamples }: ChunkLimits) {
  let filled = 0;
  let lastEnd: number | undefined;
  const silenceBefore = (startSample: number) =>
    lastEnd === undefined ? 0 : Math.min(gapSamples, startSample - lastEnd);
  return {
    /** Returns how many samples a region that begins there may have to fit into this chunk. */
    spaceFrom: (startSample: number) => maxSamples - filled - silenceBefore(startSample),
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
