import { expect, test } from "bun:test";
import { AppError } from "../domain/errors.ts";
import { createReceivingPlaces, type ReceivingPlaces } from "./receiving-places.ts";

function retryAfter(places: ReceivingPlaces): number | undefined {
  try {
    places.take("org_a");
  } catch (error) {
    if (error instanceof AppError && error.code === "capacity_unavailable") return error.retryAfterSeconds;
    throw error;
  }
  throw new Error("there was a place");
}

test("a request without a place gets the time when the oldest body should have arrived, judged by earlier bodies", () => {
  let nowMs = 0;
  const places = createReceivingPlaces(2, () => nowMs);
  const body = (lengthMs: number) => {
    const leave = places.take("org_a");
    nowMs += lengthMs;
    leave();
  };
  for (let count = 0; count < 30; count++) body(20_000);
  const leave = places.take("org_a");
  nowMs += 5_000;
  const leaveToo = places.take("org_b");
  expect(retryAfter(places)).toBe(15);
  nowMs += 60_000;
  // This one takes longer than usual already.
  expect(retryAfter(places)).toBe(1);
  leave();
  leave();
  const again = places.take("org_a");
  expect(retryAfter(places)).toBe(1);
  leaveToo();
  again();
  for (let count = 0; count < 30; count++) body(600_000);
  places.take("org_a");
  places.take("org_b");
  expect(retryAfter(places)).toBe(60);
});

test("an organization leaves places for the others, and waits for its own bodies to arrive", () => {
  let nowMs = 0;
  const places = createReceivingPlaces(16, () => nowMs);
  places.take("org_b");
  nowMs += 1_000;
  const own = Array.from({ length: 12 }, () => places.take("org_a"));
  nowMs += 250;
  expect(retryAfter(places)).toBe(2);
  const others = ["org_b", "org_c", "org_d"].map((organization) => places.take(organization));
  for (const leave of [...own, ...others]) leave();
  // Without others it gets most of the places.
  for (let count = 0; count < 12; count++) places.take("org_a");
});
