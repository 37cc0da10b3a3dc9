import { expect, test } from "bun:test";
import { inSlices } from "./in-slices.ts";

test("a long list is worked on in order, and timers fire in between", async () => {
  const items = Array.from({ length: 1_001 }, (_, n) => n);
  let turns = 0;
  const count = () => {
    turns++;
    if (turns < 1_000) setImmediate(count);
  };
  setImmediate(count);
  const doubled = await inSlices(items, (slice) => slice.flatMap((n) => (n === 7 ? [] : [n, n])));
  expect(doubled).toEqual(items.flatMap((n) => (n === 7 ? [] : [n, n])));
  expect(turns).toBeGreaterThan(10);
  expect(await inSlices([], () => [1])).toEqual([]);
});
