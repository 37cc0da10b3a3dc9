/*
 * Sizes of values in a network that is given one sound at a time: numbers, or what follows from the number of its frames. Exporters
 * write every size that is not the same for all sounds as operations over shapes.
 */

/** Frames of the longest sound that a network is given: a minute. Chunks are shorter (docs/engine.md section 3). */
const MOST_FRAMES = 6_000;

/** (times × ⌊(frames + add) / by⌋ + plus) / over. A whole number has over 1, and plus 0 where times is 1. */
type Scaled = {
  readonly times: number;
  readonly add: number;
  readonly by: number;
  readonly plus: number;
  readonly over: number;
};
/** A number that the network computes with: always the same, or one that follows from the number of frames. */
export type Size = number | Scaled;

/** The number of frames itself. */
export const FRAMES: Size = { times: 1, add: 0, by: 1, plus: 0, over: 1 };

const at = ({ times, add, by, plus, over }: Scaled, frames: number) =>
  (times * Math.floor((frames + add) / by) + plus) / over;
/** The least and the largest that a size can be. */
export const leastOf = (size: Size): number =>
  typeof size === "number" ? size : at(size, size.times > 0 ? 1 : MOST_FRAMES);
export const mostOf = (size: Size): number =>
  typeof size === "number" ? size : at(size, size.times > 0 ? MOST_FRAMES : 1);

export const isSame = (a: Size | undefined, b: Size | undefined): boolean =>
  a !== undefined && b !== undefined && differenceOf(a, b) === 0;

/** Whether a size is never larger than another; false: it may be. */
export function isAtMost(a: Size, b: Size): boolean {
  const difference = differenceOf(b, a);
  if (difference !== undefined) return leastOf(difference) >= 0;
  const isNear = typeof a === "object" && typeof b === "object" && a.by === b.by && a.add <= b.add;
  return mostOf(a) <= leastOf(b) || (isNear && [a, b].every(({ times, over }) => times === 1 && over === 1));
}

/** @returns undefined: the sum is not of this form */
export function sumOf(a: Size, b: Size): Size | undefined {
  if (typeof a === "number" && typeof b === "number") return a + b;
  if (typeof a === "number") return sumOf(b, a);
  if (typeof b === "number")
    return Number.isInteger(b * a.over) ? normal({ ...a, plus: a.plus + b * a.over }) : undefined;
  if (a.over !== b.over) return undefined;
  // ⌊(n + add) / by⌋ and a whole number more are a sum with another add, so the same sums may look different.
  const shift = (b.add - a.add) / a.by;
  if (a.by !== b.by || !Number.isInteger(shift)) return undefined;
  return normal({ ...a, times: a.times + b.times, plus: a.plus + b.plus + b.times * shift });
}

export const differenceOf = (a: Size, b: Size): Size | undefined => {
  const less = productOf(b, -1);
  return less === undefined ? undefined : sumOf(a, less);
};

export function productOf(a: Size, b: Size): Size | undefined {
  if (typeof a === "number") return typeof b === "number" ? a * b : productOf(b, a);
  if (typeof b !== "number" || !Number.isInteger(b)) return undefined;
  return b === 0 ? 0 : normal({ ...a, times: a.times * b, plus: a.plus * b });
}

/** @returns the exact quotient, which `floorOf` makes whole */
export function quotientOf(a: Size, b: Size): Size | undefined {
  if (typeof b !== "number" || !Number.isInteger(b) || b < 1) return undefined;
  return typeof a === "number" ? a / b : normal({ ...a, over: a.over * b });
}

/** The largest whole number that is not larger. */
export function floorOf(size: Size): Size | undefined {
  if (typeof size === "number") return Math.floor(size);
  const { times, add, by, plus, over } = size;
  if (over === 1) return size;
  return times === 1 ? { times, add: add + plus * by, by: by * over, plus: 0, over: 1 } : undefined;
}

/** What remains of a number whose fraction is cut off. @returns undefined: it may be below zero, and not of this form */
export const wholeOf = (size: Size): Size | undefined =>
  typeof size === "number" ? Math.trunc(size) : leastOf(size) >= 0 ? floorOf(size) : undefined;

/** Writes the same size always in the same way. */
function normal(size: Scaled): Size {
  const { times, add, by, plus, over } = size;
  if (times === 0) return plus / over;
  return times === 1 && over === 1 ? { times, add: add + plus * by, by, plus: 0, over } : size;
}
