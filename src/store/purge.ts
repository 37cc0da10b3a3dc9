import { and, asc, eq, inArray, isNull } from "drizzle-orm";
import { UNFINISHED_STATES } from "../domain/transcription.ts";
import type { Store } from "./database.ts";
import {
  apiKeys,
  events,
  idempotencyKeys,
  projects,
  transcriptions,
  uploads,
  webhookEndpoints,
} from "./schema.ts";

/** What is left of an organization that is being purged. Each list is a batch: call again until it is empty. */

/** Removes keys, idempotency keys, and webhook endpoints with their events. Returns how many keys and endpoints. */
export function removeAccess(tx: Store, organizationId: string): { keys: number; webhook_endpoints: number } {
  const own = tx
    .select({ id: projects.id })
    .from(projects)
    .where(eq(projects.organizationId, organizationId));
  const ids = own.all().map(({ id }) => id);
  tx.delete(idempotencyKeys).where(inArray(idempotencyKeys.projectId, ids)).run();
  const keys = tx.delete(apiKeys).where(inArray(apiKeys.projectId, ids)).returning({ id: apiKeys.id }).all();
  const endpoints = tx
    .select({ id: webhookEndpoints.id })
    .from(webhookEndpoints)
    .where(eq(webhookEndpoints.organizationId, organizationId));
  // Deliveries and their attempts go with their events.
  tx.delete(events).where(inArray(events.endpointId, endpoints)).run();
  const gone = tx
    .delete(webhookEndpoints)
    .where(eq(webhookEndpoints.organizationId, organizationId))
    .returning({ id: webhookEndpoints.id })
    .all();
  return { keys: keys.length, webhook_endpoints: gone.length };
}

export function listUnfinishedOf(store: Store, organizationId: string, limit: number): string[] {
  const isUnfinished = inArray(transcriptions.state, [...UNFINISHED_STATES]);
  return store
    .select({ id: transcriptions.id })
    .from(transcriptions)
    .where(and(eq(transcriptions.organizationId, organizationId), isUnfinished))
    .limit(limit)
    .all()
    .map(({ id }) => id);
}

/** Lists finished transcriptions whose content is not deleted. */
export function listContentOf(store: Store, organizationId: string, limit: number): string[] {
  return store
    .select({ id: transcriptions.id })
    .from(transcriptions)
    .where(and(eq(transcriptions.organizationId, organizationId), isNull(transcriptions.contentDeletedAt)))
    .orderBy(asc(transcriptions.id))
    .limit(limit)
    .all()
    .map(({ id }) => id);
}

/** Lists uploads whose recordings are not deleted, also those that have not arrived. */
export function listRecordingsOf(store: Store, organizationId: string, limit: number): string[] {
  return store
    .select({ id: uploads.id })
    .from(uploads)
    .where(and(eq(uploads.organizationId, organizationId), isNull(uploads.deletedAt)))
    .orderBy(asc(uploads.id))
    .limit(limit)
    .all()
    .map(({ id }) => id);
}
