import { and, asc, count, eq, isNotNull, sql } from "drizzle-orm";
import type { Store } from "./database.ts";
import { isDue } from "./due.ts";
import { prepared } from "./prepared.ts";
import { fetches } from "./schema.ts";
import { findUpload, type UploadRow } from "./uploads.ts";

export type FetchRow = typeof fetches.$inferSelect;
/** Columns that an attempt changes. */
export type FetchChange = Partial<
  Pick<FetchRow, "totalBytes" | "validator" | "attempts" | "nextAttemptAt" | "reason">
>;

export function insertFetch(tx: Store, row: typeof fetches.$inferInsert): FetchRow {
  return tx.insert(fetches).values(row).returning().get();
}

const selectFetch = prepared((store: Store) =>
  store
    .select()
    .from(fetches)
    .where(eq(fetches.transcriptionId, sql.placeholder("transcriptionId")))
    .prepare(),
);

/** Finds the fetch of a transcription's recording; undefined: it was sent, or its content is deleted. */
export function findFetch(store: Store, transcriptionId: string): FetchRow | undefined {
  return selectFetch(store).get({ transcriptionId });
}

/** Finds the fetch that has brought the recording of an upload. */
export function findFetchOfUpload(store: Store, uploadId: string): FetchRow | undefined {
  return store.select().from(fetches).where(eq(fetches.uploadId, uploadId)).limit(1).get();
}

/** Changes a fetch that has not ended. Returns false when it has. */
export function updateFetch(tx: Store, transcriptionId: string, change: FetchChange): boolean {
  const isOpen = and(eq(fetches.transcriptionId, transcriptionId), isNotNull(fetches.nextAttemptAt));
  const changed = tx.update(fetches).set(change).where(isOpen).returning({ id: fetches.transcriptionId });
  return changed.all().length > 0;
}

/** Ends a fetch: its whole address is forgotten. */
export function endFetch(tx: Store, transcriptionId: string): void {
  tx.update(fetches)
    .set({ sealedAddress: null, validator: null, nextAttemptAt: null })
    .where(eq(fetches.transcriptionId, transcriptionId))
    .run();
}

/** Removes what is known of where a recording came from. It goes with the content of the transcription. */
export function deleteFetch(tx: Store, transcriptionId: string): void {
  tx.delete(fetches).where(eq(fetches.transcriptionId, transcriptionId)).run();
}

/** Counts the fetches that have not ended. */
export function countOpenFetches(store: Store): number {
  const [row] = store.select({ count: count() }).from(fetches).where(sql`next_attempt_at IS NOT NULL`).all();
  return row?.count ?? 0;
}

/** Lists the organizations with fetches that are due. */
export function organizationsWithFetches(store: Store, nowMs: number): string[] {
  return store
    .selectDistinct({ id: fetches.organizationId })
    .from(fetches)
    .where(and(sql`next_attempt_at IS NOT NULL`, isDue(fetches.nextAttemptAt, nowMs)))
    .all()
    .map(({ id }) => id);
}

/** Lists due fetches of an organization, the one that waits longest first. */
export function listDueFetches(
  store: Store,
  organizationId: string,
  nowMs: number,
  limit: number,
): FetchRow[] {
  return store
    .select()
    .from(fetches)
    .where(
      and(
        sql`next_attempt_at IS NOT NULL`,
        eq(fetches.organizationId, organizationId),
        isDue(fetches.nextAttemptAt, nowMs),
      ),
    )
    .orderBy(asc(fetches.nextAttemptAt))
    .limit(limit)
    .all();
}

/** A fetch with its upload. */
export type FetchAndUpload = { fetch: FetchRow; upload: UploadRow };

/** Finds a fetch and its upload as they are now; undefined when one of them is gone. */
export function findFetchAndUpload(store: Store, transcriptionId: string): FetchAndUpload | undefined {
  const fetch = findFetch(store, transcriptionId);
  const upload = fetch && findUpload(store, fetch.uploadId);
  return fetch && upload ? { fetch, upload } : undefined;
}
