import { and, count, desc, eq, gte, inArray, isNull, lt, notExists, sql } from "drizzle-orm";
import type { Ages } from "../domain/clock-trust.ts";
import type { ErrorCode } from "../domain/errors.ts";
import type { Metadata } from "../domain/metadata.ts";
import type { FinalState } from "../domain/transcription.ts";
import { type EventType, eventTypeOf, type SubscribedEventType } from "../domain/webhook.ts";
import { firstIdAt, MAX_ID_AHEAD_MS, newId } from "../lib/ids.ts";
import { toTimestamp } from "../lib/time.ts";
import type { Store } from "../store/database.ts";
import { isBefore } from "../store/over.ts";
import { deliveries, events, webhookEndpoints } from "../store/schema.ts";
import type { TranscriptionRow } from "../store/transcriptions.ts";

export type WebhookEndpointRow = typeof webhookEndpoints.$inferSelect;

/** What an event reports: the transcription's final state, the error of a failed one, and what its client noted of it. */
export type FinishedTranscription = {
  id: string;
  state: FinalState;
  error?: { code: ErrorCode; message: string };
  metadata?: Metadata;
};

/** Renders the text that is stored, signed and sent (docs/interface.md section 6). */
export function eventBody({ id, state, error, metadata }: FinishedTranscription): string {
  const data = {
    ...{ id, state },
    ...(error ? { error: { code: error.code, message: error.message } } : {}),
    ...(metadata ? { metadata } : {}),
  };
  return JSON.stringify({ type: eventTypeOf(state), data });
}

/** An organization whose balance is below its threshold, whole paise. */
export type LowCredit = { organizationId: string; balancePaise: number; thresholdPaise: number };

/** Renders the text of the event `credit.low` (docs/decisions/webhooks.md). */
export function creditLowBody(low: LowCredit, nowMs: number): string {
  const type: SubscribedEventType = "credit.low";
  const data = {
    organization_id: low.organizationId,
    balance_paise: low.balancePaise,
    threshold_paise: low.thresholdPaise,
    created_at: toTimestamp(nowMs),
  };
  return JSON.stringify({ type, data });
}

/**
 * Writes an event and its delivery, due at once, in the transaction of the final state that the event reports. The
 * delivery to a disabled endpoint waits until an admin enables the endpoint. To a removed endpoint it fails at once.
 *
 * @returns the event's id, which is the `webhook-id` of each attempt
 */
export function insertEvent(
  tx: Store,
  event: { transcription: FinishedTranscription; endpointId: string; nowMs: number },
): string {
  const { transcription, endpointId, nowMs } = event;
  const { id: transcriptionId, state } = transcription;
  const body = eventBody(transcription);
  return insertDelivery(tx, { transcriptionId, endpointId, type: eventTypeOf(state), body }, nowMs);
}

/**
 * Writes an event `credit.low` for each endpoint of the organization that was registered for it, in the transaction
 * that changes the balance.
 */
export function insertCreditLowEvents(tx: Store, low: LowCredit, nowMs: number): void {
  const subscribed = tx
    .select({ id: webhookEndpoints.id, events: webhookEndpoints.events })
    .from(webhookEndpoints)
    .where(
      and(
        eq(webhookEndpoints.organizationId, low.organizationId),
        sql`events <> '[]'`,
        isNull(webhookEndpoints.removedAt),
      ),
    )
    .orderBy(webhookEndpoints.id)
    .all();
  const body = creditLowBody(low, nowMs);
  for (const { id: endpointId, events: types } of subscribed) {
    if (!types.includes("credit.low")) continue;
    insertDelivery(tx, { transcriptionId: null, endpointId, type: "credit.low", body }, nowMs);
  }
}

type NewEvent = { transcriptionId: string | null; endpointId: string; type: EventType; body: string };

function insertDelivery(tx: Store, event: NewEvent, nowMs: number): string {
  const { endpointId } = event;
  const id = newId("event", nowMs);
  tx.insert(events)
    .values({ id, ...event, createdAt: nowMs })
    .run();
  const isRemoved = findEndpoint(tx, endpointId)?.removedAt != null;
  tx.insert(deliveries)
    .values({
      eventId: id,
      endpointId,
      state: isRemoved ? "failed" : "pending",
      nextAttemptAt: isRemoved ? null : nowMs,
      failedAt: isRemoved ? nowMs : null,
    })
    .run();
  return id;
}

