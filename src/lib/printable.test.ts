import { expect, test } from "bun:test";
import fc from "fast-check";
import { printable, printableJson, printableLines } from "./printable.ts";

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

test("a text of several lines keeps its line ends and tabs, and no return that would write over a line", () => {
  expect(printableLines("a\tb\r\nc\n\u001b[2J\rd\u009b\u202e")).toBe("a\tb\r\nc\n?[2J?d??");
});

test("JSON has the same value, and no character that a terminal could obey", () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: "binary" }), fc.constantFrom(undefined, 2), (value, indent) => {
      const given: unknown = JSON.parse(JSON.stringify(value));
      const json = printableJson(given, indent);
      expect(JSON.parse(json)).toEqual(given);
      expect(printableLines(json)).toBe(json);
    }),
  );
  expect(printableJson({ a: "\u009b2J\u202e\n" })).toBe('{"a":"\\u009b2J\\u202e\\n"}');
});
