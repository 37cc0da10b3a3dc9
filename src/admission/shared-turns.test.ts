import { describe, expect, test } from "bun:test";
import { createSharedTurns } from "./shared-turns.ts";
import { createShares, usualSpare } from "./shares.ts";

/** Places, and owners whose work begins and ends as a test says. */
function bench(places: number) {
  const shares = createShares(places, usualSpare(places));
  const startInTurn = createSharedTurns(shares);
  const begun: string[] = [];
  return {
    begun,
    shares,
    /** Begins what waits: `{ a: 3 }` are three pieces of the owner a. Returns whose pieces have begun. */
    look(waiting: Record<string, number>): string {
      const before = begun.length;
      startInTurn(
        Object.entries(waiting).map(([owner, count]) => ({ owner, items: Array<string>(count).fill(owner) })),
        (owner) => void begun.push(owner),
      );
      return begun.slice(before).join("");
    },
  };
}

describe("work of several owners", () => {
  test("begins in turn, as far as the places are shared", () => {
    const { look } = bench(8);
    expect(look({ a: 9, b: 2, c: 1 })).toBe("abcabaa");
  });

  test("takes its turn beside owners whose work never ends", () => {
    const { look, shares } = bench(1);
    expect(look({ a: 9 })).toBe("a");
    const order: string[] = [];
    for (let last = "a"; order.length < 9; last = order.at(-1) ?? "") {
      shares.giveBack(last);
      order.push(look({ a: 9, b: 9, c: 9 }));
    }
    expect(order.join("")).toBe("bcabcabca");
  });

  test("goes to the owner with the fewest places", () => {
    const { look, shares } = bench(3);
    expect(look({ a: 9, b: 1 })).toBe("aba");
    shares.giveBack("a");
    expect(look({ a: 9, c: 1 })).toBe("c");
    shares.giveBack("b");
    // Both hold one, and a began first.
    expect(look({ c: 1, a: 9 })).toBe("a");
  });

  test("leaves one alone that holds nothing and waits for nothing", () => {
    const { look } = bench(2);
    expect([look({}), look({ a: 0 })]).toEqual(["", ""]);
  });
});
