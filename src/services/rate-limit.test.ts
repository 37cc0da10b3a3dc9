import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { AppError } from "../domain/errors.ts";
import { manualClock } from "../testing/kits/manual-clock.ts";
import { testConfig } from "../testing/kits/test-config.ts";
import { createRateLimiter, rateLimitFields } from "./rate-limit.ts";

const config = testConfig();

/** Returns the seconds of `Retry-After`, or 0 when the request was allowed. */
function take(
  limiter: ReturnType<typeof createRateLimiter>,
  limits: { requestsPerSecond: number; burst: number },
  key = "k",
) {
  try {
    limiter.take(key, limits);
    return 0;
  } catch (error) {
    if (error instanceof AppError && error.code === "rate_limited")
      return error.retryAfterSeconds ?? Number.NaN;
    throw error;
  }
}

describe("request rate", () => {
  test("allows a burst, and then the rate", () => {
    const clock = manualClock();
    const limiter = createRateLimiter({ clock, config });
    const limits = limiter.limitsFor(null);
    expect(limits).toEqual({ requestsPerSecond: 50, burst: 100 });
    for (let n = 99; n >= 0; n--) expect(limiter.take("k", limits)?.remaining).toBe(n);
    expect(take(limiter, limits)).toBe(1);
    expect(take(limiter, limits, "another")).toBe(0);
    clock.advance(19);
    expect(take(limiter, limits)).toBe(1);
    clock.advance(1);
    expect(take(limiter, limits)).toBe(0);
    expect(take(limiter, limits)).toBe(1);
  });

  test("a request after exactly the given wait is allowed, whatever came before", () => {
    const rates = fc.record({
      requestsPerSecond: fc.integer({ min: 1, max: 1000 }),
      burst: fc.integer({ min: 1, max: 2000 }),
    });
    fc.assert(
      fc.property(rates, fc.array(fc.nat(3000), { maxLength: 40 }), (limits, pauses) => {
        const clock = manualClock();
        const limiter = createRateLimiter({ clock, config });
        for (const pause of pauses) {
          clock.advance(pause);
          let wait = 0;
          for (let n = 0; n <= limits.burst && wait === 0; n++) wait = take(limiter, limits);
          expect(Number.isInteger(wait) && wait >= 1).toBe(true);
          const before = limiter.peek("k", limits);
          expect(before?.remaining).toBe(0);
          clock.advance(wait * 1000);
          expect(take(limiter, limits)).toBe(0);
        }
      }),
      { numRuns: 50 },
    );
  });

  test("never allows more than burst and rate", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 60 }),
        fc.integer({ min: 1, max: 60 }),
        fc.array(fc.nat(50), { maxLength: 300 }),
        (requestsPerSecond, burst, pauses) => {
          const clock = manualClock();
          const startMs = clock.now();
          const limiter = createRateLimiter({ clock, config });
          let passed = 0;
          for (const pause of pauses) {
            clock.advance(pause);
            if (take(limiter, { requestsPerSecond, burst }) === 0) passed++;
          }
          expect(passed).toBeLessThanOrEqual(
            burst + Math.floor(((clock.now() - startMs) * requestsPerSecond) / 1000),
          );
        },
      ),
    );
  });

  test("the header fields give quota, window, what remains and when it is complete again", () => {
    const clock = manualClock();
    const limiter = createRateLimiter({ clock, config });
    const limits = limiter.limitsFor(null);
    for (let n = 0; n < 49; n++) limiter.take("k", limits);
    const standing = limiter.take("k", limits);
    expect(standing && rateLimitFields(standing)).toEqual({
      "ratelimit-policy": '"default";q=100;w=2',
      ratelimit: '"default";r=50;t=1',
    });
    expect(limiter.peek("k", limits)).toEqual(standing);
    clock.advance(1000);
    expect(limiter.peek("k", limits)).toMatchObject({ remaining: 100, resetSeconds: 0 });
  });

  test("an organization may have its own rate, and 0 means no limit", () => {
    const limiter = createRateLimiter({ clock: manualClock(), config });
    expect(limiter.limitsFor(5)).toEqual({ requestsPerSecond: 5, burst: 10 });
    expect(limiter.limitsFor(1)).toEqual({ requestsPerSecond: 1, burst: 2 });
    const none = limiter.limitsFor(0);
    for (let n = 0; n < 1000; n++) expect(limiter.take("k", none)).toBeUndefined();
    expect(limiter.size()).toBe(0);
    const unlimited = createRateLimiter({
      clock: manualClock(),
      config: testConfig({ limits: { requests_per_second: 0 } }),
    });
    expect(unlimited.limitsFor(5)).toEqual({ requestsPerSecond: 5, burst: 100 });
  });

  test("a clock that is set back neither adds nor removes requests", () => {
    const clock = manualClock();
    const limiter = createRateLimiter({ clock, config });
    const limits = { requestsPerSecond: 1, burst: 1 };
    expect(take(limiter, limits)).toBe(0);
    clock.advance(-3_600_000);
    expect(take(limiter, limits)).toBe(1);
    clock.advance(1000);
    expect(take(limiter, limits)).toBe(0);
  });

  test("memory is limited, and idle keys are removed first", () => {
    const clock = manualClock();
    const limiter = createRateLimiter({ clock, config, maxKeys: 100 });
    const limits = { requestsPerSecond: 1, burst: 1 };
    for (let n = 0; n < 1000; n++) {
      take(limiter, limits, `k${n}`);
      expect(limiter.size()).toBeLessThanOrEqual(100);
    }
    clock.advance(1000);
    take(limiter, { requestsPerSecond: 1, burst: 1 }, "one");
    for (let n = 0; n < 10; n++) take(limiter, limits, `fresh${n}`);
    expect(take(limiter, limits, "one")).toBe(1);
  });
});
