import { describe, expect, test } from "bun:test";
import * as sizes from "./onnx-sizes.ts";
import { FRAMES, type Size } from "./onnx-sizes.ts";

/** What a size is for a number of frames, computed apart from the code under test. */
const numberOf = (size: Size, frames: number): number =>
  typeof size === "number"
    ? size
    : (size.times * Math.floor((frames + size.add) / size.by) + size.plus) / size.over;
const sure = (size: Size | undefined): Size => size ?? Number.NaN;
const { sumOf, quotientOf, floorOf, productOf, differenceOf } = sizes;

/** Frames behind a convolution of 3 that halves, as the convolution and as the exporter's masks have them. */
const halved = (size: Size) => sure(sumOf(sure(floorOf(sure(quotientOf(sure(sumOf(size, -1)), 2)))), 1));
const maskHalved = (size: Size) => {
  const half = sure(quotientOf(sure(sumOf(sure(sumOf(sure(sumOf(size, 1)), 1)), -3)), 2));
  return sure(sumOf(sure(sizes.wholeOf(half)), 1));
};

describe("sizes that follow from the number of frames", () => {
  const eighth = halved(halved(halved(FRAMES)));
  const cases: [name: string, size: Size, by: (frames: number) => number][] = [
    ["frames", FRAMES, (n) => n],
    ["a half", halved(FRAMES), (n) => Math.ceil(n / 2)],
    ["an eighth", eighth, (n) => Math.ceil(n / 8)],
    [
      "an eighth by the lengths of masks",
      maskHalved(maskHalved(maskHalved(FRAMES))),
      (n) => Math.ceil(n / 8),
    ],
    ["distances", sure(sumOf(sure(productOf(eighth, 2)), -1)), (n) => 2 * Math.ceil(n / 8) - 1],
    ["what remains of a table", sure(differenceOf(5000, eighth)), (n) => 5000 - Math.ceil(n / 8)],
    [
      "a part of a table",
      sure(differenceOf(sure(sumOf(eighth, 4999)), sure(differenceOf(5000, eighth)))),
      (n) => 2 * Math.ceil(n / 8) - 1,
    ],
  ];
  test.each(cases)("%s", (_name, size, by) => {
    for (let frames = 1; frames <= 6_000; frames++) expect(numberOf(size, frames)).toBe(by(frames));
    const all = [1, 6_000].map(by);
    expect([sizes.leastOf(size), sizes.mostOf(size)]).toEqual([Math.min(...all), Math.max(...all)]);
  });

  test("the same size is found however it is written", () => {
    const byMask = maskHalved(maskHalved(maskHalved(FRAMES)));
    expect(sizes.isSame(eighth, byMask)).toBe(true);
    expect(sizes.isSame(eighth, halved(FRAMES))).toBe(false);
    expect(sizes.isSame(eighth, undefined)).toBe(false);
  });

  test("only what is never larger is at most another size", () => {
    const fewer = sure(sumOf(eighth, -1));
    expect([sizes.isAtMost(fewer, eighth), sizes.isAtMost(eighth, fewer)]).toEqual([true, false]);
    expect([sizes.isAtMost(eighth, 750), sizes.isAtMost(eighth, 749)]).toEqual([true, false]);
    // Half as many frames are fewer, which is not known, and nothing is claimed.
    expect(sizes.isAtMost(halved(FRAMES), sure(sumOf(FRAMES, -1)))).toBe(false);
  });

  test("what is not of this form is not known", () => {
    expect(sumOf(FRAMES, halved(FRAMES))).toBeUndefined();
    expect(productOf(FRAMES, eighth)).toBeUndefined();
    expect(quotientOf(FRAMES, FRAMES)).toBeUndefined();
    expect(sizes.wholeOf(sure(quotientOf(sure(sumOf(FRAMES, -9)), 2)))).toBeUndefined();
    expect(floorOf(sure(quotientOf(sure(sumOf(sure(productOf(FRAMES, 3)), 1)), 2)))).toBeUndefined();
  });
});
