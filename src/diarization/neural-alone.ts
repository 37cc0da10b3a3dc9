import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import type { SegmentationInfo } from "./neural-models.ts";

/** A voice that the segmentation found in a window: its number there, and how long it is alone. */
export type AloneVoice = { window: number; speaker: number; aloneMs: number };

/** A voice is described by the middle of its sound: the time that the net takes grows with it. */
const MOST_SOUND_SAMPLES = 4 * SAMPLE_RATE_HZ;
/** A voice that is alone for fewer frames cannot be described. */
const LEAST_FRAMES_ALONE = 10;

/**
 * Returns the voices of a window that are alone for long enough to be described.
 *
 * @param frames the speakers of each frame as bits
 */
export function voicesAlone(
  window: number,
  frames: Uint8Array,
  { speakers, frameSamples }: Pick<SegmentationInfo, "speakers" | "frameSamples">,
): AloneVoice[] {
  const voices: AloneVoice[] = [];
  for (let speaker = 0; speaker < speakers; speaker++) {
    const alone = frames.reduce((sum, bits) => sum + (bits === 1 << speaker ? 1 : 0), 0);
    if (alone < LEAST_FRAMES_ALONE) continue;
    voices.push({ window, speaker, aloneMs: (alone * frameSamples * 1000) / SAMPLE_RATE_HZ });
  }
  return voices;
}

/** Joins the sound of the frames in which a speaker is alone, and returns the middle of it. */
export function soundAlone(
  sound: Float32Array,
  frames: Uint8Array,
  speaker: number,
  { windowSamples }: Pick<SegmentationInfo, "windowSamples">,
): Float32Array {
  const isAlone = (frame: number) => frames[frame] === 1 << speaker;
  const startOf = (frame: number) => Math.floor((frame / frames.length) * windowSamples);
  const pieces: Float32Array[] = [];
  for (let frame = 0; frame < frames.length; frame++) {
    if (!isAlone(frame)) continue;
    const first = frame;
    while (frame < frames.length && isAlone(frame)) frame++;
    pieces.push(sound.subarray(startOf(first), startOf(Math.min(frame, frames.length - 1))));
  }
  const joined = new Float32Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let filled = 0;
  for (const piece of pieces) {
    joined.set(piece, filled);
    filled += piece.length;
  }
  const before = Math.max(0, (joined.length - MOST_SOUND_SAMPLES) >> 1);
  return joined.subarray(before, before + MOST_SOUND_SAMPLES);
}
