const FFT_HZ = 40;
export const FILTER_BINS = 201;
/** Slaney's scale is linear below 1000 Hz (mel 15) and logarithmic above. */
const LINEAR_MELS = 15;
const LINEAR_HZ = 1000;
const HZ_PER_MEL = 200 / 3;
const LOG_STEP = Math.log(6.4) / 27;
const TOP_MEL = LINEAR_MELS + Math.log(8) / LOG_STEP;

/**
 * Computes the filters that Whisper's models hear through: triangles on Slaney's mel scale from 0 to 8 kHz, each with the
 * same area, for spectra of 201 values. OpenAI's file of them, which came from librosa, has the same bits.
 *
 * @param mels 80 or 128
 * @returns mels × 201 values, one filter after the other
 */
export function melFilters(mels: number): Float32Array<ArrayBuffer> {
  const corners = Array.from({ length: mels + 2 }, (_, index) => toHz((TOP_MEL * index) / (mels + 1)));
  const filters = new Float32Array(mels * FILTER_BINS);
  for (let mel = 0; mel < mels; mel++) {
    const [left = 0, centre = 0, right = 0] = corners.slice(mel, mel + 3);
    for (let bin = 0; bin < FILTER_BINS; bin++) {
      const hz = bin * FFT_HZ;
      const weight = Math.max(0, Math.min((hz - left) / (centre - left), (right - hz) / (right - centre)));
      filters[mel * FILTER_BINS + bin] = Math.fround(weight) * (2 / (right - left));
    }
  }
  // The file of OpenAI begins with a negative zero.
  filters[0] = -0;
  return filters;
}

function toHz(mel: number): number {
  return mel < LINEAR_MELS ? mel * HZ_PER_MEL : LINEAR_HZ * Math.exp(LOG_STEP * (mel - LINEAR_MELS));
}
