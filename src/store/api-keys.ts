import { and, asc, eq, gt, isNull, min, sql } from "drizzle-orm";
import type { Store } from "./database.ts";
import { prepared } from "./prepared.ts";
import { apiKeys, organizations, projects } from "./schema.ts";

export type ApiKeyRow = typeof apiKeys.$inferSelect;

/** What authentication reads of a key and its organization. */
export type KeyHolder = {
  keyId: string;
  hash: string;
  scopes: ApiKeyRow["scopes"];
  createdAt: number;
  lastUsedAt: number | null;
  expiresAt: number | null;
  revokedAt: number | null;
  projectId: string;
  organizationId: string;
  organizationDisabledAt: number | null;
  requestsPerSecond: number | null;
};

export function insertApiKey(tx: Store, row: Omit<ApiKeyRow, "lastUsedAt" | "revokedAt">): ApiKeyRow {
  return tx.insert(apiKeys).values(row).returning().get();
}

const selectHolder = prepared((store: Store) =>
  store
    .select({
      keyId: apiKeys.id,
      hash: apiKeys.hash,
      scopes: apiKeys.scopes,
      createdAt: apiKeys.createdAt,
      lastUsedAt: apiKeys.lastUsedAt,
      expiresAt: apiKeys.expiresAt,
      revokedAt: apiKeys.revokedAt,
      projectId: apiKeys.projectId,
      organizationId: projects.organizationId,
      organizationDisabledAt: organizations.disabledAt,
      requestsPerSecond: organizations.requestsPerSecond,
    })
    .from(apiKeys)
    .innerJoin(projects, eq(projects.id, apiKeys.projectId))
    .innerJoin(organizations, eq(organizations.id, projects.organizationId))
    .where(eq(apiKeys.publicId, sql.placeholder("publicId")))
    .prepare(),
);

/** Finds a key and its organization for authentication. */
export function findKeyHolder(store: Store, publicId: string): KeyHolder | undefined {
  return selectHolder(store).get({ publicId });
}

export function findApiKey(store: Store, id: string): ApiKeyRow | undefined {
  return store.select().from(apiKeys).where(eq(apiKeys.id, id)).get();
}

/** Keys, oldest first, of a project, of an organization or of all. */
export function listApiKeys(
  store: Store,
  filter: { projectId?: string; organizationId?: string } = {},
): (ApiKeyRow & { organizationId: string })[] {
  return store
    .select({ key: apiKeys, organizationId: projects.organizationId })
    .from(apiKeys)
    .innerJoin(projects, eq(projects.id, apiKeys.projectId))
    .where(
      and(
        filter.projectId === undefined ? undefined : eq(apiKeys.projectId, filter.projectId),
        filter.organizationId === undefined ? undefined : eq(projects.organizationId, filter.organizationId),
      ),
    )
    .orderBy(asc(apiKeys.id))
    .all()
    .map(({ key, organizationId }) => ({ ...key, organizationId }));
}

/** Revokes a valid key; undefined when it was revoked already or there is none. */
export function markApiKeyRevoked(tx: Store, id: string, nowMs: number): ApiKeyRow | undefined {
  return tx
    .update(apiKeys)
    .set({ revokedAt: nowMs })
    .where(and(eq(apiKeys.id, id), isNull(apiKeys.revokedAt)))
    .returning()
    .get();
}

/** Notes when a key was last used; never goes back. */
export function markApiKeyUsed(tx: Store, id: string, usedAt: number): void {
  tx.update(apiKeys)
    .set({ lastUsedAt: usedAt })
    .where(and(eq(apiKeys.id, id), sql`coalesce(${apiKeys.lastUsedAt}, 0) < ${usedAt}`))
    .run();
}

/** Returns when the next of the keys that hold now ends, epoch milliseconds; undefined: none of them does. */
export function nextKeyEnd(store: Store, nowMs: number): number | undefined {
  const found = store
    .select({ at: min(apiKeys.expiresAt) })
    .from(apiKeys)
    .where(and(isNull(apiKeys.revokedAt), gt(apiKeys.expiresAt, nowMs)))
    .get();
  return found?.at ?? undefined;
}
