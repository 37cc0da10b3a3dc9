import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createShares, usualSpare } from "./shares.ts";

/** Takes as many places as one owner can get. */
function takeAll(shares: ReturnType<typeof createShares>, owner: string): number {
  let count = 0;
  while (shares.take(owner)) count++;
  return count;
}

describe("shares", () => {
  test.each([
    [1, [1]],
    [2, [1, 1]],
    [4, [3, 1]],
    [16, [12, 3, 1]],
    [1024, [768, 192, 48]],
  ])("of %i places the first owner gets most, and the next ones get some: %p", (places, expected) => {
    const shares = createShares(places, usualSpare(places));
    expect(expected.map((_count, index) => takeAll(shares, `owner ${index}`))).toEqual(expected);
    expect(shares.taken()).toBe(expected.reduce((sum, count) => sum + count, 0));
  });

  test("two owners that take in turns get the same number", () => {
    const shares = createShares(16, 4);
    while (shares.take("a") || shares.take("b")) shares.take("b");
    expect(Math.abs(shares.held("a") - shares.held("b"))).toBeLessThanOrEqual(1);
  });

  test("an owner without a place gets one while fewer owners came after the first one than there are spare places", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.boolean(), fc.nat({ max: 2 })), { maxLength: 200 }), (steps) => {
        const shares = createShares(12, 3);
        for (const [takes, number] of steps) {
          const owner = `owner ${number}`;
          if (takes) shares.take(owner);
          else if (shares.held(owner) > 0) shares.giveBack(owner);
          expect(shares.taken()).toBeLessThanOrEqual(12);
        }
        // Three owners cannot exclude a fourth one.
        expect(shares.mayTake("another")).toBe(true);
      }),
    );
  });

  test("a place can be returned only once", () => {
    const shares = createShares(2, 1);
    expect(shares.take("a")).toBe(true);
    shares.giveBack("a");
    expect(() => shares.giveBack("a")).toThrow();
  });
});
