import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";

/**
 * How much of Whisper's window of 30 s the encoder is given. It was trained on whole windows, but what lies behind the sound
 * is silence that costs as much as speech, and in which base loses words (figures in docs/engine.md section 3).
 */

/** Frames of a whole window. */
export const WINDOW_FRAMES = 1500;
const FRAMES_PER_SECOND = 50;
/** Silence behind the sound, so that the last word has an end. */
const MARGIN_FRAMES = 50;
/** The decoder reads the encoder's frames in blocks. What lies in the last one behind a shorter window is from another chunk. */
const BLOCK_FRAMES = 256;
/** Base made more errors with one block. */
const LEAST_FRAMES = 2 * BLOCK_FRAMES;

/**
 * Returns the frames of the window for some sound: whole blocks, or `WINDOW_FRAMES`.
 *
 * @param fits false: the window is always a whole one
 */
export function windowFrames(samples: number, fits: boolean): number {
  if (!fits) return WINDOW_FRAMES;
  const frames = Math.ceil((samples * FRAMES_PER_SECOND) / SAMPLE_RATE_HZ) + MARGIN_FRAMES;
  const blocks = Math.ceil(Math.max(frames, LEAST_FRAMES) / BLOCK_FRAMES);
  return Math.min(WINDOW_FRAMES, blocks * BLOCK_FRAMES);
}
