import { expect, test } from "bun:test";
import {
  addFrame,
  emptySums,
  gaussianOf,
  likelihoodRatio,
  logDeterminant,
  modelCost,
} from "./diarize-gaussian.ts";

const scratch = new Float64Array(3);

function gaussian(frames: readonly (readonly [number, number])[]) {
  const sums = emptySums(2);
  for (const frame of frames) addFrame(sums, Float32Array.from(frame), 0);
  return gaussianOf(sums, scratch);
}

test("the determinant is that of the regularised covariance matrix", () => {
  const { logDeterminant: log } = gaussian([
    [0, 0],
    [4, 2],
    [0, 2],
    [4, 4],
  ]);
  // Variances 4 and 2, covariance 2; 0.05 is added to each variance.
  expect(log).toBeCloseTo(Math.log(4.05 * 2.05 - 4), 9);
  expect(logDeterminant(emptySums(2), undefined, scratch)).toBe(0);
});

test("the likelihood ratio is near zero between halves of one sound, and grows with the distance", () => {
  const around = (x: number) =>
    gaussian([
      [x, 0],
      [x + 2, 2],
      [x, 2],
      [x + 2, 0],
    ]);
  expect(likelihoodRatio(around(0), around(0), scratch)).toBeCloseTo(0, 9);
  const near = likelihoodRatio(around(0), around(1), scratch);
  expect(near).toBeGreaterThan(0);
  expect(likelihoodRatio(around(0), around(9), scratch)).toBeGreaterThan(near);
});

test("the cost counts one mean and half a covariance matrix", () => {
  expect(modelCost(2, 100)).toBeCloseTo(0.5 * 5 * Math.log(100), 9);
});
