import { describe, expect, test } from "bun:test";
import { createSpeed } from "./speed.ts";

const chunk = (
  values: Partial<{ modelId: string; windowMs: number; audioMs: number; threads: number }> = {},
) => ({
  modelId: "m",
  windowMs: 30_000,
  audioMs: 30_000,
  threads: 1,
  ...values,
});

describe("speed", () => {
  test("a machine of which nothing is known gets patience, and more each time it ran out", () => {
    const speed = createSpeed(() => 2);
    expect(speed.chunkTimeoutMs(chunk())).toBe(30 * 60_000);
    speed.observeTimeout("m");
    speed.observeTimeout("m");
    expect(speed.chunkTimeoutMs(chunk())).toBe(2 * 3_600_000);
    for (let i = 0; i < 50; i++) speed.observeTimeout("m");
    expect(speed.chunkTimeoutMs(chunk())).toBe(12 * 3_600_000);
    expect(speed.chunkTimeoutMs(chunk({ modelId: "other" }))).toBe(30 * 60_000);
  });

  test("a slow machine, once measured, has twenty times what it needs; a fast one never less than two minutes", () => {
    const slow = createSpeed(() => 2);
    slow.observe(chunk(), 300_000);
    expect(slow.chunkTimeoutMs(chunk())).toBe(6_000_000);
    expect(slow.chunkTimeoutMs(chunk({ threads: 2 }))).toBe(3_000_000);
    expect(slow.chunkTimeoutMs(chunk({ audioMs: 60_000 }))).toBe(12_000_000);
    const fast = createSpeed(() => 2);
    fast.observe(chunk(), 500);
    expect(fast.chunkTimeoutMs(chunk())).toBe(120_000);
  });

  test("a fast model's speed says nothing of a slow one's", () => {
    const speed = createSpeed(() => 2);
    for (let i = 0; i < 20; i++) speed.observe(chunk({ modelId: "tiny" }), 100);
    expect(speed.chunkTimeoutMs(chunk({ modelId: "large" }))).toBe(30 * 60_000);
  });

  test("a chunk costs whole windows of its model", () => {
    const speed = createSpeed(() => 1);
    speed.observe(chunk(), 300_000);
    expect(speed.chunkTimeoutMs(chunk({ audioMs: 30_001 }))).toBe(12_000_000);
    // A family whose cost grows with the audio has a short one.
    speed.observe(chunk({ modelId: "linear", windowMs: 1_000, audioMs: 10_000 }), 100_000);
    expect(speed.chunkTimeoutMs(chunk({ modelId: "linear", windowMs: 1_000, audioMs: 20_000 }))).toBe(
      4_000_000,
    );
  });

  test("one decode that works ends the doubling", () => {
    const speed = createSpeed(() => 1);
    speed.observeTimeout("m");
    speed.observe(chunk(), 30_000);
    expect(speed.chunkTimeoutMs(chunk())).toBe(600_000);
  });

  test("speed and estimates are those of the whole machine, silence included", () => {
    const speed = createSpeed(() => 4);
    expect(speed.realTimeFactor()).toBeUndefined();
    // Sixty seconds of recording, one chunk of speech in it, ten seconds on two threads.
    speed.observeProgress(60_000, 20_000);
    expect(speed.realTimeFactor()).toBe(12);
    expect(speed.estimateMs(120_000)).toBe(10_000);
    for (let i = 0; i < 100; i++) speed.observeProgress(10_000, 10_000);
    expect(speed.realTimeFactor()).toBeCloseTo(4, 1);
  });
});
