import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import type { Database } from "../store/database.ts";
import type { DeliveryLimits, Receiver } from "./deliver-limits.ts";
import type { OutcomeRecorder } from "./deliver-recorder.ts";
import { outcomeOf } from "./deliver-schedule.ts";
import {
  type DeliveryOutcome,
  type DueDelivery,
  dueDeliveries,
  type WaitingEndpoint,
} from "./delivery-rows.ts";
import { findEndpoint, validSecrets } from "./event-rows.ts";
import type { Message, WebhookSender } from "./sender.ts";

export type AttemptsDeps = {
  database: Database;
  clock: Clock;
  log: Log;
  sender: Pick<WebhookSender, "send">;
  limits: DeliveryLimits;
  recorder: OutcomeRecorder;
  /** Returns numbers in [0, 1) for the schedule's jitter. */
  random: () => number;
  /** Returns whether the clock may be wrong. */
  isClockDoubtful: () => boolean;
  /** Called after each attempt that a stop did not abort. */
  onEnded: () => void;
};

/** Numbers since the start of the program. */
export type AttemptCounts = {
  attemptsSucceeded: number;
  attemptsFailed: number;
  /** Events that failed for good, because the schedule was used up or the receiver answered 410. */
  deliveriesFailed: number;
};

/** Sends due events as far as the limits allow, and records the outcomes. */
export type Attempts = {
  /**
   * Starts attempts at these endpoints, in rounds: each round gives every endpoint an equal share of the free attempts.
   * Endpoints after the one that was served last come first.
   *
   * @throws what the store throws
   */
  startDue(endpoints: readonly WaitingEndpoint[], nowMs: number): void;
  counts(): AttemptCounts;
  /** Waits until all attempts have ended, and aborts those that take longer than `drainMs`. */
  drain(drainMs: number): Promise<void>;
};

export function createAttempts(deps: AttemptsDeps): Attempts {
  const { database, clock, log, sender, limits, recorder } = deps;
  const counts: AttemptCounts = { attemptsSucceeded: 0, attemptsFailed: 0, deliveriesFailed: 0 };
  const running = new Set<Promise<void>>();
  const stopping = new AbortController();
  let lastServed = "";

  /** Starts at most `most` attempts at one endpoint. Returns whether any was started. */
  function startEndpoint(receiver: Receiver, nowMs: number, most: number): boolean {
    const { endpointId } = receiver;
    const limit = most + limits.heldCount(endpointId);
    const due = dueDeliveries(database, { endpointId, nowMs, limit })
      .filter(({ eventId }) => !limits.isHeld(endpointId, eventId))
      .slice(0, most);
    const endpoint = due.length > 0 ? findEndpoint(database.store, endpointId) : undefined;
    if (!endpoint || endpoint.disabledAt !== null) return false;
    if ((due[0]?.attempts ?? 0) > 0) limits.hasFailedBefore(endpointId);
    let started = 0;
    for (const delivery of due) {
      if (limits.freeFor(receiver) === 0) break;
      const { eventId, attempts, body } = delivery;
      const message = { eventId, url: endpoint.url, secrets: validSecrets(endpoint, nowMs), body, attempts };
      limits.begin(receiver, eventId);
      started++;
      const run = attempt(receiver, delivery, message).finally(() => running.delete(run));
      running.add(run);
    }
    lastServed = endpointId;
    return started > 0;
  }

  async function attempt(receiver: Receiver, delivery: DueDelivery, message: Message): Promise<void> {
    const { endpointId } = receiver;
    const made = await sender.send(message, stopping.signal);
    if (!made) {
      limits.end(receiver, undefined);
      limits.release(endpointId, delivery.eventId);
      return;
    }
    const planned = { ...delivery, endpointId };
    const outcome = outcomeOf(planned, made, clock.now(), deps.random(), deps.isClockDoubtful);
    limits.end(receiver, outcome.error === null ? "working" : "failing");
    noteOutcome(outcome);
    recorder.add(outcome);
    deps.onEnded();
  }

  function noteOutcome({ eventId, endpointId, status, error, state }: DeliveryOutcome): void {
    counts[error === null ? "attemptsSucceeded" : "attemptsFailed"]++;
    const line = { event_id: eventId, endpoint_id: endpointId, status, error };
    if (state !== "failed") log.debug(line, "webhook attempt");
    else {
      counts.deliveriesFailed++;
      log.warn(line, "webhook delivery failed");
    }
  }

  return {
    startDue(endpoints, nowMs) {
      const inTurn = startingAfter(endpoints, lastServed);
      let hasStarted = !recorder.isFull();
      while (hasStarted) {
        hasStarted = false;
        const share = Math.max(1, Math.floor(limits.free() / Math.max(1, inTurn.length)));
        for (const receiver of inTurn) {
          if (limits.free() <= 0) return;
          const most = Math.min(share, limits.freeFor(receiver));
          if (most > 0 && startEndpoint(receiver, nowMs, most)) hasStarted = true;
        }
      }
    },
    counts: () => counts,
    async drain(drainMs) {
      const timer = setTimeout(() => stopping.abort(), drainMs);
      while (running.size > 0) await Promise.allSettled(running);
      clearTimeout(timer);
    },
  };
}

/** Orders endpoints so that those after the one served last come first. */
function startingAfter(endpoints: readonly WaitingEndpoint[], lastServed: string): WaitingEndpoint[] {
  return [
    ...endpoints.filter(({ endpointId }) => endpointId > lastServed),
    ...endpoints.filter(({ endpointId }) => endpointId <= lastServed),
  ];
}
