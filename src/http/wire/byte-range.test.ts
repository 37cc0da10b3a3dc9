import { expect, test } from "bun:test";
import { namesTag, readRange } from "./byte-range.ts";

test.each([
  [null, undefined],
  ["bytes=0-", { from: 0, to: 999 }],
  ["bytes=0-0", { from: 0, to: 0 }],
  ["bytes=10-19", { from: 10, to: 19 }],
  ["bytes=990-2000", { from: 990, to: 999 }],
  ["bytes=-10", { from: 990, to: 999 }],
  ["bytes=-5000", { from: 0, to: 999 }],
  ["BYTES=5-", { from: 5, to: 999 }],
  ["bytes=999-", { from: 999, to: 999 }],
  ["bytes=1000-", "unsatisfiable"],
  ["bytes=1000-1001", "unsatisfiable"],
  ["bytes=-0", "unsatisfiable"],
  ["bytes=-", undefined],
  ["bytes=9-5", undefined],
  ["bytes=0-1,5-6", undefined],
  ["samples=0-1", undefined],
  ["bytes=a-b", undefined],
  ["bytes=0x1-", undefined],
  ["bytes=99999999999999999999-", undefined],
])("Range: %s of 1000 bytes", (field, range) => {
  expect(readRange(field, 1000)).toEqual(range as never);
});

test.each([
  [null, false],
  ['"a"', true],
  ['"b", "a"', true],
  ["*", true],
  ['W/"a"', false],
  ["Sun, 22 Nov 2026 09:36:26 GMT", false],
])("%s names the tag: %p", (field, isNamed) => {
  expect(namesTag(field, '"a"')).toBe(isNamed);
});
