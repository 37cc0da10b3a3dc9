import { expect, test } from "bun:test";
import { openCharacterMap } from "./character-map.ts";

/** Makes the map of a trie by hand: `a` becomes `bc`. Units: label, bit 8: a text ends here, from bit 10: where to go on. */
function mapOfLetter(letter: string, text: string): Uint8Array {
  const code = letter.charCodeAt(0);
  const units = new Uint32Array(512);
  // The root leads to the unit with the number of the letter; that one to the unit 256 places further, which has the value 0.
  units[code] = (code | (1 << 8) | ((256 ^ 0) << 10)) >>> 0;
  units[code ^ 256] = 0x8000_0000;
  const head = new Uint8Array(Uint32Array.of(units.byteLength).buffer);
  return Uint8Array.from([...head, ...new Uint8Array(units.buffer), ...new TextEncoder().encode(text), 0]);
}

test("characters of the map are replaced, and others stay", () => {
  const map = openCharacterMap(mapOfLetter("a", "bc"), "wrong");
  expect(map("abaघ😀")).toBe("bcbbcघ😀");
  expect(openCharacterMap(new Uint8Array(), "wrong")("a b")).toBe("a b");
});

test("a map whose texts have no end makes no text of any size", () => {
  expect(openCharacterMap(mapOfLetter("a", "b".repeat(100_000)), "wrong")("aa").length).toBe(512);
});

test("a damaged map is refused", () => {
  const whole = mapOfLetter("a", "b");
  for (const damaged of [whole.subarray(0, 3), whole.subarray(0, 100), Uint8Array.of(3, 0, 0, 0, 1, 2, 3)])
    expect(() => openCharacterMap(damaged, "wrong")).toThrow("wrong");
});
