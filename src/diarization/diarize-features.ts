import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";

/**
 * Mel-frequency cepstral coefficients (Davis and Mermelstein 1980, "Comparison of parametric representations for
 * monosyllabic word recognition"; the mel scale and triangles are HTK's), the usual description of a voice's timbre.
 */

/** Samples at 16 kHz between the starts of two frames: 10 ms. */
export const HOP_SAMPLES = 160;
/** Samples that a frame looks at: 25 ms. */
export const FRAME_SAMPLES = 400;
/** Coefficients of a frame. The first one, loudness, is left out: it depends more on distance than on the voice. */
export const COEFFICIENTS = 19;

const FFT_SIZE = 512;
const FILTERS = 30;
const LOWEST_HZ = 60;
const HIGHEST_HZ = 7_600;
const PRE_EMPHASIS = 0.97;
/** Less power than this in a filter is rounding of 16-bit samples, not a voice. */
const SMALLEST_POWER = 1e-6;

export type FrameAnalyzer = {
  /**
   * Computes the coefficients of one frame.
   *
   * @param samples within −1 to 1; `FRAME_SAMPLES` of them are read from `start` on
   * @param target receives `COEFFICIENTS` numbers from `offset` on
   */
  analyze(samples: Float32Array, start: number, target: Float32Array, offset: number): void;
};

/** @param highestHz where the filters end; lower for a recording whose upper band is empty */
export function createFrameAnalyzer(highestHz: number = HIGHEST_HZ): FrameAnalyzer {
  const window = Float64Array.from(
    { length: FRAME_SAMPLES },
    (_, n) => 0.54 - 0.46 * Math.cos((2 * Math.PI * n) / (FRAME_SAMPLES - 1)),
  );
  const fft = createRealFft(FFT_SIZE);
  const filters = createFilters(highestHz);
  const cosines = createCosines();
  const frame = new Float64Array(FFT_SIZE);
  const power = new Float64Array(FFT_SIZE / 2 + 1);
  const logs = new Float64Array(FILTERS);
  return {
    analyze(samples, start, target, offset) {
      let before = samples[start] ?? 0;
      for (let n = 0; n < FRAME_SAMPLES; n++) {
        const sample = samples[start + n] ?? 0;
        frame[n] = (sample - PRE_EMPHASIS * before) * (window[n] ?? 0);
        before = sample;
      }
      frame.fill(0, FRAME_SAMPLES);
      fft(frame, power);
      for (let filter = 0; filter < FILTERS; filter++) {
        const { firstBin, weights } = filters[filter] ?? NO_FILTER;
        let sum = 0;
        for (let k = 0; k < weights.length; k++) sum += (weights[k] ?? 0) * (power[firstBin + k] ?? 0);
        logs[filter] = Math.log(Math.max(sum, SMALLEST_POWER));
      }
      for (let c = 0; c < COEFFICIENTS; c++) {
        let sum = 0;
        const row = c * FILTERS;
        for (let filter = 0; filter < FILTERS; filter++)
          sum += (cosines[row + filter] ?? 0) * (logs[filter] ?? 0);
        target[offset + c] = sum;
      }
    },
  };
}

type Filter = { firstBin: number; weights: Float64Array };
const NO_FILTER: Filter = { firstBin: 0, weights: new Float64Array(0) };

function createFilters(highestHz: number): Filter[] {
  const mel = (hz: number) => 1127 * Math.log(1 + hz / 700);
  const step = (mel(highestHz) - mel(LOWEST_HZ)) / (FILTERS + 1);
  const binMel = (bin: number) => mel((bin * SAMPLE_RATE_HZ) / FFT_SIZE);
  return Array.from({ length: FILTERS }, (_, index) => {
    const centre = mel(LOWEST_HZ) + (index + 1) * step;
    const weightOf = (bin: number) => Math.max(0, 1 - Math.abs(binMel(bin) - centre) / step);
    const bins = Array.from({ length: FFT_SIZE / 2 + 1 }, (_, bin) => bin).filter((bin) => weightOf(bin) > 0);
    return { firstBin: bins[0] ?? 0, weights: Float64Array.from(bins, weightOf) };
  });
}

/** Returns the matrix of the discrete cosine transform (type II, orthonormal) without its first row. */
function createCosines(): Float64Array {
  const cosines = new Float64Array(COEFFICIENTS * FILTERS);
  for (let c = 0; c < COEFFICIENTS; c++) {
    for (let filter = 0; filter < FILTERS; filter++) {
      cosines[c * FILTERS + filter] =
        Math.sqrt(2 / FILTERS) * Math.cos((Math.PI * (c + 1) * (filter + 0.5)) / FILTERS);
    }
  }
  return cosines;
}

/**
 * Creates a function that computes the power spectrum of real numbers. It uses a complex transform of half the size
 * (Cooley and Tukey 1965), with even samples as real and odd samples as imaginary parts, and separates the two afterwards.
 *
 * @param size a power of two
 * @returns a function that reads `size` numbers and writes `size / 2 + 1` powers
 */
export function createRealFft(size: number): (frame: Float64Array, power: Float64Array) => void {
  const half = size / 2;
  const real = new Float64Array(half);
  const imaginary = new Float64Array(half);
  const cosine = Float64Array.from({ length: half }, (_, k) => Math.cos((2 * Math.PI * k) / size));
  const sine = Float64Array.from({ length: half }, (_, k) => -Math.sin((2 * Math.PI * k) / size));
  const bits = Math.log2(half);
  const reversed = Uint16Array.from({ length: half }, (_, n) => {
    let r = 0;
    for (let bit = 0; bit < bits; bit++) r |= ((n >> bit) & 1) << (bits - 1 - bit);
    return r;
  });
  return (frame, power) => {
    for (let n = 0; n < half; n++) {
      const r = reversed[n] ?? 0;
      real[r] = frame[2 * n] ?? 0;
      imaginary[r] = frame[2 * n + 1] ?? 0;
    }
    for (let width = 1; width < half; width *= 2) {
      // The table is for the full size, so a transform of half the size uses every second entry.
      const stride = half / width;
      for (let k = 0; k < width; k++) {
        const c = cosine[k * stride] ?? 0;
        const s = sine[k * stride] ?? 0;
        for (let top = k; top < half; top += 2 * width) {
          const low = top + width;
          const re = (real[low] ?? 0) * c - (imaginary[low] ?? 0) * s;
          const im = (real[low] ?? 0) * s + (imaginary[low] ?? 0) * c;
          real[low] = (real[top] ?? 0) - re;
          imaginary[low] = (imaginary[top] ?? 0) - im;
          real[top] = (real[top] ?? 0) + re;
          imaginary[top] = (imaginary[top] ?? 0) + im;
        }
      }
    }
    for (let k = 0; k <= half; k++) {
      const a = k % half;
      const b = (half - k) % half;
      const evenRe = ((real[a] ?? 0) + (real[b] ?? 0)) / 2;
      const evenIm = ((imaginary[a] ?? 0) - (imaginary[b] ?? 0)) / 2;
      const oddRe = ((imaginary[a] ?? 0) + (imaginary[b] ?? 0)) / 2;
      const oddIm = ((real[b] ?? 0) - (real[a] ?? 0)) / 2;
      const c = k === half ? -1 : (cosine[k] ?? 0);
      const s = k === half ? 0 : (sine[k] ?? 0);
      const re = evenRe + c * oddRe - s * oddIm;
      const im = evenIm + c * oddIm + s * oddRe;
      power[k] = re * re + im * im;
    }
  };
}
