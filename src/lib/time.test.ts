import { expect, test } from "bun:test";
import { describeDuration } from "./time.ts";

test.each([
  [0, "0 s"],
  [400, "0 s"],
  [42_000, "42 s"],
  [60_000, "1 min 0 s"],
  [4_185_000, "1 h 9 min"],
  [3 * 86_400_000, "3 d 0 h"],
  [-5, "0 s"],
])("%d ms is %s", (milliseconds, text) => {
  expect(describeDuration(milliseconds)).toBe(text);
});
