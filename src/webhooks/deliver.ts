import type { Config } from "../config/schema.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import type { Resolve } from "../outbound/guarded-fetch.ts";
import type { Database } from "../store/database.ts";
import { STORE_PAUSE_MS } from "../store/store-pause.ts";
import { type AttemptCounts, createAttempts } from "./deliver-attempts.ts";
import { createDeliveryLimits } from "./deliver-limits.ts";
import { createOutcomeRecorder } from "./deliver-recorder.ts";
import { LONGEST_WAIT_MS } from "./deliver-schedule.ts";
import { countDeliveries, hastenFarDeliveries, waitingEndpoints } from "./delivery-rows.ts";
import { createWebhookSender } from "./sender.ts";

/** Longest sleep: a change of the clock, or the sleep of the machine, is noticed after it. */
const MAX_SLEEP_MS = 30_000;
const DRAIN_MS = 5_000;

export type DelivererDeps = {
  database: Database;
  clock: Clock;
  config: Config;
  log: Log;
  /** Finds the addresses of a host name. Absent: the system's resolver. */
  resolve?: Resolve;
  /** Returns whether the clock may be wrong. Absent: it is right. */
  isClockDoubtful?: () => boolean;
  /** Returns numbers in [0, 1) for the schedule's jitter. Absent: `Math.random`. */
  random?: () => number;
};

export type DelivererMetrics = AttemptCounts & {
  endpointsDisabled: number;
  inFlight: number;
  pending: number;
  /** Events that wait at disabled endpoints. */
  paused: number;
  oldestUndeliveredSeconds: number;
};

/**
 * Delivers stored events at least once (docs/decisions/webhooks.md). An attempt whose outcome was not recorded before
 * a stop or crash is made again under the same `webhook-id`.
 */
export type Deliverer = {
  /**
   * Looks for due deliveries soon. The call is cheap: it is made after each commit that stores an event, and after each
   * change by another process.
   */
  wake(): void;
  start(): void;
  /**
   * Starts no more attempts. Those in flight may take `drainMs`, then they are aborted and made again after the next
   * start.
   */
  stop(drainMs?: number): Promise<void>;
  /** Waits until no attempt is in flight and no event is due. For tests. */
  settled(): Promise<void>;
  metrics(): DelivererMetrics;
};

/**
 * Reads due events from the database, endpoint by endpoint in turn, sends them with bounded concurrency and records the
 * outcomes in batches.
 *
 * @throws Error when `webhooks.ca_file` or `webhooks.allowed_networks` cannot be used
 */
export function createDeliverer(deps: DelivererDeps): Deliverer {
  const { database, clock, config, log, resolve, random = Math.random } = deps;
  const sender = createWebhookSender({ config, clock, ...(resolve ? { resolve } : {}) });
  const limits = createDeliveryLimits({
    maxInFlight: config.webhooks.max_in_flight,
    maxPerEndpoint: config.webhooks.max_in_flight_per_endpoint,
  });
  let endpointsDisabled = 0;
  let isRunning = false;
  let isPumpPlanned = false;
  let wakeTimer: Timer | undefined;
  const recorder = createOutcomeRecorder({
    database,
    clock,
    log,
    onRecorded(batch, disabledEndpoints) {
      endpointsDisabled += disabledEndpoints.length;
      for (const endpointId of disabledEndpoints)
        log.warn({ endpoint_id: endpointId }, "webhook endpoint disabled");
      for (const { endpointId, eventId } of batch) limits.release(endpointId, eventId);
      wake();
    },
  });
  const { isClockDoubtful = () => false } = deps;
  const attempts = createAttempts({
    ...{ database, clock, log, sender, limits, recorder, random, isClockDoubtful, onEnded: wake },
  });
  let lookedMs = Number.POSITIVE_INFINITY;

  function wake(): void {
    if (isPumpPlanned || !isRunning) return;
    isPumpPlanned = true;
    setImmediate(pump);
  }

  /** Sends due events as far as the limits allow, then sleeps until the next one is due. */
  function pump(): void {
    isPumpPlanned = false;
    if (!isRunning) return;
    clearTimeout(wakeTimer);
    let sleepMs = MAX_SLEEP_MS;
    try {
      const nowMs = clock.now();
      // Before the first look, the clock may have been put back while the program did not run.
      if (nowMs < lookedMs) hastenFarDeliveries(database, nowMs, LONGEST_WAIT_MS);
      lookedMs = nowMs;
      const waiting = waitingEndpoints(database);
      const waitingIds = new Set(waiting.map(({ endpointId }) => endpointId));
      limits.prune((endpointId) => waitingIds.has(endpointId));
      attempts.startDue(
        waiting.filter(({ firstAttemptAt }) => firstAttemptAt <= nowMs),
        nowMs,
      );
      for (const { firstAttemptAt } of waiting) {
        if (firstAttemptAt > nowMs) sleepMs = Math.min(sleepMs, firstAttemptAt - nowMs);
      }
    } catch (error) {
      log.error({ err: error }, "webhook deliveries cannot be read");
      sleepMs = STORE_PAUSE_MS;
    }
    wakeTimer = setTimeout(wake, sleepMs);
  }

  return {
    wake,
    start() {
      isRunning = true;
      wake();
    },
    async stop(drainMs = DRAIN_MS) {
      isRunning = false;
      clearTimeout(wakeTimer);
      await attempts.drain(drainMs);
      recorder.close();
    },
    async settled() {
      for (;;) {
        const isBusy = isPumpPlanned || limits.inFlight() > 0 || recorder.count() > 0;
        if (!isBusy || !isRunning) return;
        await Bun.sleep(2);
      }
    },
    metrics() {
      const { pending, paused, oldestPendingAt } = countDeliveries(database);
      const ageMs = oldestPendingAt === null ? 0 : Math.max(0, clock.now() - oldestPendingAt);
      return {
        ...attempts.counts(),
        endpointsDisabled,
        inFlight: limits.inFlight(),
        pending,
        paused,
        oldestUndeliveredSeconds: ageMs / 1000,
      };
    },
  };
}
