import { afterEach, expect, setSystemTime, test } from "bun:test";
import { createStartBackoff } from "./worker-host.ts";

afterEach(() => void setSystemTime());

test("the pause grows, and ends in time where the clock is put back", () => {
  const backoff = createStartBackoff();
  backoff.lengthen();
  backoff.lengthen();
  expect(backoff.remainingMs()).toBeGreaterThan(250);
  setSystemTime(new Date(Date.now() - 40 * 86_400_000));
  expect(backoff.remainingMs()).toBeLessThanOrEqual(500);
  backoff.reset();
  backoff.lengthen();
  expect(backoff.remainingMs()).toBeLessThanOrEqual(250);
});
