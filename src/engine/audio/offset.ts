import { PCM_FULL_SCALE } from "./pcm-file.ts";

/**
 * Removes the constant offset that sound cards and telephone lines add to their sound. People do not hear it. The speech
 * detector finds no speech under one of 1.5 % of full scale where the speech itself is quiet, and models are disturbed.
 */

/** Offsets below this part of full scale are left as they are. */
const LEAST_OFFSET = 0.001;
/** So are those that are small beside the sound: in clean samples, the mean of a second of speech was 0.06 of it. */
const LEAST_SHARE = 0.1;

/**
 * Returns the constant offset of samples; 0 where there is none to remove. Digital silence does not count: it fills the
 * gaps between slices and the end of the last block.
 */
function offsetOf(
  samples: Int16Array | Float32Array,
  fullScale: number,
): { offset: number; counted: number } {
  let sum = 0;
  let squares = 0;
  let counted = 0;
  // An iterator over the samples would take twelve times as long as the index.
  for (let n = 0; n < samples.length; n++) {
    const sample = samples[n] ?? 0;
    sum += sample;
    squares += sample * sample;
    if (sample !== 0) counted++;
  }
  const mean = counted === 0 ? 0 : sum / counted;
  const deviation = Math.sqrt(Math.max(0, squares / Math.max(1, counted) - mean * mean));
  const isOffset = Math.abs(mean) >= Math.max(LEAST_OFFSET * fullScale, LEAST_SHARE * deviation);
  return { offset: isOffset ? mean : 0, counted };
}

/** Removes the offset of a chunk's samples, which lie within −1 and 1. */
export function removeOffset(samples: Float32Array): void {
  const { offset } = offsetOf(samples, 1);
  if (offset === 0) return;
  for (let n = 0; n < samples.length; n++) {
    const sample = samples[n] ?? 0;
    if (sample !== 0) samples[n] = sample - offset;
  }
}

/**
 * Makes a function that removes the offset of a recording, block by block, in place.
 *
 * @param enough samples from which a block has an offset of its own; a shorter one, such as the last, takes that of the
 *   block before it
 */
export function offsetRemover(enough: number): (block: Int16Array) => void {
  let offset: number | undefined;
  return (block) => {
    const own = offsetOf(block, PCM_FULL_SCALE);
    if (offset === undefined || own.counted >= enough) offset = Math.round(own.offset);
    if (offset === 0) return;
    for (let n = 0; n < block.length; n++) {
      const sample = block[n] ?? 0;
      // Assigned as it is, a number out of range would change its sign.
      if (sample !== 0) block[n] = Math.max(-PCM_FULL_SCALE, Math.min(PCM_FULL_SCALE - 1, sample - offset));
    }
  };
}
