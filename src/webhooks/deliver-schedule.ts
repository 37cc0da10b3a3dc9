import { RETRY_DELAYS_SECONDS } from "../domain/webhook.ts";
import { MAX_RETRY_AFTER_MS } from "../outbound/failures.ts";
import type { DeliveryOutcome } from "./delivery-rows.ts";
import type { AttemptOutcome } from "./sender.ts";

const LONGEST_DELAY_SECONDS = Math.max(...RETRY_DELAYS_SECONDS);
/** Waits vary by up to this share, so that a receiver does not get its whole backlog at one instant. */
const JITTER = 0.1;

/** The longest wait for an attempt. */
export const LONGEST_WAIT_MS = Math.max(
  MAX_RETRY_AFTER_MS,
  Math.ceil(LONGEST_DELAY_SECONDS * 1000 * (1 + JITTER)),
);

/**
 * Decides what follows from an attempt (docs/decisions/webhooks.md). A success delivers the event. An answer 410
 * fails the event and disables the endpoint. After any other failure the event is tried again after the schedule's
 * wait, or after the receiver's `Retry-After` where that is longer. When the schedule is used up, the event fails.
 * While the clock is in doubt none fails for that: receivers refuse signatures with a wrong time.
 *
 * @param delivery `attempts` is the number of attempts before this one
 * @param nowMs milliseconds since 1970
 * @param random a number in [0, 1), which varies the wait
 * @param isClockDoubtful returns whether the clock may be wrong; it is asked only when the schedule is used up
 */
export function outcomeOf(
  delivery: { eventId: string; endpointId: string; attempts: number },
  attempt: AttemptOutcome,
  nowMs: number,
  random: number,
  isClockDoubtful: () => boolean,
): DeliveryOutcome {
  const { eventId, endpointId, attempts } = delivery;
  const { startedAtMs, durationMs, status, error } = attempt;
  const noted = { eventId, endpointId, attempts, startedAtMs, durationMs, status, error };
  const ended = { ...noted, nextAttemptAt: null, disableReason: null };
  if (error === null) return { ...ended, state: "delivered" };
  if (attempt.isGone) return { ...ended, state: "failed", disableReason: "the receiver answered 410 (Gone)" };
  const delaySeconds =
    RETRY_DELAYS_SECONDS[attempts] ?? (isClockDoubtful() ? LONGEST_DELAY_SECONDS : undefined);
  if (delaySeconds === undefined) return { ...ended, state: "failed" };
  const scheduledMs = Math.round(delaySeconds * 1000 * (1 - JITTER + 2 * JITTER * random));
  return { ...ended, state: "pending", nextAttemptAt: nowMs + Math.max(scheduledMs, attempt.retryAfterMs) };
}
