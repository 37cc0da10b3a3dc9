import { and, asc, eq } from "drizzle-orm";
import type { Store } from "./database.ts";
import { buckets } from "./schema.ts";

export type BucketRow = typeof buckets.$inferSelect;

/** Stores a bucket, or replaces what is stored of it. Returns the row before; undefined: it is new. */
export function putBucket(tx: Store, row: typeof buckets.$inferInsert): BucketRow | undefined {
  const before = findBucket(tx, row.organizationId, row.name);
  tx.insert(buckets)
    .values(row)
    .onConflictDoUpdate({ target: [buckets.organizationId, buckets.name], set: row })
    .run();
  return before;
}

export function findBucket(store: Store, organizationId: string, name: string): BucketRow | undefined {
  return store
    .select()
    .from(buckets)
    .where(and(eq(buckets.organizationId, organizationId), eq(buckets.name, name)))
    .get();
}

/** Lists the buckets of one organization or of all, by organization and name. */
export function listBuckets(store: Store, organizationId?: string): BucketRow[] {
  return store
    .select()
    .from(buckets)
    .where(organizationId === undefined ? undefined : eq(buckets.organizationId, organizationId))
    .orderBy(asc(buckets.organizationId), asc(buckets.name))
    .all();
}

/** Removes a bucket with its credentials. Returns false when there is none. */
export function deleteBucket(tx: Store, organizationId: string, name: string): boolean {
  return (
    tx
      .delete(buckets)
      .where(and(eq(buckets.organizationId, organizationId), eq(buckets.name, name)))
      .returning({ name: buckets.name })
      .all().length > 0
  );
}
