import { and, eq, inArray, sql } from "drizzle-orm";
import type { Store } from "./database.ts";
import {
  apiKeys,
  buckets,
  events,
  idempotencyKeys,
  projects,
  transcriptions,
  uploads,
  watchedFiles,
  webhookEndpoints,
} from "./schema.ts";
import { IS_UNFINISHED } from "./transcriptions.ts";

/** What is left of an organization that is being purged. Each list is a batch: call again until it is empty. */

/**
 * Removes keys, idempotency keys, credentials of buckets, what is known of files of watched folders, and webhook endpoints with
 * their events. Returns how many keys and endpoints.
 */
export function removeAccess(tx: Store, organizationId: string): { keys: number; webhook_endpoints: number } {
  const ids = projectsOf(tx, organizationId)
    .all()
    .map(({ id }) => id);
  tx.delete(idempotencyKeys).where(inArray(idempotencyKeys.projectId, ids)).run();
  tx.delete(buckets).where(eq(buckets.organizationId, organizationId)).run();
  const keys = tx.delete(apiKeys).where(inArray(apiKeys.projectId, ids)).returning({ id: apiKeys.id }).all();
  // Names of files may say who called.
  tx.delete(watchedFiles).where(eq(watchedFiles.organizationId, organizationId)).run();
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
  return store
    .select({ id: transcriptions.id })
    .from(transcriptions)
    .where(and(IS_UNFINISHED, eq(transcriptions.organizationId, organizationId)))
    .limit(limit)
    .all()
    .map(({ id }) => id);
}

// The lists below go by project, because the indexes of content that is kept do.

/** Lists finished transcriptions whose content is not deleted. */
export function listContentOf(store: Store, organizationId: string, limit: number): string[] {
  return store
    .select({ id: transcriptions.id })
    .from(transcriptions)
    .where(
      and(
        inArray(transcriptions.projectId, projectsOf(store, organizationId)),
        sql`${transcriptions.contentDeletedAt} IS NULL`,
      ),
    )
    .limit(limit)
    .all()
    .map(({ id }) => id);
}

/** Lists uploads whose recordings are not deleted, also those that have not arrived. */
export function listRecordingsOf(store: Store, organizationId: string, limit: number): string[] {
  return store
    .select({ id: uploads.id })
    .from(uploads)
    .where(
      and(inArray(uploads.projectId, projectsOf(store, organizationId)), sql`${uploads.deletedAt} IS NULL`),
    )
    .limit(limit)
    .all()
    .map(({ id }) => id);
}

/** Lists a page of all uploads, also those whose recordings are marked as deleted, by identifier. */
export function listUploadsOf(
  store: Store,
  organizationId: string,
  after: Pick<typeof uploads.$inferSelect, "projectId" | "id"> | undefined,
  limit: number,
): Pick<typeof uploads.$inferSelect, "projectId" | "id">[] {
  const { projectId, id } = uploads;
  return store
    .select({ projectId, id })
    .from(uploads)
    .where(
      and(
        inArray(projectId, projectsOf(store, organizationId)),
        after && sql`(${projectId}, ${id}) > (${after.projectId}, ${after.id})`,
      ),
    )
    .orderBy(projectId, id)
    .limit(limit)
    .all();
}

const projectsOf = (store: Store, organizationId: string) =>
  store.select({ id: projects.id }).from(projects).where(eq(projects.organizationId, organizationId));
