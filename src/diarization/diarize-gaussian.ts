/**
 * Gaussians with full covariances, and the generalised likelihood ratio between two of them. They are kept as sums, so
 * that two can be added.
 */

/** Sums over the coefficients of frames; `products` holds the lower triangle of Σ x·xᵀ, row by row. */
export type FrameSums = { frames: number; sums: Float64Array; products: Float64Array };

export function emptySums(dimensions: number): FrameSums {
  return {
    frames: 0,
    sums: new Float64Array(dimensions),
    products: new Float64Array((dimensions * (dimensions + 1)) / 2),
  };
}

export function addFrame(into: FrameSums, features: Float32Array, offset: number): void {
  const { sums, products } = into;
  let cell = 0;
  for (let row = 0; row < sums.length; row++) {
    const value = features[offset + row] ?? 0;
    sums[row] = (sums[row] ?? 0) + value;
    for (let column = 0; column <= row; column++, cell++) {
      products[cell] = (products[cell] ?? 0) + value * (features[offset + column] ?? 0);
    }
  }
  into.frames++;
}

export function addSums(into: FrameSums, other: FrameSums): void {
  into.frames += other.frames;
  for (let i = 0; i < into.sums.length; i++) into.sums[i] = (into.sums[i] ?? 0) + (other.sums[i] ?? 0);
  for (let i = 0; i < into.products.length; i++) {
    into.products[i] = (into.products[i] ?? 0) + (other.products[i] ?? 0);
  }
}

/** Added to the diagonal, so that few frames have a usable covariance; coefficients have variances of 1 to 100. */
const REGULARIZATION = 0.05;

/**
 * Computes the logarithm of the determinant of the covariance of one or two sums, by Cholesky's decomposition.
 *
 * @param scratch space for a lower triangle; it is overwritten
 */
export function logDeterminant(a: FrameSums, b: FrameSums | undefined, scratch: Float64Array): number {
  const dimensions = a.sums.length;
  const frames = a.frames + (b?.frames ?? 0);
  if (frames === 0) return 0;
  let logs = 0;
  let rowStart = 0;
  for (let row = 0; row < dimensions; row++) {
    const rowMean = ((a.sums[row] ?? 0) + (b?.sums[row] ?? 0)) / frames;
    let columnStart = 0;
    for (let column = 0; column <= row; column++) {
      const cell = rowStart + column;
      const columnMean = ((a.sums[column] ?? 0) + (b?.sums[column] ?? 0)) / frames;
      let value = ((a.products[cell] ?? 0) + (b?.products[cell] ?? 0)) / frames - rowMean * columnMean;
      if (row === column) value += REGULARIZATION;
      for (let k = 0; k < column; k++)
        value -= (scratch[rowStart + k] ?? 0) * (scratch[columnStart + k] ?? 0);
      if (row === column) {
        const pivot = Math.max(value, 1e-9);
        logs += Math.log(pivot);
        scratch[cell] = Math.sqrt(pivot);
      } else {
        scratch[cell] = value / (scratch[columnStart + column] ?? 1);
      }
      columnStart += column + 1;
    }
    rowStart += row + 1;
  }
  return logs;
}

/** A cluster of frames. */
export type Gaussian = FrameSums & { logDeterminant: number };

export function gaussianOf(sums: FrameSums, scratch: Float64Array): Gaussian {
  return { ...sums, logDeterminant: logDeterminant(sums, undefined, scratch) };
}

/**
 * Computes how much better two Gaussians describe the frames than one: the logarithm of the generalised likelihood ratio,
 * ½ (n log|Σ| − n₁ log|Σ₁| − n₂ log|Σ₂|) of Chen and Gopalakrishnan 1998, "Speaker, environment and channel change
 * detection and clustering via the Bayesian information criterion".
 */
export function likelihoodRatio(a: Gaussian, b: Gaussian, scratch: Float64Array): number {
  const together = logDeterminant(a, b, scratch);
  return 0.5 * ((a.frames + b.frames) * together - a.frames * a.logDeterminant - b.frames * b.logDeterminant);
}

/** Computes the cost of a second Gaussian in that criterion at λ = 1: ½ × parameters × log(frames). */
export function modelCost(dimensions: number, frames: number): number {
  return 0.5 * (dimensions + (dimensions * (dimensions + 1)) / 2) * Math.log(Math.max(2, frames));
}
