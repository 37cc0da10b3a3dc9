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
