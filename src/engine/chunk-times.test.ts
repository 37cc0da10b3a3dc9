import { describe, expect, test } from "bun:test";
import { createChunkTimes } from "./chunk-times.ts";

const chunk = (
  values: Partial<{ modelId: string; windowMs: number; audioMs: number; threads: number }> = {},
) => ({
  modelId: "m",
  windowMs: 30_000,
  audioMs: 30_000,
  threads: 1,
  ...values,
});

describe("times of chunks", () => {
  test("an unmeasured machine gets a long limit, which grows each time it was too short", () => {
    const times = createChunkTimes();
    expect(times.timeoutMs(chunk())).toBe(30 * 60_000);
    times.observeTimeout("m");
    times.observeTimeout("m");
    expect(times.timeoutMs(chunk())).toBe(2 * 3_600_000);
    for (let i = 0; i < 50; i++) times.observeTimeout("m");
    expect(times.timeoutMs(chunk())).toBe(12 * 3_600_000);
    expect(times.timeoutMs(chunk({ modelId: "other" }))).toBe(30 * 60_000);
  });

  test("a measured slow machine gets twenty times what it needs, and a fast one at least two minutes", () => {
    const slow = createChunkTimes();
    slow.observe(chunk(), 300_000);
    expect(slow.timeoutMs(chunk())).toBe(6_000_000);
    expect(slow.timeoutMs(chunk({ threads: 2 }))).toBe(3_000_000);
    expect(slow.timeoutMs(chunk({ audioMs: 60_000 }))).toBe(12_000_000);
    const fast = createChunkTimes();
    fast.observe(chunk(), 500);
    expect(fast.timeoutMs(chunk())).toBe(120_000);
  });

  test("the speed of a fast model is not used for a slow one", () => {
    const times = createChunkTimes();
    for (let i = 0; i < 20; i++) times.observe(chunk({ modelId: "tiny" }), 100);
    expect(times.timeoutMs(chunk({ modelId: "large" }))).toBe(30 * 60_000);
  });

  test("a chunk takes the time of whole windows of its model", () => {
    const times = createChunkTimes();
    times.observe(chunk(), 300_000);
    expect(times.timeoutMs(chunk({ audioMs: 30_001 }))).toBe(12_000_000);
    // A family whose time grows with the audio has short windows.
    times.observe(chunk({ modelId: "linear", windowMs: 1_000, audioMs: 10_000 }), 100_000);
    expect(times.timeoutMs(chunk({ modelId: "linear", windowMs: 1_000, audioMs: 20_000 }))).toBe(4_000_000);
  });

  test("one successful chunk ends the doubling", () => {
    const times = createChunkTimes();
    times.observeTimeout("m");
    times.observe(chunk(), 30_000);
    expect(times.timeoutMs(chunk())).toBe(600_000);
  });
});
