import { and, asc, eq, sql } from "drizzle-orm";
import type { Store } from "./database.ts";
import { isDue } from "./due.ts";
import { prepared } from "./prepared.ts";
import { resultCopies } from "./schema.ts";

export type ResultCopyRow = typeof resultCopies.$inferSelect;
/** Columns that an attempt changes. */
export type ResultCopyChange = Partial<
  Pick<ResultCopyRow, "attempts" | "nextAttemptAt" | "writtenAt" | "reason">
>;

export function insertResultCopy(tx: Store, row: typeof resultCopies.$inferInsert): void {
  tx.insert(resultCopies).values(row).run();
}

const selectCopy = prepared((store: Store) =>
  store
    .select()
    .from(resultCopies)
    .where(eq(resultCopies.transcriptionId, sql.placeholder("transcriptionId")))
    .prepare(),
);

/** Finds where the result of a transcription is written, too; undefined: nowhere, or its content is deleted. */
export function findResultCopy(store: Store, transcriptionId: string): ResultCopyRow | undefined {
  return selectCopy(store).get({ transcriptionId });
}

/**
 * Lets the result of a transcription that ends be written, where that was asked for. In the transaction of its end.
 *
 * @param nowMs undefined: it ends without a result, and nothing will be written
 */
export function startResultCopy(tx: Store, transcriptionId: string, nowMs: number | undefined): void {
  if (nowMs === undefined) return;
  tx.update(resultCopies)
    .set({ nextAttemptAt: nowMs })
    .where(eq(resultCopies.transcriptionId, transcriptionId))
    .run();
}

/** Changes a copy that has not ended. Returns false when it has, or its transcript is deleted. */
export function updateResultCopy(tx: Store, transcriptionId: string, change: ResultCopyChange): boolean {
  const isOpen = and(
    eq(resultCopies.transcriptionId, transcriptionId),
    sql`${resultCopies.nextAttemptAt} IS NOT NULL`,
  );
  const changed = tx.update(resultCopies).set(change).where(isOpen).returning({ id: resultCopies.target });
  return changed.all().length > 0;
}

/** Removes what is known of where a result is written. It goes with the content of the transcription. */
export function deleteResultCopy(tx: Store, transcriptionId: string): void {
  tx.delete(resultCopies).where(eq(resultCopies.transcriptionId, transcriptionId)).run();
}

/** Lists the organizations with results that are to be written now. */
export function organizationsWithCopies(store: Store, nowMs: number): string[] {
  return store
    .selectDistinct({ id: resultCopies.organizationId })
    .from(resultCopies)
    .where(and(sql`next_attempt_at IS NOT NULL`, isDue(resultCopies.nextAttemptAt, nowMs)))
    .all()
    .map(({ id }) => id);
}

/** Lists results of an organization that are to be written now, the one that waits longest first. */
export function listDueCopies(
  store: Store,
  organizationId: string,
  nowMs: number,
  limit: number,
): ResultCopyRow[] {
  return store
    .select()
    .from(resultCopies)
    .where(
      and(
        sql`next_attempt_at IS NOT NULL`,
        eq(resultCopies.organizationId, organizationId),
        isDue(resultCopies.nextAttemptAt, nowMs),
      ),
    )
    .orderBy(asc(resultCopies.nextAttemptAt))
    .limit(limit)
    .all();
}
