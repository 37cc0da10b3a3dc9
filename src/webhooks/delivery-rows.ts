import { and, count, desc, eq, gte, lt, type SQL, sql } from "drizzle-orm";
import type { Ages } from "../domain/clock-trust.ts";
import type { DeliveryState } from "../domain/webhook.ts";
import { firstIdAt, MAX_ID_AHEAD_MS } from "../lib/ids.ts";
import type { Database, Store } from "../store/database.ts";
import { isNotShifted } from "../store/over.ts";
import { deliveries, deliveryAttempts, events, webhookEndpoints } from "../store/schema.ts";
import type { WebhookEndpointRow } from "./event-rows.ts";

/** An endpoint that is not disabled and has pending deliveries. */
export type WaitingEndpoint = { endpointId: string; organizationId: string; firstAttemptAt: number };

/**
 * Finds enabled endpoints with pending deliveries, and the time of the next attempt at each. It makes one step through
 * the index `deliveries_due` for each endpoint, however long its backlog is (a "loose index scan").
 */
export function waitingEndpoints({ sqlite }: Database): WaitingEndpoint[] {
  return sqlite
    .query<WaitingEndpoint, []>(
      `WITH RECURSIVE waiting(id) AS (
         SELECT min(endpoint_id) FROM deliveries WHERE state = 'pending'
         UNION ALL
         SELECT (SELECT min(endpoint_id) FROM deliveries WHERE state = 'pending' AND endpoint_id > waiting.id)
           FROM waiting WHERE waiting.id IS NOT NULL
       )
       SELECT waiting.id AS endpointId, e.organization_id AS organizationId,
              (SELECT min(next_attempt_at) FROM deliveries WHERE state = 'pending' AND endpoint_id = waiting.id)
                AS firstAttemptAt
         FROM waiting JOIN webhook_endpoints AS e ON e.id = waiting.id AND e.disabled_at IS NULL`,
    )
    .all();
}

/** The part of a delivery that an attempt needs. */
export type DueDelivery = { eventId: string; attempts: number; body: string };

/** Lists the due deliveries of one endpoint, the longest due first. */
export function dueDeliveries(
  { sqlite }: Database,
  due: { endpointId: string; nowMs: number; limit: number },
): DueDelivery[] {
  return sqlite
    .query<DueDelivery, [string, number, number]>(
      `SELECT d.event_id AS eventId, d.attempts, e.body
         FROM deliveries AS d JOIN events AS e ON e.id = d.event_id
        WHERE d.state = 'pending' AND d.endpoint_id = ? AND d.next_attempt_at <= ?
        ORDER BY d.next_attempt_at, d.event_id LIMIT ?`,
    )
    .all(due.endpointId, due.nowMs, due.limit);
}

/** An attempt, and the state of its delivery afterwards. */
export type DeliveryOutcome = {
  eventId: string;
  endpointId: string;
  /** Attempts before this one. */
  attempts: number;
  startedAtMs: number;
  durationMs: number;
  status: number | null;
  error: string | null;
  state: DeliveryState;
  /** Set while the state is `pending`. */
  nextAttemptAt: number | null;
  /** Why the endpoint is to be disabled; null: it is not. */
  disableReason: string | null;
};

/**
 * Records attempts in the caller's transaction. A delivery that was ended, started again or removed meanwhile keeps its
 * state; only the attempt is recorded. An event that has arrived is delivered, even if it was started again.
 * It uses raw statements, because it is the most frequent write while events are delivered.
 *
 * @returns ids of the endpoints that were disabled
 */
export function recordOutcomes(
  { sqlite }: Database,
  outcomes: readonly DeliveryOutcome[],
  nowMs: number,
): string[] {
  const move = sqlite.query(
    `UPDATE deliveries SET state = ?2, attempts = attempts + 1, next_attempt_at = ?3,
            delivered_at = CASE ?2 WHEN 'delivered' THEN ?4 END, failed_at = CASE ?2 WHEN 'failed' THEN ?4 END
      WHERE event_id = ?1 AND state = 'pending' AND (attempts = ?5 OR ?2 = 'delivered')`,
  );
  const note = sqlite.query(
    `INSERT INTO delivery_attempts (event_id, started_at, duration_ms, status, error)
     SELECT id, ?2, ?3, ?4, ?5 FROM events WHERE id = ?1`,
  );
  const disable = sqlite.query(
    "UPDATE webhook_endpoints SET disabled_at = ?2, disabled_reason = ?3 WHERE id = ?1 AND disabled_at IS NULL",
  );
  const disabled: string[] = [];
  for (const outcome of outcomes) {
    const { eventId, startedAtMs, durationMs, status, error } = outcome;
    move.run(eventId, outcome.state, outcome.nextAttemptAt, nowMs, outcome.attempts);
    note.run(eventId, startedAtMs, durationMs, status, error);
    if (outcome.disableReason === null) continue;
    if (disable.run(outcome.endpointId, nowMs, outcome.disableReason).changes > 0)
      disabled.push(outcome.endpointId);
  }
  return disabled;
}

