import type { Config } from "../config/schema.ts";
import type { Clock } from "../lib/clock.ts";
import { createRateLimiter } from "./rate-limit.ts";

/**
 * What a client can do again and again without paying, and what leaves a record: changes of webhook endpoints, uploads
 * that are rejected, and transcriptions that are cancelled. Each kind has a count of its own, so that one kind does not
 * hold up another.
 */
export type UnpaidKind = "webhook changes" | "rejected uploads" | "cancelled transcriptions";

/**
 * The rate of unpaid acts of each organization: `limits.unpaid_acts_per_second`, and `limits.unpaid_act_burst` at once.
 * They are counted when they have happened. Only then the next act that could become one waits; what is paid is never
 * counted.
 */
export type UnpaidActs = {
  /** Checks that the organization may begin what could become an unpaid act. @throws AppError `rate_limited` */
  require(kind: UnpaidKind, organizationId: string): void;
  /** Counts an act that has happened. */
  count(kind: UnpaidKind, organizationId: string): void;
};

export function createUnpaidActs({ clock, config }: { clock: Clock; config: Config }): UnpaidActs {
  const limiter = createRateLimiter({ clock, config });
  const limits = () => ({
    requestsPerSecond: config.limits.unpaid_acts_per_second,
    burst: config.limits.unpaid_act_burst,
  });
  return {
    require: (kind, organizationId) => limiter.require(`${kind} ${organizationId}`, limits()),
    count: (kind, organizationId) => limiter.count(`${kind} ${organizationId}`, limits()),
  };
}
