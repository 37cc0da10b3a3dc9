import { expect, test } from "bun:test";
import fc from "fast-check";
import { bytesOfPieces, ITEMS_OF_PIECE, jsonPieces } from "./text-pieces.ts";

test("an object in pieces is what JSON.stringify writes", () => {
  const value = fc.oneof(
    fc.jsonValue(),
    fc.constant(undefined),
    fc.array(fc.oneof(fc.string({ unit: "binary" }), fc.constant(undefined), fc.record({ a: fc.double() })), {
      minLength: ITEMS_OF_PIECE - 1,
      maxLength: 2 * ITEMS_OF_PIECE + 1,
      size: "max",
    }),
  );
  fc.assert(
    fc.property(fc.dictionary(fc.string({ unit: "binary" }), value, { maxKeys: 5 }), (object) => {
      expect([...jsonPieces(object)].join("")).toBe(JSON.stringify(object));
    }),
    { numRuns: 40 },
  );
});

test("a long list is in pieces of a bounded length, and timers fire between them", async () => {
  const item = { text: "नमस्ते" };
  const object = { before: 1, list: Array.from({ length: 30_001 }, () => item), after: [item] };
  const longest = Math.max(...Array.from(jsonPieces(object), ({ length }) => length));
  expect(longest).toBeLessThan((ITEMS_OF_PIECE + 1) * (JSON.stringify(item).length + 1));
  let turns = 0;
  const count = () => {
    turns++;
    if (turns < 1_000) setImmediate(count);
  };
  setImmediate(count);
  const bytes = await bytesOfPieces(jsonPieces(object));
  expect(turns).toBeGreaterThan(10);
  expect(new TextDecoder().decode(bytes)).toBe(JSON.stringify(object));
  expect(await bytesOfPieces([])).toEqual(Buffer.alloc(0));
});