export type DeliveryRow = typeof deliveries.$inferSelect & {
  event: typeof events.$inferSelect;
  endpoint: Pick<WebhookEndpointRow, "disabledAt" | "disabledReason" | "removedAt">;
  lastAttempt: typeof deliveryAttempts.$inferSelect | undefined;
};

/** Lists deliveries with event and last attempt, newest event first. */
export function listDeliveries(
  store: Store,
  filter: { endpointId?: string; eventId?: string; state?: DeliveryState; limit: number; after?: string },
): DeliveryRow[] {
  const rows = store
    .select({ delivery: deliveries, event: events, endpoint: webhookEndpoints })
    .from(deliveries)
    .innerJoin(events, eq(events.id, deliveries.eventId))
    .innerJoin(webhookEndpoints, eq(webhookEndpoints.id, deliveries.endpointId))
    .where(
      and(
        filter.endpointId ? eq(deliveries.endpointId, filter.endpointId) : undefined,
        filter.eventId ? eq(deliveries.eventId, filter.eventId) : undefined,
        filter.state ? eq(deliveries.state, filter.state) : undefined,
        filter.after ? lt(deliveries.eventId, filter.after) : undefined,
      ),
    )
    .orderBy(desc(deliveries.eventId))
    .limit(filter.limit)
    .all();
  return rows.map(({ delivery, event, endpoint }) => ({
    ...delivery,
    event,
    endpoint,
    lastAttempt: store
      .select()
      .from(deliveryAttempts)
      .where(eq(deliveryAttempts.eventId, delivery.eventId))
      .orderBy(desc(deliveryAttempts.id))
      .limit(1)
      .get(),
  }));
}

/** Finds the event that reports the end of a transcription; undefined: there is none, or it was removed by its age. */
export function findEventOf(
  store: Store,
  { id, finishedAt }: { id: string; finishedAt: number | null },
): string | undefined {
  if (finishedAt === null) return undefined;
  // Identifiers begin with their time, so only the events of that minute are read.
  const oldest = firstIdAt("event", finishedAt);
  const newest = firstIdAt("event", finishedAt + MAX_ID_AHEAD_MS + 1);
  return store
    .select({ id: events.id })
    .from(events)
    .where(and(eq(events.transcriptionId, id), gte(events.id, oldest), lt(events.id, newest)))
    .get()?.id;
}

/** Lists the attempts of an event, oldest first, at most 1000. */
export function listAttempts(store: Store, eventId: string): (typeof deliveryAttempts.$inferSelect)[] {
  return store
    .select()
    .from(deliveryAttempts)
    .where(eq(deliveryAttempts.eventId, eventId))
    .orderBy(deliveryAttempts.id)
    .limit(1000)
    .all();
}

/** Restarts a delivery: it is due at once, and has all its attempts again. */
export function restartDelivery(tx: Store, eventId: string, nowMs: number): void {
  tx.update(deliveries)
    .set({ state: "pending", attempts: 0, nextAttemptAt: nowMs, deliveredAt: null, failedAt: null })
    .where(eq(deliveries.eventId, eventId))
    .run();
}

/** Restarts each failed delivery of an endpoint. Returns how many. */
export function restartFailedDeliveries(tx: Store, endpointId: string, nowMs: number): number {
  return tx
    .update(deliveries)
    .set({ state: "pending", attempts: 0, nextAttemptAt: nowMs, failedAt: null })
    .where(and(eq(deliveries.endpointId, endpointId), eq(deliveries.state, "failed")))
    .returning({ eventId: deliveries.eventId })
    .all().length;
}

/** Makes the pending deliveries of an endpoint due at once. */
export function hastenDeliveries(tx: Store, endpointId: string, nowMs: number): void {
  tx.update(deliveries)
    .set({ nextAttemptAt: nowMs })
    .where(and(eq(deliveries.endpointId, endpointId), eq(deliveries.state, "pending")))
    .run();
}

/**
 * Makes deliveries due that wait longer than they ever should: the clock was put back since their last attempts.
 *
 * @param longestWaitMs the longest wait for an attempt
 */
