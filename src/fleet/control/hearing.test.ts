import { describe, expect, test } from "bun:test";
import { createHearing } from "./hearing.ts";

const EVERY_MS = 1_000;
const LOST_AFTER_MS = 4_000;
const UP = 1e9;

/** Ticks with these pauses, milliseconds. Returns when silence of a worker that was heard at 0 is noticed, and after how many ticks. */
function lostAt(
  pauses: readonly number[],
  {
    linkUp = () => UP,
    isAnswered = () => true,
  }: { linkUp?: (now: number) => number; isAnswered?: (tick: number) => boolean } = {},
) {
  const hearing = createHearing(0, EVERY_MS, LOST_AFTER_MS);
  let now = 0;
  for (const [index, pause] of pauses.entries()) {
    now += pause;
    hearing.tick(now, linkUp(now), isAnswered(index));
    if (hearing.silentSince(LOST_AFTER_MS, now) > 0) return { now, ticks: index + 1 };
  }
  return undefined;
}

const times = (count: number, pause: number) => Array.from({ length: count }, () => pause);

describe("the silence of workers", () => {
  test.each([
    ["counts while ticks are in time", times(10, 1_000), { now: 5_000, ticks: 5 }],
    ["counts in full while ticks are a little late", times(10, 1_400), { now: 4_200, ticks: 3 }],
    [
      "counts one second for each tick but the first when every tick is late",
      times(10, 3_000),
      { now: 15_000, ticks: 5 },
    ],
    [
      "is noticed after five ticks when every tick is very late",
      times(10, 60_000),
      { now: 300_000, ticks: 5 },
    ],
    ["does not count while this process is stopped", [1_000, 20_000, 1_000, 1_000], undefined],
    ["counts again after this process was stopped", [20_000, ...times(9, 1_000)], { now: 24_000, ticks: 5 }],
    [
      "counts before and after a stop",
      [...times(3, 1_000), 9_000, ...times(9, 1_000)],
      { now: 14_000, ticks: 6 },
    ],
  ])("%s", (_, pauses, expected) => {
    expect(lostAt(pauses)).toEqual(expected);
  });

  test("does not count while the link is down, and begins when it is up", () => {
    const down = lostAt(times(20, 1_000), { linkUp: () => 0 });
    expect(down).toBeUndefined();
    const upAt = 10_000;
    const later = lostAt(times(20, 1_000), { linkUp: (now) => Math.max(0, now - upAt) });
    expect(later).toEqual({ now: 15_000, ticks: 15 });
  });

  test("does not count while the messaging server gives no answers", () => {
    expect(lostAt(times(100, 1_000), { isAnswered: () => false })).toBeUndefined();
    const silent = (tick: number) => tick < 3 || tick >= 50;
    expect(lostAt(times(100, 1_000), { isAnswered: silent })).toEqual({ now: 52_000, ticks: 52 });
    const slow = (tick: number) => tick % 2 === 0;
    expect(lostAt(times(100, 1_000), { isAnswered: slow })).toEqual({ now: 9_000, ticks: 9 });
  });

  test("is counted after many late ticks, of which few are kept", () => {
    const hearing = createHearing(0, EVERY_MS, LOST_AFTER_MS);
    for (let n = 1; n <= 10_000; n++) hearing.tick(n * 5_000, UP, true);
    const now = 50_000_000;
    const oldest = hearing.silentSince(LOST_AFTER_MS, now);
    expect(oldest).toBe(now - 4 * 5_000);
    expect(hearing.silentSince(LOST_AFTER_MS, now + 2_000)).toBeGreaterThan(oldest);
  });
});
