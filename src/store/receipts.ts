import type { Database as SqliteDatabase } from "bun:sqlite";
import { and, asc, desc, eq, gt, gte, inArray, isNull, or, sql } from "drizzle-orm";
import type { Store } from "./database.ts";
import { rowsOnce } from "./once.ts";
import { receipts } from "./schema.ts";

export type ReceiptRow = typeof receipts.$inferSelect;

export function insertReceipt(tx: Store, row: ReceiptRow): void {
  tx.insert(receipts).values(row).onConflictDoNothing().run();
}

export function hasReceipt(store: Store, id: string): boolean {
  return store.select({ id: receipts.id }).from(receipts).where(eq(receipts.id, id)).get() !== undefined;
}

/** Finds receipts by their own identifier or by that of what was deleted, oldest first. */
export function findReceipts(store: Store, id: string): ReceiptRow[] {
  return store
    .select()
    .from(receipts)
    .where(or(eq(receipts.id, id), eq(receipts.object, id)))
    .orderBy(asc(receipts.id))
    .all();
}

/** Lists receipts, newest first. */
export function listReceipts(
  store: Store,
  { organizationId, limit }: { organizationId?: string; limit: number },
): ReceiptRow[] {
  return store
    .select()
    .from(receipts)
    .where(organizationId === undefined ? undefined : eq(receipts.organizationId, organizationId))
    .orderBy(desc(receipts.id))
    .limit(limit)
    .all();
}

const PAGE = 500;

/** Iterates over the receipts of an organization, oldest first. Memory does not grow with their number. */
export function* exportReceipts(store: Store, organizationId: string): Generator<ReceiptRow> {
  for (let after = ""; ; ) {
    const page = store
      .select()
      .from(receipts)
      .where(and(eq(receipts.organizationId, organizationId), gt(receipts.id, after)))
      .orderBy(asc(receipts.id))
      .limit(PAGE)
      .all();
    yield* page;
    const last = page.at(-1);
    if (page.length < PAGE || !last) return;
    after = last.id;
  }
}

/** Counts the transcripts and the recordings of an organization that were deleted since a time, by their receipts. */
export function countDeletedSince(
  store: Store,
  organizationId: string,
  sinceMs: number,
): { transcriptions: number; recordings: number } {
  const row = store
    .select({
      transcriptions: sql<number>`coalesce(sum(json_extract(signed, '$.document.deleted.kind') = 'transcription'), 0)`,
      recordings: sql<number>`coalesce(sum(json_type(signed, '$.document.recording') = 'object'), 0)`,
    })
    .from(receipts)
    .where(and(eq(receipts.organizationId, organizationId), gte(receipts.createdAt, sinceMs)))
    .get();
  return row ?? { transcriptions: 0, recordings: 0 };
}

/** Lists receipts that are not yet in the file beside the database, oldest first. */
export function listUnmirrored(store: Store, limit: number): ReceiptRow[] {
  return store
    .select()
    .from(receipts)
    .where(isNull(receipts.mirroredAt))
    .orderBy(asc(receipts.id))
    .limit(limit)
    .all();
}

/**
 * Does the same as `listUnmirrored` in a file that is moved afterwards, of any version that has receipts.
 *
 * @param after identifier of the last receipt of the page before; empty: the first page
 */
export function listUnmirroredOnce(
  sqlite: SqliteDatabase,
  after: string,
  limit: number,
): Pick<ReceiptRow, "id" | "signed">[] {
  return rowsOnce(
    sqlite,
    "SELECT id, signed FROM receipts WHERE mirrored_at IS NULL AND id > ? ORDER BY id LIMIT ?",
    ...[after, limit],
  );
}

export function markMirrored(tx: Store, ids: readonly string[], nowMs: number): void {
  tx.update(receipts)
    .set({ mirroredAt: nowMs })
    .where(inArray(receipts.id, [...ids]))
    .run();
}
