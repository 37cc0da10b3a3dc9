import { PCM_FULL_SCALE } from "../../native/decoder/pcm-file.ts";

/**
 * Removes the constant offset that sound cards and telephone lines add to their sound. People do not hear it. The speech
 * detector finds no speech under one of 1.5 % of full scale where the speech itself is quiet, and models are disturbed.
 */

/** Offsets below this part of full scale are left as they are. */
const LEAST_OFFSET = 0.001;
/** So are those that are small beside the sound: in clean samples, the mean of a second of speech was 0.06 of it. */
const LEAST_SHARE = 0.1;

/** Sums over samples. Digital silence does not count: it fills the gaps between slices and the end of the last block. */
export type SampleSums = {
  sum: number;
  /** The sum of the squares. */
  squares: number;
  /** The number of samples that are not 0. */
  counted: number;
};

/** Adds up samples, one by one. */
export function sumsOf(samples: Int16Array | Float32Array): SampleSums {
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
  return { sum, squares, counted };
}

/** Returns the constant offset of samples with these sums; 0 where there is none to remove. */
function offsetOf({ sum, squares, counted }: SampleSums, fullScale: number): number {
  const mean = counted === 0 ? 0 : sum / counted;
  const deviation = Math.sqrt(Math.max(0, squares / Math.max(1, counted) - mean * mean));
  const isOffset = Math.abs(mean) >= Math.max(LEAST_OFFSET * fullScale, LEAST_SHARE * deviation);
  return isOffset ? mean : 0;
}

/** Removes the offset of a chunk's samples, which lie within −1 and 1. */
export function removeOffset(samples: Float32Array): void {
  const offset = offsetOf(sumsOf(samples), 1);
  if (offset === 0) return;
  for (let n = 0; n < samples.length; n++) {
    const sample = samples[n] ?? 0;
    if (sample !== 0) samples[n] = sample - offset;
  }
}

/**
 * Makes a function that removes the offset of a recording, block by block, in place. It receives each block with its sums,
 * and returns whether it has changed the block.
 *
 * @param enough samples from which a block has an offset of its own; a shorter one, such as the last, takes that of the
 *   block before it
 */
export function offsetRemover(enough: number): (block: Int16Array, sums: SampleSums) => boolean {
  let offset: number | undefined;
  return (block, sums) => {
    if (offset === undefined || sums.counted >= enough) offset = Math.round(offsetOf(sums, PCM_FULL_SCALE));
    if (offset === 0) return false;
    for (let n = 0; n < block.length; n++) {
      const sample = block[n] ?? 0;
      // Assigned as it is, a number out of range would change its sign.
      if (sample !== 0) block[n] = Math.max(-PCM_FULL_SCALE, Math.min(PCM_FULL_SCALE - 1, sample - offset));
    }
    return true;
  };
}
