import { expect, test } from "bun:test";
import { windowFrames } from "./window.ts";

test.each([
  [0.1, 512],
  [9, 512],
  [9.24, 512],
  [9.25, 768],
  [11, 768],
  [20, 1280],
  [24.6, 1280],
  [24.7, 1500],
  [30, 1500],
  [3600, 1500],
])("sound of %d s has a window of %d frames", (seconds, frames) => {
  expect(windowFrames(seconds * 16_000, true)).toBe(frames);
  expect(windowFrames(seconds * 16_000, false)).toBe(1500);
});
