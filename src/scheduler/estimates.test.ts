import { describe, expect, test } from "bun:test";
import { shareOfSynchronousRequest } from "./estimates.ts";

describe("the part of the machine that a synchronous request has", () => {
  const status = { running: 9, runningSynchronous: 1, waiting: 0, workers: 8 };
  const capacity = { chunks: 8, power: 2, isElastic: true };

  test("is one of all running chunks, where each has threads of its own", () => {
    expect(shareOfSynchronousRequest(status, 1, capacity)).toBeCloseTo(1 / 9);
  });

  test("is greater where the others share threads", () => {
    expect(shareOfSynchronousRequest(status, 1, { ...capacity, threadGroups: 2 })).toBeCloseTo(1 / 3);
    const one = { ...status, running: 2 };
    expect(shareOfSynchronousRequest(one, 1, { ...capacity, threadGroups: 2 })).toBeCloseTo(1 / 2);
  });
});
