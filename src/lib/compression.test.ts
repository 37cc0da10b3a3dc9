import { expect, test } from "bun:test";
import { deflateSync } from "node:zlib";
import { compressionRatio } from "./compression.ts";

test("the ratio is that of zlib's own form", () => {
  const phrase = new TextEncoder().encode("please confirm the delivery on monday ");
  for (const length of [1, 10, 38, 1_000, 100_000]) {
    const bytes = Uint8Array.from({ length }, (_, n) => (phrase[n % phrase.length] ?? 0) ^ (n >> 10));
    expect(compressionRatio(bytes)).toBe(length / deflateSync(bytes).length);
  }
  expect(compressionRatio(new Uint8Array(0))).toBe(0);
});
