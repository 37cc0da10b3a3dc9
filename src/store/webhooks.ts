import { and, count, desc, eq, isNull } from "drizzle-orm";
import type { ErrorCode } from "../domain/errors.ts";
import type { FinalState } from "../domain/transcription.ts";
import { eventTypeOf } from "../domain/webhook.ts";
import { newId } from "../lib/ids.ts";
import type { Store } from "./database.ts";
import { deliveries, events, webhookEndpoints } from "./schema.ts";

export type WebhookEndpointRow = typeof webhookEndpoints.$inferSelect;

/** What an event tells: the transcription's final state and, where it failed, why. */
export type FinishedTranscription = {
  id: string;
  state: FinalState;
  error?: { code: ErrorCode; message: string };
};

/** The exact text that is stored, signed and sent (docs/interface.md section 6). */
export function eventBody({ id, state, error }: FinishedTranscription): string {
  const data = error ? { id, state, error: { code: error.code, message: error.message } } : { id, state };
  return JSON.stringify({ type: eventTypeOf(state), data });
}

/**
 * The outbox: event and delivery, due at once, in the caller's transaction, so that neither exists without
 * the final state it tells of. The event of a disabled endpoint waits until the endpoint is enabled; that of
 * a removed one has failed from the start.
 *
 * @returns the event's id, which is the `webhook-id` of every attempt
 */
export function insertEvent(
  tx: Store,
  event: { transcription: FinishedTranscription; endpointId: string; nowMs: number },
): string {
  const { transcription, endpointId, nowMs } = event;
  const id = newId("event", nowMs);
  tx.insert(events)
    .values({
      id,
      transcriptionId: transcription.id,
      endpointId,
      type: eventTypeOf(transcription.state),
      body: eventBody(transcription),
      createdAt: nowMs,
    })
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

export function insertEndpoint(tx: Store, row: typeof webhookEndpoints.$inferInsert): WebhookEndpointRow {
  return tx.insert(webhookEndpoints).values(row).returning().get();
}

export function findEndpoint(store: Store, id: string): WebhookEndpointRow | undefined {
  return store.select().from(webhookEndpoints).where(eq(webhookEndpoints.id, id)).get();
}

/** Endpoints that are not removed, newest first. */
export function listEndpoints(
  store: Store,
  filter: { projectId?: string; limit: number },
): WebhookEndpointRow[] {
  const ofProject = filter.projectId ? eq(webhookEndpoints.projectId, filter.projectId) : undefined;
  return store
    .select()
    .from(webhookEndpoints)
    .where(and(isNull(webhookEndpoints.removedAt), ofProject))
    .orderBy(desc(webhookEndpoints.id))
    .limit(filter.limit)
    .all();
}

/** How many endpoints of a project are not removed. */
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

/** Changes an endpoint that is not removed; undefined where there is none. */
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

/** The secrets that sign at a time: the current one, then the previous one while a rotation lasts. */
export function validSecrets(
  endpoint: Pick<WebhookEndpointRow, "secret" | "previousSecret" | "previousSecretExpiresAt">,
  nowMs: number,
): string[] {
  const { secret, previousSecret, previousSecretExpiresAt } = endpoint;
  return previousSecret !== null && (previousSecretExpiresAt ?? 0) > nowMs
    ? [secret, previousSecret]
    : [secret];
}
