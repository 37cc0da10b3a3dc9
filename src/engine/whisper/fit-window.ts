import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import { LONGEST_WINDOW_MS, WINDOW_MS } from "../../domain/whisper-window.ts";

const WINDOW_SAMPLES = (WINDOW_MS * SAMPLE_RATE_HZ) / 1000;
const LONGEST_SAMPLES = (LONGEST_WINDOW_MS * SAMPLE_RATE_HZ) / 1000;
/** Samples on each side of a point of which the sound at that point is made. */
const REACH = 8;
/** Points between two samples for which the weights are computed. */
const PHASES = 256;

/** Sound that fits into one window, and how much faster it is than what it was made of; 1: unchanged. */
export type FittedSound = { samples: Float32Array; pace: number };

/**
 * Plays sound that is slightly longer than a window so much faster that it fills exactly one. Longer sound is
 * unchanged: it needs several windows in any case.
 *
 * @param samples 16 kHz, mono
 */
export function fitWindow(samples: Float32Array): FittedSound {
  if (samples.length <= WINDOW_SAMPLES || samples.length > LONGEST_SAMPLES) return { samples, pace: 1 };
  const pace = samples.length / WINDOW_SAMPLES;
  const weights = weightsFor(pace);
  const fitted = new Float32Array(WINDOW_SAMPLES);
  for (let n = 0; n < WINDOW_SAMPLES; n++) {
    const at = n * pace;
    const middle = Math.floor(at);
    const row = Math.floor((at - middle) * PHASES) * 2 * REACH;
    let sum = 0;
    for (let k = 0; k < 2 * REACH; k++)
      sum += (samples[middle - REACH + 1 + k] ?? 0) * (weights[row + k] ?? 0);
    fitted[n] = sum;
  }
  return { samples: fitted, pace };
}

/**
 * Recognizes sound that is fitted into a window where it is slightly longer.
 *
 * @returns segments with times of the sound as it was, milliseconds, which may be fractions
 */
export async function recognizeFitted<Segment extends { startMs: number; endMs: number }>(
  samples: Float32Array,
  recognize: (fitted: Float32Array) => Promise<Segment[]>,
): Promise<Segment[]> {
  const { samples: fitted, pace } = fitWindow(samples);
  const segments = await recognize(fitted);
  if (pace === 1) return segments;
  return segments.map((segment) => ({
    ...segment,
    startMs: segment.startMs * pace,
    endMs: segment.endMs * pace,
  }));
}

/** Returns the weights of the samples around a point, for each phase: a low pass, so that nothing is folded down. */
function weightsFor(pace: number): Float32Array {
  const weights = new Float32Array(PHASES * 2 * REACH);
  for (let phase = 0; phase < PHASES; phase++) {
    const row = weights.subarray(phase * 2 * REACH, (phase + 1) * 2 * REACH);
    for (let k = 0; k < row.length; k++) {
      const distance = k - REACH + 1 - (phase + 0.5) / PHASES;
      const x = (Math.PI * distance) / pace;
      const sinc = x === 0 ? 1 : Math.sin(x) / x;
      row[k] = sinc * (0.5 + 0.5 * Math.cos((Math.PI * distance) / (REACH + 1)));
    }
    const sum = row.reduce((total, weight) => total + weight, 0);
    for (let k = 0; k < row.length; k++) row[k] = (row[k] ?? 0) / sum;
  }
  return weights;
}
