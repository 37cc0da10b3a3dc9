import { expect, test } from "bun:test";
import { meanProbability } from "./confidence.ts";

/** Makes tokens from bytes and probabilities. */
function mean(...tokens: [bytes: Uint8Array | string, probability: number][]): number {
  const parts = tokens.map(([bytes]) =>
    typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes,
  );
  let end = 0;
  const ends = parts.map(({ length }) => (end += length));
  return meanProbability(
    tokens.map(([, probability]) => probability),
    Uint8Array.from(parts.flatMap((part) => [...part])),
    ends,
  );
}

test("every whole token counts once", () => {
  expect(mean([" my", 1], [" order", 0.5])).toBe(0.75);
  expect(mean([" मेरा", 0.9], ["", 0.5])).toBeCloseTo(0.7);
  expect(mean()).toBe(0);
});

test("tokens that share one character count once together", () => {
  const ka = new TextEncoder().encode("க");
  const split = mean([ka.subarray(0, 2), 0.5], [ka.subarray(2), 1], [" ok", 1]);
  expect(split).toBe(0.75);
  const bytewise = mean([ka.subarray(0, 1), 0.5], [ka.subarray(1, 2), 0.8], [ka.subarray(2), 0.5]);
  expect(bytewise).toBeCloseTo(0.2);
});

test("two characters that meet within a token are still counted separately from the following tokens", () => {
  const two = new TextEncoder().encode("கம");
  const meeting = mean([two.subarray(0, 2), 0.5], [two.subarray(2, 5), 1], [two.subarray(5), 1], [" x", 1]);
  expect(meeting).toBe(0.75);
});

test("bytes that never form a character do no harm", () => {
  expect(mean([Uint8Array.of(0xe0), 0.5], ["a", 1])).toBe(0.5);
  expect(mean([Uint8Array.of(0xa4, 0xa4), 0.5], [Uint8Array.of(0xe0), 0.5])).toBe(0.5);
});
