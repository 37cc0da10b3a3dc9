import { expect, test } from "bun:test";
import { createThroughput } from "./throughput.ts";

test("throughput and estimates count all slots together, and silence as well", () => {
  const throughput = createThroughput(() => 4);
  expect(throughput.realTimeFactor()).toBeUndefined();
  // Sixty seconds of recording, one chunk of speech in it, ten seconds on two threads.
  throughput.observe(60_000, 20_000);
  expect(throughput.realTimeFactor()).toBe(12);
  expect(throughput.estimateMs(120_000)).toBe(10_000);
  for (let i = 0; i < 100; i++) throughput.observe(10_000, 10_000);
  expect(throughput.realTimeFactor()).toBeCloseTo(4, 1);
});
