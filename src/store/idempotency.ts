import { and, eq, inArray } from "drizzle-orm";
import { type Ages, isOver } from "../domain/clock-trust.ts";
import type { Submission } from "../domain/transcription.ts";
import type { Store } from "./database.ts";
import { isOver as isOverIn } from "./over.ts";
import { idempotencyKeys } from "./schema.ts";

export type IdempotencyRow = typeof idempotencyKeys.$inferSelect;
/** To whom a key belongs: the project, and among its keys those of a kind of submission. */
export type IdempotencyOwner = { projectId: string; submission: Submission; key: string };

/**
 * Finds the accepted request of a key, unless the key has expired.
 *
 * @param ages undefined: the clock is in doubt, and no key has expired
 */
export function findIdempotencyKey(
  store: Store,
  owner: IdempotencyOwner,
  ages: Ages | undefined,
): IdempotencyRow | undefined {
  const row = store.select().from(idempotencyKeys).where(matches(owner)).get();
  return row && ages && isOver(row.createdAt, row.expiresAt, ages) ? undefined : row;
}

/** Stores an accepted request under its key. Replaces an expired one, which `findIdempotencyKey` does not find. */
export function insertIdempotencyKey(tx: Store, row: IdempotencyRow, ages: Ages | undefined): void {
  if (ages)
    tx.delete(idempotencyKeys)
      .where(and(matches(row), isExpired(ages)))
      .run();
  tx.insert(idempotencyKeys).values(row).run();
}

/** Removes expired keys, at most `limit`. Returns how many. */
export function deleteExpiredIdempotencyKeys(tx: Store, ages: Ages, limit: number): number {
  const due = tx
    .select({ id: idempotencyKeys.transcriptionId })
    .from(idempotencyKeys)
    .where(isExpired(ages))
    .limit(limit)
    .all();
  if (due.length === 0) return 0;
  const ids = due.map(({ id }) => id);
  tx.delete(idempotencyKeys)
    .where(and(inArray(idempotencyKeys.transcriptionId, ids), isExpired(ages)))
    .run();
  return due.length;
}

const isExpired = (ages: Ages) => isOverIn(idempotencyKeys.createdAt, idempotencyKeys.expiresAt, ages);

function matches(owner: IdempotencyOwner) {
  return and(
    eq(idempotencyKeys.projectId, owner.projectId),
    eq(idempotencyKeys.submission, owner.submission),
    eq(idempotencyKeys.key, owner.key),
  );
}
