import type { Config } from "../config/schema.ts";
import { AppError } from "../domain/errors.ts";
import type { Clock } from "../lib/clock.ts";

export type RateLimiterDeps = { clock: Clock; config: Config; maxKeys?: number };

/** Limits of a key; a rate of 0: no limit. */
export type RateLimits = { requestsPerSecond: number; burst: number };

/** What is left of a key's limit. */
export type RateStanding = {
  /** Requests that a full bucket holds. */
  limit: number;
  /** Requests that the key can send at once now. */
  remaining: number;
  /** Whole seconds until the bucket is full again. */
  resetSeconds: number;
  /** Whole seconds that an empty bucket takes to fill. */
  windowSeconds: number;
};

/** Request rates of keys, in memory: each key has a token bucket. */
export type RateLimiter = {
  /**
   * Returns the limits of a key.
   *
   * @param ownRequestsPerSecond the rate that an admin has set for the organization; the burst changes in proportion.
   *   Null: the config's rate
   */
  limitsFor(ownRequestsPerSecond: number | null): RateLimits;
  /**
   * Counts one request of a key.
   *
   * @returns what is left after it; undefined without a limit
   * @throws AppError `rate_limited`; after exactly its `Retry-After` one request is allowed
   */
  take(keyId: string, limits: RateLimits): RateStanding | undefined;
  /**
   * Counts one request after the fact, and never refuses: a key may owe as many as its bucket holds.
   */
  count(keyId: string, limits: RateLimits): void;
  /** Checks that a request would be allowed, and counts nothing. @throws AppError as `take` */
  require(keyId: string, limits: RateLimits): void;
  /** Returns what is left for a key and counts nothing, for the header fields of a refusal. */
  peek(keyId: string, limits: RateLimits): RateStanding | undefined;
  /** Returns the number of buckets in memory. */
  size(): number;
};

/** A request in units of the bucket; a millisecond adds `requestsPerSecond` units, so that all sums are whole. */
const REQUEST = 1000;

/**
 * Creates a limiter: a key can send `burst` requests at once and `requestsPerSecond` in the long run. It keeps at most
 * `maxKeys` buckets, and none for a key whose bucket is full.
 */
export function createRateLimiter({ clock, config, maxKeys = 100_000 }: RateLimiterDeps): RateLimiter {
  type Bucket = { level: number; atMs: number; limits: RateLimits };
  /** Least recently used first. */
  const buckets = new Map<string, Bucket>();

  function levelNow(bucket: Bucket | undefined, limits: RateLimits, nowMs: number): number {
    const full = limits.burst * REQUEST;
    if (!bucket) return full;
    // A clock that was set back adds nothing and removes nothing.
    const elapsedMs = Math.max(0, nowMs - bucket.atMs);
    return Math.min(full, bucket.level + elapsedMs * limits.requestsPerSecond);
  }

  function standing(level: number, { requestsPerSecond, burst }: RateLimits): RateStanding {
    const unitsPerSecond = requestsPerSecond * 1000;
    return {
      limit: burst,
      remaining: Math.max(0, Math.floor(level / REQUEST)),
      resetSeconds: Math.ceil((burst * REQUEST - level) / unitsPerSecond),
      windowSeconds: Math.ceil((burst * REQUEST) / unitsPerSecond),
    };
  }

  function put(keyId: string, bucket: Bucket): void {
    buckets.delete(keyId);
    if (buckets.size >= maxKeys) removeSome(bucket.atMs);
    buckets.set(keyId, bucket);
  }

  function checkLevel(level: number, limits: RateLimits): void {
    if (level >= REQUEST) return;
    const retryAfterSeconds = Math.ceil((REQUEST - level) / (limits.requestsPerSecond * 1000));
    throw new AppError("rate_limited", { retryAfterSeconds });
  }

  /** Removes full buckets, then the least recently used until a tenth is free, so that it runs rarely. */
  function removeSome(nowMs: number): void {
    for (const [key, bucket] of buckets) {
      if (levelNow(bucket, bucket.limits, nowMs) >= bucket.limits.burst * REQUEST) buckets.delete(key);
    }
    for (const key of buckets.keys()) {
      if (buckets.size < maxKeys * 0.9) return;
      buckets.delete(key);
    }
  }

  return {
    limitsFor(ownRequestsPerSecond) {
      const { requests_per_second, request_burst } = config.limits;
      const requestsPerSecond = ownRequestsPerSecond ?? requests_per_second;
      if (ownRequestsPerSecond === null || requests_per_second === 0) {
        return { requestsPerSecond, burst: request_burst };
      }
      const burst = Math.max(1, Math.ceil((ownRequestsPerSecond * request_burst) / requests_per_second));
      return { requestsPerSecond, burst };
    },
    take(keyId, limits) {
      if (limits.requestsPerSecond === 0) return undefined;
      const nowMs = clock.now();
      const level = levelNow(buckets.get(keyId), limits, nowMs);
      const left = level >= REQUEST ? level - REQUEST : level;
      put(keyId, { level: left, atMs: nowMs, limits });
      checkLevel(level, limits);
      return standing(left, limits);
    },
    count(keyId, limits) {
      if (limits.requestsPerSecond === 0) return;
      const nowMs = clock.now();
      const level = levelNow(buckets.get(keyId), limits, nowMs);
      put(keyId, { level: Math.max(level - REQUEST, -limits.burst * REQUEST), atMs: nowMs, limits });
    },
    require(keyId, limits) {
      if (limits.requestsPerSecond === 0) return;
      checkLevel(levelNow(buckets.get(keyId), limits, clock.now()), limits);
    },
    peek(keyId, limits) {
      if (limits.requestsPerSecond === 0) return undefined;
      return standing(levelNow(buckets.get(keyId), limits, clock.now()), limits);
    },
    size: () => buckets.size,
  };
}

/**
 * Renders the header fields that report the limit to a client: draft-ietf-httpapi-ratelimit-headers (q quota, w window,
 * r remaining, t seconds to the full quota).
 */
export function rateLimitFields(standing: RateStanding): { "ratelimit-policy": string; ratelimit: string } {
  const { limit, remaining, resetSeconds, windowSeconds } = standing;
  return {
    "ratelimit-policy": `"default";q=${limit};w=${windowSeconds}`,
    ratelimit: `"default";r=${remaining};t=${resetSeconds}`,
  };
}
