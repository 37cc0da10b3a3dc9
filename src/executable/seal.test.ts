import { expect, test } from "bun:test";
import { readSeal, renderSeal, SEAL_BYTES } from "./seal.ts";

const SEAL = { bytes: 186_992_816, sha256: "0123456789abcdef".repeat(4) };

test("a seal has a fixed length and is read back", () => {
  for (const bytes of [0, SEAL.bytes, 999_999_999_999]) {
    const text = renderSeal({ ...SEAL, bytes });
    expect(Buffer.byteLength(text)).toBe(SEAL_BYTES);
    expect(readSeal(text)).toEqual({ ...SEAL, bytes });
  }
});

test.each([
  ["nothing", ""],
  ["other bytes", "\0".repeat(SEAL_BYTES)],
  ["a seal that begins later", renderSeal(SEAL).slice(1)],
  ["a seal with bytes behind it", `${renderSeal(SEAL)}\n`],
  ["another version", renderSeal(SEAL).replace("seal 1", "seal 2")],
  ["a digit that is none", renderSeal(SEAL).replace("abcdef", "abcdeg")],
])("%s is no seal", (_what, text) => {
  expect(readSeal(text)).toBeUndefined();
});
