import { open } from "node:fs/promises";
import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import { PCM_FULL_SCALE, readPcm, scalePcm } from "../native/decoder/pcm-file.ts";
import type { SpeakerTrack, YieldToLoop } from "./diarize-tracks.ts";

/**
 * The band of a voice. The net describes a voice over the telephone otherwise than the same voice from a microphone, because
 * the first has no sound above 4 kHz. A track that holds both is described below that everywhere.
 */

/** A telephone carries sound up to 3.4 kHz, and what was sampled at 8 kHz has some up to 4.2 kHz. */
const TELEPHONE_HZ = 3_700;
const ABOVE_TELEPHONE_HZ = 4_500;
/** The filter falls by 90 dB within 600 Hz around its edge (Kaiser 1974, with his factor for 90 dB). */
const TAPS = 153;
const KAISER_BETA = 8.96;
/** Speech is compared in blocks, which are long enough to have a consonant, and frames, which are as short as that. */
const BLOCK_SAMPLES = 2 * SAMPLE_RATE_HZ;
const FRAME_SAMPLES = 320;
/** The power above the telephone's band is computed at each eighth sample. */
const EVERY_SAMPLES = 8;
/** A block is wide when the power of its strongest frame above that band is this share of its mean power: −40 dB. */
const WIDE_SHARE = 10 ** -4;
/** A track holds both bands when each has this time and this share of its speech. */
const LEAST_SAMPLES = 10 * SAMPLE_RATE_HZ;
const LEAST_SHARE = 0.1;

/** Says whether a track has both speech of the telephone's band and speech with more than that. */
export async function holdsBothBands(
  { pcmPath, regions }: SpeakerTrack,
  yieldToLoop: YieldToLoop,
): Promise<boolean> {
  const taps = lowPass(ABOVE_TELEPHONE_HZ);
  const pcm = new Int16Array(BLOCK_SAMPLES);
  const sound = new Float32Array(BLOCK_SAMPLES);
  let [wide, narrow] = [0, 0];
  const file = await open(pcmPath, "r");
  try {
    for (const { startSample, endSample } of regions) {
      for (let start = startSample; start < endSample; start += BLOCK_SAMPLES) {
        const block = pcm.subarray(0, Math.min(BLOCK_SAMPLES, endSample - start));
        const read = await readPcm(file, block, start);
        scalePcm(block.subarray(0, read), sound, 0);
        const isWide = shareAbove(sound.subarray(0, read), taps) > WIDE_SHARE;
        if (isWide) wide += read;
        else narrow += read;
        await yieldToLoop();
      }
    }
  } finally {
    await file.close();
  }
  const least = Math.max(LEAST_SAMPLES, LEAST_SHARE * (wide + narrow));
  return Math.min(wide, narrow) >= least;
}

/** Returns the power above the edge of a filter in the frame that has most of it, as a share of the mean power. */
function shareAbove(sound: Float32Array, taps: Float32Array): number {
  const middle = taps.length >> 1;
  let [whole, most, frames] = [0, 0, 0];
  for (let first = 0; first + FRAME_SAMPLES + taps.length <= sound.length; first += FRAME_SAMPLES) {
    let above = 0;
    for (let at = first; at < first + FRAME_SAMPLES; at += EVERY_SAMPLES) {
      const sample = sound[at + middle] ?? 0;
      whole += sample * sample;
      above += (sample - filtered(sound, at, taps)) ** 2;
    }
    most = Math.max(most, above);
    frames++;
  }
  return whole > 0 ? (most * frames) / whole : 0;
}

/**
 * Takes away what a telephone does not carry, and rounds to 16 bits. So nothing but the noise of rounding is left above it, as
 * in the decoded sound of a telephone.
 */
export function limitToTelephone(sound: Float32Array): Float32Array {
  const taps = lowPass(TELEPHONE_HZ);
  const middle = taps.length >> 1;
  const padded = new Float32Array(sound.length + 2 * middle);
  padded.set(sound, middle);
  return sound.map((_, at) => Math.round(filtered(padded, at, taps) * PCM_FULL_SCALE) / PCM_FULL_SCALE);
}

function filtered(sound: Float32Array, from: number, taps: Float32Array): number {
  let sum = 0;
  for (let tap = 0; tap < taps.length; tap++) sum += (taps[tap] ?? 0) * (sound[from + tap] ?? 0);
  return sum;
}

/** Returns a low-pass filter by Kaiser's window; its taps are symmetric. */
function lowPass(edgeHz: number): Float32Array {
  const middle = TAPS >> 1;
  const cutoff = (2 * edgeHz) / SAMPLE_RATE_HZ;
  const taps = Float32Array.from({ length: TAPS }, (_, tap) => {
    const x = tap - middle;
    const sinc = x === 0 ? cutoff : Math.sin(Math.PI * cutoff * x) / (Math.PI * x);
    return sinc * besselI0(KAISER_BETA * Math.sqrt(1 - (x / middle) ** 2));
  });
  const sum = taps.reduce((total, tap) => total + tap, 0);
  return taps.map((tap) => tap / sum);
}

/** The modified Bessel function of the first kind, order 0, by its power series. */
function besselI0(x: number): number {
  let [term, sum] = [1, 1];
  for (let n = 1; term > sum * 1e-9; n++) {
    term *= (x / (2 * n)) ** 2;
    sum += term;
  }
  return sum;
}
