import { expect, test } from "bun:test";
import { recordedDecoding } from "./model.ts";

test("evidence has the settings of a family beside those of all families", () => {
  const decoding = { unknownBelow: 0.5, tuning: { whisper: { timestamps: false } } };
  expect(recordedDecoding(decoding)).toEqual({ unknownBelow: 0.5, whisper: { timestamps: false } });
});
