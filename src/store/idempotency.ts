import { and, eq, inArray, lte } from "drizzle-orm";
import type { Submission } from "../domain/transcription.ts";
import type { Store } from "./database.ts";
import { idempotencyKeys } from "./schema.ts";

export type IdempotencyRow = typeof idempotencyKeys.$inferSelect;
export type IdempotencyScope = { projectId: string; submission: Submission; key: string };

/** Finds the accepted request of a key, unless the key has expired. */
export function findIdempotencyKey(
  store: Store,
  scope: IdempotencyScope,
  nowMs: number,
): IdempotencyRow | undefined {
  const row = store.select().from(idempotencyKeys).where(matches(scope)).get();
  return row && row.expiresAt > nowMs ? row : undefined;
}

/** Stores an accepted request under its key. Replaces an expired one. */
export function insertIdempotencyKey(tx: Store, row: IdempotencyRow): void {
  tx.delete(idempotencyKeys)
    .where(and(matches(row), lte(idempotencyKeys.expiresAt, row.createdAt)))
    .run();
  tx.insert(idempotencyKeys).values(row).run();
}

/** Removes expired keys, at most `limit`. Returns how many. */
export function deleteExpiredIdempotencyKeys(tx: Store, nowMs: number, limit: number): number {
  const due = tx
    .select({ id: idempotencyKeys.transcriptionId })
    .from(idempotencyKeys)
    .where(lte(idempotencyKeys.expiresAt, nowMs))
    .limit(limit)
    .all();
  if (due.length === 0) return 0;
  const ids = due.map(({ id }) => id);
  tx.delete(idempotencyKeys)
    .where(and(inArray(idempotencyKeys.transcriptionId, ids), lte(idempotencyKeys.expiresAt, nowMs)))
    .run();
  return due.length;
}

function matches(scope: IdempotencyScope) {
  return and(
    eq(idempotencyKeys.projectId, scope.projectId),
    eq(idempotencyKeys.submission, scope.submission),
    eq(idempotencyKeys.key, scope.key),
  );
}
