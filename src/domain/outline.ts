/**
 * The outline of a recording: the shape of its sound, and points from which it can be decoded without what is before
 * them. It is made while a recording is decoded.
 */
export type Outline = {
  /** Samples at 16 kHz behind one peak. */
  peakSamples: number;
  /** The largest sample behind each peak, 0 to 255: one array, or one for each channel. All have one length. */
  lanes: Uint8Array[];
  /** Points of the decoder, in order. Only the engine reads them. */
  points: Uint8Array;
};

/** Stretches of speech of each channel that was recognized, as start and end in milliseconds, in order. */
export type Speech = [startMs: number, endMs: number][][];
