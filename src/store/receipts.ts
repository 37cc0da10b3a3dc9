import { asc, desc, eq, inArray, isNull, or } from "drizzle-orm";
import type { Store } from "./database.ts";
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

export function markMirrored(tx: Store, ids: readonly string[], nowMs: number): void {
  tx.update(receipts)
    .set({ mirroredAt: nowMs })
    .where(inArray(receipts.id, [...ids]))
    .run();
}
