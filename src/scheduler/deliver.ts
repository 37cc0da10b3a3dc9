import type { Config } from "../config/schema.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import { createWebhookSender, type Message, type Resolve } from "../services/webhook-sender.ts";
import type { Database } from "../store/database.ts";
import {
  countDeliveries,
  type DeliveryOutcome,
  type DueDelivery,
  dueDeliveries,
  type WaitingEndpoint,
  waitingEndpoints,
} from "../store/webhook-deliveries.ts";
import { findEndpoint, validSecrets } from "../store/webhooks.ts";
import { createLanes, type Receiver } from "./deliver-lanes.ts";
import { createOutcomeRecorder } from "./deliver-recorder.ts";
import { outcomeOf } from "./deliver-schedule.ts";

/** Longest sleep: a clock that was set or a machine that slept is noticed after it. */
const MAX_SLEEP_MS = 30_000;
const RETRY_DATABASE_MS = 1000;

export type DelivererDeps = {
  database: Database;
  clock: Clock;
  config: Config;
  log: Log;
  resolve?: Resolve;
  /** Numbers in [0, 1) for the schedule's jitter. */
  random?: () => number;
};
export type Deliverer = ReturnType<typeof createDeliverer>;

export type DelivererMetrics = {
  attemptsSucceeded: number;
  attemptsFailed: number;
  /** Events given up: schedule used up, or 410. */
  deliveriesFailed: number;
  endpointsDisabled: number;
  inFlight: number;
  pending: number;
  /** Waiting at disabled endpoints. */
  paused: number;
  oldestUndeliveredSeconds: number;
};

/**
 * Delivers stored events at least once (docs/decisions.md section 10). What is due is read from the database,
 * endpoint by endpoint in turn, and sent with bounded concurrency; outcomes are recorded in batches. An
 * attempt whose outcome was not recorded before a stop or crash is made again under the same `webhook-id`.
 *
 * @throws Error when `webhooks.ca_file` or `webhooks.allowed_networks` cannot be used
 */
