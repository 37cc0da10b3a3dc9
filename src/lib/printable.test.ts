import { expect, test } from "bun:test";
import { printable } from "./printable.ts";

test.each([
  ["a plain name", "cpu, 8 cores", "cpu, 8 cores"],
  ["Indian letters with joiners", "क्‍ष ರ‍್ಯಾಂಕ್", "क्‍ष ರ‍್ಯಾಂಕ್"],
  ["an escape sequence", "cpu\u001b[2J", "cpu?[2J"],
  ["the one-byte form of it", "cpu\u009b2J", "cpu?2J"],
  ["further lines", "a\nb\r\nc\u2028d\u2029e\tf", "a?b??c?d?e?f"],
  ["turned text", "a\u202eb\u2066c\u2069", "a?b?c?"],
])("%s", (_, text, shown) => {
  expect(printable(text)).toBe(shown);
});