/**
 * Removes the metadata of a transcription from its events, in the transaction that deletes its content. What is still to be
 * delivered is delivered without it.
 */
export function forgetMetadata(tx: Store, row: TranscriptionRow): void {
  const { id, webhookEndpointId, finishedAt } = row;
  if (webhookEndpointId === null || finishedAt === null) return;
  // Events are made with the end that they report, and their identifiers begin with its time.
  tx.update(events)
    .set({ body: sql`json_remove(body, '$.data.metadata')` })
    .where(
      and(
        eq(events.endpointId, webhookEndpointId),
        gte(events.id, firstIdAt("event", finishedAt)),
        lt(events.id, firstIdAt("event", finishedAt + MAX_ID_AHEAD_MS + 1)),
        eq(events.transcriptionId, id),
      ),
    )
    .run();
}

export function insertEndpoint(tx: Store, row: typeof webhookEndpoints.$inferInsert): WebhookEndpointRow {
  return tx.insert(webhookEndpoints).values(row).returning().get();
}

export function findEndpoint(store: Store, id: string): WebhookEndpointRow | undefined {
  return store.select().from(webhookEndpoints).where(eq(webhookEndpoints.id, id)).get();
}

/** Lists endpoints that are not removed, newest first. */
export function listEndpoints(
  store: Store,
  filter: { projectId?: string; after?: string; limit: number },
): WebhookEndpointRow[] {
  const ofProject = filter.projectId ? eq(webhookEndpoints.projectId, filter.projectId) : undefined;
  const older = filter.after ? lt(webhookEndpoints.id, filter.after) : undefined;
  return store
    .select()
    .from(webhookEndpoints)
    .where(and(isNull(webhookEndpoints.removedAt), ofProject, older))
    .orderBy(desc(webhookEndpoints.id))
    .limit(filter.limit)
    .all();
}

/**
 * Removes the records of endpoints that were removed before a time and have no events any more.
 *
 * @param limit most that are removed
 * @returns how many
 */
export function deleteRemovedEndpoints(tx: Store, removedBefore: Ages, limit: number): number {
  const old = tx
    .select({ id: webhookEndpoints.id })
    .from(webhookEndpoints)
    .where(
      and(
        sql`removed_at IS NOT NULL`,
        isBefore(webhookEndpoints.removedAt, removedBefore),
        notExists(
          tx.select({ id: events.id }).from(events).where(eq(events.endpointId, webhookEndpoints.id)),
        ),
      ),
    )
    .limit(limit);
  return tx
    .delete(webhookEndpoints)
    .where(inArray(webhookEndpoints.id, old))
    .returning({ id: webhookEndpoints.id })
    .all().length;
}

/** Counts the endpoints of a project that are not removed. */
export function countEndpoints(store: Store, projectId: string): number {
  const row = store
    .select({ count: count() })
    .from(webhookEndpoints)
    .where(and(eq(webhookEndpoints.projectId, projectId), isNull(webhookEndpoints.removedAt)))
    .get();
  return row?.count ?? 0;
}

export type EndpointChanges = Partial<
  Pick<
    WebhookEndpointRow,
    "secret" | "previousSecret" | "previousSecretExpiresAt" | "disabledAt" | "disabledReason" | "removedAt"
  >
>;

/** Changes an endpoint. Returns undefined when it does not exist or is removed. */
export function updateEndpoint(
  tx: Store,
  id: string,
  changes: EndpointChanges,
): WebhookEndpointRow | undefined {
  return tx
    .update(webhookEndpoints)
    .set(changes)
    .where(and(eq(webhookEndpoints.id, id), isNull(webhookEndpoints.removedAt)))
    .returning()
    .get();
}

/** Returns the secrets that sign at a time: the current one, and the previous one until it expires. */
export function validSecrets(
  endpoint: Pick<WebhookEndpointRow, "secret" | "previousSecret" | "previousSecretExpiresAt">,
  nowMs: number,
): string[] {
  const { secret, previousSecret, previousSecretExpiresAt } = endpoint;
  return previousSecret !== null && (previousSecretExpiresAt ?? 0) > nowMs
    ? [secret, previousSecret]
    : [secret];
}