export function createDeliverer(deps: DelivererDeps) {
  const { database, clock, config, log, resolve, random = Math.random } = deps;
  const sender = createWebhookSender({ config, clock, ...(resolve ? { resolve } : {}) });
  const lanes = createLanes({
    maxInFlight: config.webhooks.max_in_flight,
    maxPerEndpoint: config.webhooks.max_in_flight_per_endpoint,
  });
  const counts = { attemptsSucceeded: 0, attemptsFailed: 0, deliveriesFailed: 0, endpointsDisabled: 0 };
  const running = new Set<Promise<void>>();
  const halt = new AbortController();
  let isRunning = false;
  let isPumpAsked = false;
  let lastServed = "";
  let wakeTimer: Timer | undefined;
  const recorder = createOutcomeRecorder({
    database,
    clock,
    log,
    onRecorded(batch, disabledEndpoints) {
      counts.endpointsDisabled += disabledEndpoints.length;
      for (const endpointId of disabledEndpoints)
        log.warn({ endpoint_id: endpointId }, "webhook endpoint disabled");
      for (const { endpointId, eventId } of batch) lanes.release(endpointId, eventId);
      wake();
    },
  });

  /** Sends what is due as far as places go, then sleeps until the next is. */
  const pump = () => {
    isPumpAsked = false;
    if (!isRunning) return;
    clearTimeout(wakeTimer);
    let sleepMs = MAX_SLEEP_MS;
    try {
      const nowMs = clock.now();
      const waiting = waitingEndpoints(database);
      const waitingIds = new Set(waiting.map(({ endpointId }) => endpointId));
      lanes.prune((endpointId) => waitingIds.has(endpointId));
      startDue(
        inTurn(
          waiting.filter(({ firstAttemptAt }) => firstAttemptAt <= nowMs),
          lastServed,
        ),
        nowMs,
      );
      for (const { firstAttemptAt } of waiting) {
        if (firstAttemptAt > nowMs) sleepMs = Math.min(sleepMs, firstAttemptAt - nowMs);
      }
    } catch (error) {
      log.error({ err: error }, "webhook deliveries cannot be read");
      sleepMs = RETRY_DATABASE_MS;
    }
    wakeTimer = setTimeout(wake, sleepMs);
  };

  const wake = () => {
    if (isPumpAsked || !isRunning) return;
    isPumpAsked = true;
    setImmediate(pump);
  };

  /** Rounds of an equal share for each endpoint, until places or due deliveries run out. */
  const startDue = (due: readonly WaitingEndpoint[], nowMs: number) => {
    let hasStarted = !recorder.isFull();
    while (hasStarted) {
      hasStarted = false;
      const share = Math.max(1, Math.floor(lanes.free() / Math.max(1, due.length)));
      for (const receiver of due) {
        if (lanes.free() <= 0) return;
        const places = Math.min(share, lanes.places(receiver));
        if (places > 0 && startEndpoint(receiver, nowMs, places)) hasStarted = true;
      }
    }
  };

  const startEndpoint = (receiver: Receiver, nowMs: number, places: number): boolean => {
    const { endpointId } = receiver;
    const limit = places + lanes.heldCount(endpointId);
    const free = dueDeliveries(database, { endpointId, nowMs, limit })
      .filter(({ eventId }) => !lanes.isHeld(endpointId, eventId))
      .slice(0, places);
    const endpoint = free.length > 0 ? findEndpoint(database.store, endpointId) : undefined;
    if (!endpoint || endpoint.disabledAt !== null) return false;
    if ((free[0]?.attempts ?? 0) > 0) lanes.hasFailedBefore(endpointId);
    let started = 0;
    for (const delivery of free) {
      if (lanes.places(receiver) === 0) break;
      const { eventId, attempts, body } = delivery;
      const message = { eventId, url: endpoint.url, secrets: validSecrets(endpoint, nowMs), body, attempts };
      lanes.enter(receiver, eventId);
      started++;
      const run = attempt(receiver, delivery, message).finally(() => running.delete(run));
      running.add(run);
    }
    lastServed = endpointId;
    return started > 0;
  };

  const attempt = async (receiver: Receiver, delivery: DueDelivery, message: Message): Promise<void> => {
    const { endpointId } = receiver;
    const { eventId } = delivery;
    const made = await sender.send(message, halt.signal);
    if (!made) {
      lanes.leave(receiver, undefined);
      lanes.release(endpointId, eventId);
      return;
    }
    const outcome = outcomeOf({ ...delivery, endpointId }, made, clock.now(), random());
    lanes.leave(receiver, outcome.error === null ? "working" : "failing");
    noteOutcome(outcome);
    recorder.add(outcome);
    wake();
  };

  const noteOutcome = ({ eventId, endpointId, status, error, state }: DeliveryOutcome) => {
    counts[error === null ? "attemptsSucceeded" : "attemptsFailed"]++;
    const line = { event_id: eventId, endpoint_id: endpointId, status, error };
    if (state !== "failed") log.debug(line, "webhook attempt");
    else {
      counts.deliveriesFailed++;
      log.warn(line, "webhook delivery failed");
    }
  };

  return {
    /** Looks for due deliveries soon; cheap, for after every commit that stores an event and every outside change. */
    wake,

    start(): void {
      isRunning = true;
      wake();
    },

    /**
     * Ends: no new attempts; those in flight get `drainMs` to finish, then are broken off and made again after
     * the next start.
     */
    async stop(drainMs = 5000): Promise<void> {
      isRunning = false;
      clearTimeout(wakeTimer);
      const drain = setTimeout(() => halt.abort(), drainMs);
      while (running.size > 0) await Promise.allSettled(running);
      clearTimeout(drain);
      recorder.close();
    },

    /** Resolves once nothing is on its way and nothing is due. */
    async settled(): Promise<void> {
      for (;;) {
        const isBusy = isPumpAsked || lanes.inFlight() > 0 || recorder.count() > 0;
        if (!isBusy || !isRunning) return;
        await Bun.sleep(2);
      }
    },

    metrics(): DelivererMetrics {
      const { pending, paused, oldestPendingAt } = countDeliveries(database);
      const ageMs = oldestPendingAt === null ? 0 : Math.max(0, clock.now() - oldestPendingAt);
      return {
        ...counts,
        inFlight: lanes.inFlight(),
        pending,
        paused,
        oldestUndeliveredSeconds: ageMs / 1000,
      };
    },
  };
}

/** The endpoints in turn: those after the one served last come first. */
function inTurn(endpoints: readonly WaitingEndpoint[], lastServed: string): WaitingEndpoint[] {
  return [
    ...endpoints.filter(({ endpointId }) => endpointId > lastServed),
    ...endpoints.filter(({ endpointId }) => endpointId <= lastServed),
  ];
}
