import { RETRY_DELAYS_SECONDS } from "../domain/webhook.ts";
import type { AttemptOutcome } from "../services/webhook-sender.ts";
import type { DeliveryOutcome } from "../store/webhook-deliveries.ts";

/** The schedule's waits vary by this share, so that receivers do not meet their whole backlog at one instant. */
const JITTER = 0.1;

/**
 * What follows from an attempt (docs/decisions.md section 10): delivered; gone (410), which fails the event and
 * disables the endpoint; another attempt after the schedule's wait, or the longer one the receiver asked for;
 * failed when the schedule is used up.
 *
 * @param delivery `attempts`: how many were made before this one
 * @param random a number in [0, 1)
 */
export function outcomeOf(
  delivery: { eventId: string; endpointId: string; attempts: number },
  attempt: AttemptOutcome,
  nowMs: number,
  random: number,
): DeliveryOutcome {
  const { eventId, endpointId, attempts } = delivery;
  const { startedAtMs, durationMs, status, error } = attempt;
  const noted = { eventId, endpointId, startedAtMs, durationMs, status, error };
  const ended = { ...noted, nextAttemptAt: null, disableReason: null };
  if (error === null) return { ...ended, state: "delivered" };
  if (attempt.isGone) return { ...ended, state: "failed", disableReason: "the receiver answered 410 (Gone)" };
  const delaySeconds = RETRY_DELAYS_SECONDS[attempts];
  if (delaySeconds === undefined) return { ...ended, state: "failed" };
  const scheduledMs = Math.round(delaySeconds * 1000 * (1 - JITTER + 2 * JITTER * random));
  return { ...ended, state: "pending", nextAttemptAt: nowMs + Math.max(scheduledMs, attempt.retryAfterMs) };
}
