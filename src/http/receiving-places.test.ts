import { expect, test } from "bun:test";
import { AppError } from "../domain/errors.ts";
import { createReceivingPlaces, type ReceivingPlaces } from "./receiving-places.ts";

function retryAfter(places: ReceivingPlaces): number | undefined {
  try {
    places.take();
  } catch (error) {
    if (error instanceof AppError && error.code === "capacity_unavailable") return error.retryAfterSeconds;
    throw error;
  }
  throw new Error("there was a place");
}

test("who finds no place is told when the oldest body should be through, as the earlier ones took", () => {
  let nowMs = 0;
  const places = createReceivingPlaces(2, () => nowMs);
  const body = (lengthMs: number) => {
    const leave = places.take();
    nowMs += lengthMs;
    leave();
  };
  for (let count = 0; count < 30; count++) body(20_000);
  const leave = places.take();
  nowMs += 5_000;
  const leaveToo = places.take();
  expect(retryAfter(places)).toBe(15);
  nowMs += 60_000;
  // Longer than usual already.
  expect(retryAfter(places)).toBe(1);
  leave();
  leave();
  const again = places.take();
  expect(retryAfter(places)).toBe(1);
  leaveToo();
  again();
  for (let count = 0; count < 30; count++) body(600_000);
  places.take();
  places.take();
  expect(retryAfter(places)).toBe(60);
});
