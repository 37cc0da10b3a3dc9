import type { Config } from "../config/schema.ts";
import { AppError } from "../domain/errors.ts";
import type { Clock } from "../lib/clock.ts";

export type RateLimiterDeps = { clock: Clock; config: Config; maxKeys?: number };
export type RateLimiter = ReturnType<typeof createRateLimiter>;

/** A rate of 0: no limit. */
export type RateLimits = { requestsPerSecond: number; burst: number };

/** How a key stands; undefined where no limit applies. */
export type RateStanding = {
  /** Requests that a full bucket holds. */
  limit: number;
  /** Requests that can be sent at once now. */
  remaining: number;
  /** Whole seconds until the bucket is full again. */
  resetSeconds: number;
  /** Whole seconds that an empty bucket takes to fill. */
  windowSeconds: number;
};

/** A request in units of the bucket; a millisecond brings `requestsPerSecond` units, so that all sums are whole. */
const REQUEST = 1000;

/**
 * A token bucket for each key: `burst` requests at once, `requestsPerSecond` in the long run.
 * It holds at most `maxKeys` buckets. Full ones need none, so that idle keys cost nothing.
 */
export function createRateLimiter({ clock, config, maxKeys = 100_000 }: RateLimiterDeps) {
  type Bucket = { level: number; atMs: number; limits: RateLimits };
  /** Least recently used first. */
  const buckets = new Map<string, Bucket>();

  function levelNow(bucket: Bucket | undefined, limits: RateLimits, nowMs: number): number {
    const full = limits.burst * REQUEST;
    if (!bucket) return full;
    // A clock that was set back brings nothing, and takes nothing.
    const elapsedMs = Math.max(0, nowMs - bucket.atMs);
    return Math.min(full, bucket.level + elapsedMs * limits.requestsPerSecond);
  }

  function standing(level: number, { requestsPerSecond, burst }: RateLimits): RateStanding {
    const unitsPerSecond = requestsPerSecond * 1000;
    return {
      limit: burst,
      remaining: Math.floor(level / REQUEST),
      resetSeconds: Math.ceil((burst * REQUEST - level) / unitsPerSecond),
      windowSeconds: Math.ceil((burst * REQUEST) / unitsPerSecond),
    };
  }

  /** Makes room: the buckets that have filled up since, then the tenth unused for longest, so that it is rare. */
  function makeRoom(nowMs: number): void {
    for (const [key, bucket] of buckets) {
      if (levelNow(bucket, bucket.limits, nowMs) >= bucket.limits.burst * REQUEST) buckets.delete(key);
    }
    for (const key of buckets.keys()) {
      if (buckets.size < maxKeys * 0.9) return;
      buckets.delete(key);
    }
  }

  return {
    /**
     * The limits that hold for a key.
     *
     * @param ownRequestsPerSecond what its organization was given of its own; the burst grows and shrinks with it
     */
    limitsFor(ownRequestsPerSecond: number | null): RateLimits {
      const { requests_per_second, request_burst } = config.limits;
      const requestsPerSecond = ownRequestsPerSecond ?? requests_per_second;
      if (ownRequestsPerSecond === null || requests_per_second === 0) {
        return { requestsPerSecond, burst: request_burst };
      }
      const burst = Math.max(1, Math.ceil((ownRequestsPerSecond * request_burst) / requests_per_second));
      return { requestsPerSecond, burst };
    },

    /**
     * Counts one request of a key.
     *
     * @returns how the key stands after it; undefined without a limit
     * @throws AppError `rate_limited`; after exactly its `Retry-After` there is room for one
     */
    take(keyId: string, limits: RateLimits): RateStanding | undefined {
      if (limits.requestsPerSecond === 0) return undefined;
      const nowMs = clock.now();
      const bucket = buckets.get(keyId);
      const level = levelNow(bucket, limits, nowMs);
      buckets.delete(keyId);
      if (buckets.size >= maxKeys) makeRoom(nowMs);
      const left = level >= REQUEST ? level - REQUEST : level;
      buckets.set(keyId, { level: left, atMs: nowMs, limits });
      if (level < REQUEST) {
        const retryAfterSeconds = Math.ceil((REQUEST - level) / (limits.requestsPerSecond * 1000));
        throw new AppError("rate_limited", { retryAfterSeconds });
      }
      return standing(left, limits);
    },

    /** How a key stands, without counting anything: for the fields of a refusal. */
    peek(keyId: string, limits: RateLimits): RateStanding | undefined {
      if (limits.requestsPerSecond === 0) return undefined;
      return standing(levelNow(buckets.get(keyId), limits, clock.now()), limits);
    },

    /** Buckets held. */
    size: () => buckets.size,
  };
}

/**
 * The fields that tell a client how it stands: draft-ietf-httpapi-ratelimit-headers (q quota, w window,
 * r remaining, t seconds to the full quota).
 */
export function rateLimitFields(standing: RateStanding): { "ratelimit-policy": string; ratelimit: string } {
  const { limit, remaining, resetSeconds, windowSeconds } = standing;
  return {
    "ratelimit-policy": `"default";q=${limit};w=${windowSeconds}`,
    ratelimit: `"default";r=${remaining};t=${resetSeconds}`,
  };
}
