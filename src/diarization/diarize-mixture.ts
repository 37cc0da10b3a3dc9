import { COEFFICIENTS } from "./diarize-features.ts";

/**
 * Mixtures of Gaussians with diagonal covariances (Reynolds 1995, "Speaker identification and verification using
 * Gaussian mixture speaker models"): the distribution of one speaker's frames.
 */
export type Mixture = {
  components: number;
  /** Logarithm of weight and normalisation, by component. */
  constants: Float64Array;
  /** All coefficients of the first component, then of the next. */
  means: Float64Array;
  /** 1 / variance, in the order of `means`. */
  precisions: Float64Array;
};

export type TrainingOptions = { maxComponents: number; maxFrames: number };

const MAX_COMPONENTS = 32;
/** A component needs this many frames to be estimated. */
const FRAMES_PER_COMPONENT = 60;
const ROUNDS = 8;
/**
 * The variance of all frames counts in each component like this many frames, so that few frames cannot make it tiny.
 */
const VARIANCE_PRIOR_FRAMES = 10;
const SMALLEST_VARIANCE = 0.05;
const SMALLEST_VARIANCE_SHARE = 0.05;
const NEGLIGIBLE = 1e-4;

const shares = new Float64Array(MAX_COMPONENTS);

/**
 * Fits a mixture by expectation and maximisation (Dempster, Laird and Rubin 1977). It starts from evenly spread frames.
 *
 * @param frames indexes of the frames in `features`; of more than `maxFrames`, evenly spread ones are used
 * @returns undefined without frames
 */
export function trainMixture(
  features: Float32Array,
  frames: Int32Array,
  { maxComponents, maxFrames }: TrainingOptions,
): Mixture | undefined {
  const used = thinOut(frames, maxFrames);
  if (used.length === 0) return undefined;
  const wanted = Math.floor(used.length / FRAMES_PER_COMPONENT);
  const components = Math.max(1, Math.min(maxComponents, MAX_COMPONENTS, wanted));
  const whole = momentsOf(features, used);
  const mixture: Mixture = {
    components,
    constants: new Float64Array(components),
    means: new Float64Array(components * COEFFICIENTS),
    precisions: new Float64Array(components * COEFFICIENTS),
  };
  for (let k = 0; k < components; k++) {
    const frame = used[Math.floor(((k + 0.5) * used.length) / components)] ?? 0;
    for (let c = 0; c < COEFFICIENTS; c++) {
      const mean = components === 1 ? whole.means[c] : features[frame * COEFFICIENTS + c];
      mixture.means[k * COEFFICIENTS + c] = mean ?? 0;
      mixture.precisions[k * COEFFICIENTS + c] = 1 / ((whole.variances[c] ?? 0) + SMALLEST_VARIANCE);
    }
  }
  setConstants(mixture, new Float64Array(components).fill(1 / components));
  for (let round = 0; round < ROUNDS; round++) improve(mixture, features, used, whole.variances);
  return mixture;
}

function thinOut(frames: Int32Array, maxFrames: number): Int32Array {
  if (frames.length <= maxFrames) return frames;
  return Int32Array.from(
    { length: maxFrames },
    (_, index) => frames[Math.floor((index * frames.length) / maxFrames)] ?? 0,
  );
}

function momentsOf(features: Float32Array, frames: Int32Array) {
  const means = new Float64Array(COEFFICIENTS);
  const variances = new Float64Array(COEFFICIENTS);
  for (const frame of frames) {
    for (let c = 0; c < COEFFICIENTS; c++) {
      means[c] = (means[c] ?? 0) + (features[frame * COEFFICIENTS + c] ?? 0) / frames.length;
    }
  }
  for (const frame of frames) {
    for (let c = 0; c < COEFFICIENTS; c++) {
      const distance = (features[frame * COEFFICIENTS + c] ?? 0) - (means[c] ?? 0);
      variances[c] = (variances[c] ?? 0) + distance ** 2 / frames.length;
    }
  }
  return { means, variances };
}

function setConstants(mixture: Mixture, weights: Float64Array): void {
  for (let k = 0; k < mixture.components; k++) {
    let constant = Math.log((weights[k] ?? 0) + 1e-12) - (COEFFICIENTS / 2) * Math.log(2 * Math.PI);
    for (let c = 0; c < COEFFICIENTS; c++) {
      constant += 0.5 * Math.log(mixture.precisions[k * COEFFICIENTS + c] ?? 1);
    }
    mixture.constants[k] = constant;
  }
}

/** Does one round of expectation and maximisation. */
function improve(
  mixture: Mixture,
  features: Float32Array,
  frames: Int32Array,
  variances: Float64Array,
): void {
  const { components, means, precisions } = mixture;
  const counts = new Float64Array(components);
  const sums = new Float64Array(components * COEFFICIENTS);
  const squares = new Float64Array(components * COEFFICIENTS);
  for (const frame of frames) {
    const offset = frame * COEFFICIENTS;
    const total = logLikelihood(mixture, features, offset);
    for (let k = 0; k < components; k++) {
      const share = Math.exp((shares[k] ?? 0) - total);
      if (share < NEGLIGIBLE) continue;
      counts[k] = (counts[k] ?? 0) + share;
      for (let c = 0; c < COEFFICIENTS; c++) {
        const value = features[offset + c] ?? 0;
        const cell = k * COEFFICIENTS + c;
        sums[cell] = (sums[cell] ?? 0) + share * value;
        squares[cell] = (squares[cell] ?? 0) + share * value * value;
      }
    }
  }
  for (let k = 0; k < components; k++) {
    const count = counts[k] ?? 0;
    if (count < 2) continue;
    for (let c = 0; c < COEFFICIENTS; c++) {
      const cell = k * COEFFICIENTS + c;
      const mean = (sums[cell] ?? 0) / count;
      const whole = variances[c] ?? 0;
      const spread = (squares[cell] ?? 0) - count * mean * mean + VARIANCE_PRIOR_FRAMES * whole;
      const variance = Math.max(spread / (count + VARIANCE_PRIOR_FRAMES), whole * SMALLEST_VARIANCE_SHARE);
      means[cell] = mean;
      precisions[cell] = 1 / (variance + SMALLEST_VARIANCE);
    }
  }
  const total = frames.length + components;
  setConstants(
    mixture,
    counts.map((count) => (count + 1) / total),
  );
}

/**
 * Computes the logarithm of a frame's probability density.
 *
 * @param offset where the frame's coefficients begin
 */
export function logLikelihood(mixture: Mixture, features: Float32Array, offset: number): number {
  const { components, constants, means, precisions } = mixture;
  let highest = Number.NEGATIVE_INFINITY;
  for (let k = 0; k < components; k++) {
    let distance = 0;
    const row = k * COEFFICIENTS;
    for (let c = 0; c < COEFFICIENTS; c++) {
      const difference = (features[offset + c] ?? 0) - (means[row + c] ?? 0);
      distance += difference * difference * (precisions[row + c] ?? 0);
    }
    const log = (constants[k] ?? 0) - 0.5 * distance;
    shares[k] = log;
    if (log > highest) highest = log;
  }
  let sum = 0;
  for (let k = 0; k < components; k++) sum += Math.exp((shares[k] ?? 0) - highest);
  return highest + Math.log(sum);
}
