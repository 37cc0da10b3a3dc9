import { expect, test } from "bun:test";
import { unitOf } from "./neural-linkage.ts";
import { sharedVector } from "./neural-sharing.ts";

const FRAMES = 400;
const FRAME = { frameSamples: 100 };
/** A window begins 100 frames after the one before. */
const SHIFT_SAMPLES = 10_000;

/** Makes the frames of a window from stretches of the track: who speaks, as bits, and the first and last frame. */
function windowAt(number: number, stretches: readonly [bits: number, from: number, end: number][]) {
  const frames = new Uint8Array(FRAMES);
  for (const [bits, from, end] of stretches) {
    frames.fill(bits, Math.max(0, from - 100 * number), Math.max(0, end - 100 * number));
  }
  return frames;
}

const [EAST, NORTH, NEARLY_EAST] = [
  [4, 0],
  [0, 1],
  [3, 1],
].map((numbers) => Float32Array.from(numbers));

type Other = [window: number, speaker: number, embedding: Float32Array | undefined];

function shared(windows: Uint8Array[], others: readonly Other[]) {
  const described = others.map(([window, speaker, embedding = new Float32Array()]) => ({
    ...{ window, speaker, aloneMs: 1_000, unit: unitOf(embedding) },
  }));
  const track = { windows, shiftSamples: SHIFT_SAMPLES };
  return sharedVector({ window: 1, speaker: 0, aloneMs: 1_000 }, described, track, FRAME);
}

test("a voice has the vectors of those that are alone in its sound, by the frames that they share", () => {
  const windows = [windowAt(0, [[2, 200, 300]]), windowAt(1, [[1, 200, 500]]), windowAt(2, [[1, 200, 500]])];
  const others: Other[] = [
    [0, 1, EAST],
    [2, 0, NEARLY_EAST],
  ];
  const [x = 0, y = 0] = shared(windows, others) ?? [];
  // 100 frames of the first and 300 of the second, whose length is the root of 10.
  expect(x).toBeCloseTo(100 + 300 * (3 / Math.sqrt(10)), 3);
  expect(y).toBeCloseTo(300 * (1 / Math.sqrt(10)), 3);
});

test("the number of a voice in its window says nothing", () => {
  const before = windowAt(0, [
    [1, 200, 300],
    [4, 300, 400],
  ]);
  const found = shared(
    [before, windowAt(1, [[1, 300, 400]])],
    [
      [0, 0, NORTH],
      [0, 2, EAST],
    ],
  );
  expect([...(found ?? [])]).toEqual([100, 0]);
});

test.each<{ title: string; windows: Uint8Array[]; others: Other[] }>([
  {
    title: "no other window has its sound",
    windows: [windowAt(0, [[1, 0, 100]]), windowAt(1, [[1, 420, 500]])],
    others: [[0, 0, EAST]],
  },
  {
    title: "too few frames are shared",
    windows: [windowAt(0, [[1, 380, 400]]), windowAt(1, [[1, 380, 400]])],
    others: [[0, 0, EAST]],
  },
  {
    title: "a small part of it is shared",
    windows: [windowAt(0, [[1, 300, 350]]), windowAt(1, [[1, 300, 500]])],
    others: [[0, 0, EAST]],
  },
  {
    title: "another talks at the same time",
    windows: [windowAt(0, [[3, 200, 400]]), windowAt(1, [[1, 200, 400]])],
    others: [
      [0, 0, EAST],
      [0, 1, EAST],
    ],
  },
  {
    title: "the others are different people",
    windows: [windowAt(0, [[1, 200, 300]]), windowAt(1, [[1, 200, 400]]), windowAt(2, [[1, 300, 400]])],
    others: [
      [0, 0, EAST],
      [2, 0, NORTH],
    ],
  },
])("a voice is described by itself where $title", ({ windows, others }) => {
  expect(shared(windows, others)).toBeUndefined();
});
