import { expect, test } from "bun:test";
import { assign } from "./assign.ts";

test("the assignment is as good as the best of all permutations", () => {
  let seed = 7;
  const random = () => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed / 2_147_483_647;
  };
  const best = (gains: number[][], row = 0, used = new Set<number>()): number => {
    if (row === gains.length) return 0;
    // A row may stay without a column where there are fewer of them.
    let most = gains.length > (gains[0]?.length ?? 0) ? best(gains, row + 1, used) : Number.NEGATIVE_INFINITY;
    for (const [column, gain] of (gains[row] ?? []).entries()) {
      if (used.has(column)) continue;
      most = Math.max(most, gain + best(gains, row + 1, new Set([...used, column])));
    }
    return most;
  };
  for (const [rows, columns] of [
    [1, 1],
    [3, 3],
    [5, 5],
    [2, 5],
    [5, 2],
    [4, 3],
  ] as const) {
    for (let round = 0; round < 20; round++) {
      const gains = Array.from({ length: rows }, () =>
        Array.from({ length: columns }, () => Math.round(random() * 100)),
      );
      const columnsOf = assign(gains);
      const taken = columnsOf.filter((column) => column >= 0);
      expect(new Set(taken).size).toBe(taken.length);
      const sum = columnsOf.reduce((total, column, row) => total + (gains[row]?.[column] ?? 0), 0);
      expect(sum).toBe(best(gains));
    }
  }
  expect(assign([])).toEqual([]);
});