export function hastenFarDeliveries({ sqlite }: Database, nowMs: number, longestWaitMs: number): void {
  sqlite
    .query("UPDATE deliveries SET next_attempt_at = ?1 WHERE state = 'pending' AND next_attempt_at > ?2")
    .run(nowMs, nowMs + longestWaitMs);
}

/** Fails the pending deliveries of an endpoint that is being removed. */
export function failPendingDeliveries(tx: Store, endpointId: string, nowMs: number): void {
  tx.update(deliveries)
    .set({ state: "failed", nextAttemptAt: null, failedAt: nowMs })
    .where(and(eq(deliveries.endpointId, endpointId), eq(deliveries.state, "pending")))
    .run();
}

export type DeliveryCounts = {
  /** Pending at endpoints that are not disabled. */
  pending: number;
  /** Pending until an admin enables their endpoint. */
  paused: number;
  /** When the oldest of `pending` was made, epoch milliseconds; null when there is none. */
  oldestPendingAt: number | null;
};

/** Counts pending deliveries. It reads each once, from an index. */
export function countDeliveries({ sqlite }: Database): DeliveryCounts {
  const row = sqlite
    .query<{ pending: number; paused: number; oldest: string | null }, []>(
      `SELECT count(*) FILTER (WHERE e.disabled_at IS NULL) AS pending,
              count(*) FILTER (WHERE e.disabled_at IS NOT NULL) AS paused,
              min(CASE WHEN e.disabled_at IS NULL THEN d.event_id END) AS oldest
         FROM deliveries AS d INDEXED BY deliveries_due JOIN webhook_endpoints AS e ON e.id = d.endpoint_id
        WHERE d.state = 'pending'`,
    )
    .get();
  const oldest = row?.oldest
    ? sqlite
        .query<{ createdAt: number }, [string]>("SELECT created_at AS createdAt FROM events WHERE id = ?")
        .get(row.oldest)
    : undefined;
  return { pending: row?.pending ?? 0, paused: row?.paused ?? 0, oldestPendingAt: oldest?.createdAt ?? null };
}

// The conditions below are those of indexes. A parameter in place of the word would keep SQLite from using them.
const IS_PENDING = sql`state = 'pending'`;
const IS_FAILED = sql`state = 'failed'`;

/** Counts the deliveries of one endpoint that wait. */
export const countPendingOfEndpoint = (store: Store, endpointId: string): number =>
  countWhere(store, endpointId, IS_PENDING);

/** Counts the deliveries of one endpoint that were given up. */
export const countFailedOfEndpoint = (store: Store, endpointId: string): number =>
  countWhere(store, endpointId, IS_FAILED);

function countWhere(store: Store, endpointId: string, condition: SQL): number {
  const row = store
    .select({ found: count() })
    .from(deliveries)
    .where(and(eq(deliveries.endpointId, endpointId), condition))
    .get();
  return row?.found ?? 0;
}

/**
 * Removes events with their deliveries and attempts: those that were made and finished before a time, and as old ones
 * that wait for a disabled endpoint. It removes one batch; call it again while it returns `limit`.
 *
 * @returns how many events were removed
 */
export function removeOldDeliveries(store: Store, madeBefore: Ages, limit = 500): number {
  const beforeMs = madeBefore.nowMs;
  const endedAt = sql`coalesce(d.delivered_at, d.failed_at, 0)`;
  // Identifiers begin with their time, so the oldest events are one range of the primary key.
  const newestId = firstIdAt("event", Math.max(beforeMs, 0) + MAX_ID_AHEAD_MS);
  return store
    .delete(events)
    .where(
      sql`${events.id} IN (
        SELECT d.event_id FROM ${deliveries} AS d JOIN ${webhookEndpoints} AS e ON e.id = d.endpoint_id
         WHERE d.event_id < ${newestId}
           AND (coalesce(d.delivered_at, d.failed_at) < ${beforeMs} OR (d.state = 'pending' AND e.disabled_at IS NOT NULL))
           AND ${isNotShifted(endedAt, endedAt, madeBefore) ?? sql`1`} AND ${isNotMadeLater(madeBefore)}
         LIMIT ${limit})`,
    )
    .returning({ id: events.id })
    .all().length;
}

/** The condition that an event was not made while the clock was wrong, or else long enough ago. */
function isNotMadeLater({ nowMs, wrong }: Ages): SQL {
  const periods = wrong.map(({ fromMs, toMs, shiftMs }) => {
    const first = firstIdAt("event", Math.max(fromMs, nowMs - shiftMs));
    return sql`d.event_id NOT BETWEEN ${first} AND ${firstIdAt("event", toMs + MAX_ID_AHEAD_MS)}`;
  });
  return and(...periods) ?? sql`1`;
}
