import { expect, test } from "bun:test";
import { describeDuration, fromFileStamp, toFileStamp } from "./time.ts";

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

test("the name of a file has its time", () => {
  const atMs = Date.UTC(2026, 10, 26, 14, 3, 7, 123);
  expect(toFileStamp(atMs)).toBe("2026-11-26T14-03-07-123Z");
  expect(fromFileStamp(toFileStamp(atMs))).toBe("2026-11-26T14:03:07.123Z");
});

test.each(["", "2026-11-26", "2026-11-26T14:03:07.123Z", "2026-11-26T14-03-07-123Z.part"])(
  "%j is not the time of a file's name",
  (name) => {
    expect(fromFileStamp(name)).toBeUndefined();
  },
);
