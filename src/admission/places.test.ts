import { expect, test } from "bun:test";
import { createPlaces } from "./places.ts";

test("so many callers have a place at once, and the others get theirs in the order in which they came", async () => {
  const places = createPlaces(2);
  const order: number[] = [];
  let inside = 0;
  let most = 0;
  const work = async (number: number) => {
    const leave = await places.enter();
    order.push(number);
    inside += 1;
    most = Math.max(most, inside);
    await Bun.sleep(1);
    inside -= 1;
    leave();
  };
  await Promise.all([0, 1, 2, 3, 4, 5].map(work));
  expect(order).toEqual([0, 1, 2, 3, 4, 5]);
  expect(most).toBe(2);
  // All places are free again.
  await Promise.all([places.enter(), places.enter()]);
});
