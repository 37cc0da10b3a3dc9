import { expect, test } from "bun:test";
import { choose } from "./accept.ts";

const OFFERED = ["application/json", "text/vtt", "text/plain"] as const;

const CASES: [accept: string | null, chosen: (typeof OFFERED)[number]][] = [
  [null, "application/json"],
  ["", "application/json"],
  ["*/*", "application/json"],
  ["text/vtt", "text/vtt"],
  ["TEXT/VTT", "text/vtt"],
  ["text/*", "text/vtt"],
  ["text/plain, text/*;q=0.1", "text/plain"],
  ["application/json, text/plain, */*", "application/json"],
  ["application/json;q=0.2, text/plain;q=0.9", "text/plain"],
  ["*/*, application/json;q=0", "text/vtt"],
  ["image/png", "application/json"],
  ["text/plain;q=0", "application/json"],
  ["text/plain;q=nonsense", "application/json"],
];

test.each(CASES)("Accept: %s", (accept, chosen) => {
  expect(choose(accept, OFFERED)).toBe(chosen);
});
