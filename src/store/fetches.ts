import { and, asc, count, eq, gt, type SQL, sql } from "drizzle-orm";
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

/** When a fetch is due that is not wanted any more: before all others. */
const UNWANTED_AT = 0;

/** Changes a fetch that has not ended and is wanted. Returns false when there is none. */
export function updateFetch(tx: Store, transcriptionId: string, change: FetchChange): boolean {
  const isWanted = and(eq(fetches.transcriptionId, transcriptionId), gt(fetches.nextAttemptAt, UNWANTED_AT));
  const changed = tx.update(fetches).set(change).where(isWanted).returning({ id: fetches.transcriptionId });
  return changed.all().length > 0;
}

/**
 * Marks a fetch whose transcription has ended, so that its end does not wait until the next attempt is due. Does nothing to one
 * that has ended.
 */
export function markFetchUnwanted(tx: Store, transcriptionId: string): void {
  tx.update(fetches)
    .set({ nextAttemptAt: UNWANTED_AT })
    .where(and(eq(fetches.transcriptionId, transcriptionId), sql`next_attempt_at IS NOT NULL`))
    .run();
}

/** Lists fetches that are marked so. Returns the identifiers of their transcriptions. */
export function listUnwantedFetches(store: Store, limit: number): string[] {
  const isUnwanted = and(sql`next_attempt_at IS NOT NULL`, eq(fetches.nextAttemptAt, UNWANTED_AT));
  const rows = store
    .select({ id: fetches.transcriptionId })
    .from(fetches)
    .where(isUnwanted)
    .limit(limit)
    .all();
  return rows.map(({ id }) => id);
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

/** The condition that the next attempt of a wanted fetch is due. Its first part is that of the index. */
const isAttemptDue = (nowMs: number): SQL | undefined =>
  and(
    sql`next_attempt_at IS NOT NULL`,
    gt(fetches.nextAttemptAt, UNWANTED_AT),
    isDue(fetches.nextAttemptAt, nowMs),
  );

/** Lists the organizations with fetches that are due. */
export function organizationsWithFetches(store: Store, nowMs: number): string[] {
  return store
    .selectDistinct({ id: fetches.organizationId })
    .from(fetches)
    .where(isAttemptDue(nowMs))
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
    .where(and(eq(fetches.organizationId, organizationId), isAttemptDue(nowMs)))
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
