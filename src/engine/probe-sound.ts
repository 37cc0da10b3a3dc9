/** Sound with which a loaded model is tried: quiet noise, the same at every call. */
export function quietNoise(count: number): Float32Array {
  const samples = new Float32Array(count);
  let state = 1;
  for (let n = 0; n < count; n++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    samples[n] = (state / 2 ** 32 - 0.5) * 0.02;
  }
  return samples;
}

/** Adds silence to audio that is too short for a frame of a model. */
export function longEnough(samples: Float32Array, least: number): Float32Array {
  if (samples.length >= least) return samples;
  const padded = new Float32Array(least);
  padded.set(samples);
  return padded;
}
