import { expect, test } from "bun:test";
import { createThroughput } from "./throughput.ts";

test("throughput and estimates count all slots together, and silence as well", () => {
  const throughput = createThroughput(
    () => 4,
    () => 1e9,
  );
  expect(throughput.realTimeFactor()).toBeUndefined();
  // Sixty seconds of recording, one chunk of speech in it, ten seconds on two threads.
  throughput.observe(60_000, 20_000);
  expect(throughput.realTimeFactor()).toBe(12);
  expect(throughput.estimateMs(120_000)).toBe(10_000);
  for (let i = 0; i < 100; i++) throughput.observe(10_000, 10_000);
  expect(throughput.realTimeFactor()).toBeCloseTo(4, 1);
});

test("the time for speakers counts as often as they are asked for", () => {
  const throughput = createThroughput(
    () => 4,
    () => 1e9,
  );
  throughput.observe(60_000, 20_000);
  expect(throughput.estimateMs(60_000)).toBe(5_000);
  // Two of three recordings have speakers, which take a tenth of their length.
  for (let round = 0; round < 50; round++)
    for (const elapsedMs of [6_000, 0, 6_000]) throughput.observeSpeakers(60_000, elapsedMs);
  expect(throughput.estimateMs(60_000) / 60_000).toBeCloseTo(5 / 60 + 0.2 / 3, 2);
  for (let round = 0; round < 100; round++) throughput.observeSpeakers(60_000, 0);
  expect(throughput.estimateMs(60_000)).toBeCloseTo(5_000, 0);
  // A clock that was put back takes no time away.
  throughput.observeSpeakers(60_000, -1e9);
  expect(throughput.estimateMs(60_000)).toBeCloseTo(5_000, 0);
  expect(throughput.realTimeFactor()).toBe(12);
});

test("before the first chunk, the size of the weights says how fast a model may be", () => {
  const guess = (bytes: number) =>
    createThroughput(
      () => 2,
      () => bytes,
    ).estimateMs(60_000);
  expect(guess(3e9)).toBe(60_000);
  expect(guess(1e9)).toBe(60_000);
  expect(guess(100e6)).toBe(6_000);
  expect(guess(0)).toBeGreaterThan(0);
});
