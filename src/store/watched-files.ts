import { and, asc, count, eq, gt, inArray, sql } from "drizzle-orm";
import type { Ages } from "../domain/clock-trust.ts";
import { canMoveWatchedFile, type WatchedFileState } from "../domain/watched-file.ts";
import type { Store } from "./database.ts";
import { isBefore } from "./over.ts";
import { prepared } from "./prepared.ts";
import { watchedFiles } from "./schema.ts";

/** Files of watched folders that were taken. */
export type WatchedFileRow = typeof watchedFiles.$inferSelect;
/** What identifies a file: a file of the same name that was changed is another one. */
export type FileIdentity = Pick<WatchedFileRow, "folder" | "name" | "bytes" | "changedUs">;
export type WatchedFileChange = Partial<
  Pick<WatchedFileRow, "uploadId" | "transcriptionId" | "resultName" | "movedTo" | "reason" | "sha256">
>;

/** Adds a file. Undefined: it was taken before. */
export function insertWatchedFile(
  tx: Store,
  row: typeof watchedFiles.$inferInsert,
): WatchedFileRow | undefined {
  return tx.insert(watchedFiles).values(row).onConflictDoNothing().returning().get();
}

const selectByIdentity = prepared((store: Store) =>
  store
    .select({ number: watchedFiles.number })
    .from(watchedFiles)
    .where(
      and(
        eq(watchedFiles.folder, sql.placeholder("folder")),
        eq(watchedFiles.name, sql.placeholder("name")),
        eq(watchedFiles.bytes, sql.placeholder("bytes")),
        eq(watchedFiles.changedUs, sql.placeholder("changedUs")),
      ),
    )
    .prepare(),
);

/** Reports whether a file was taken before, whatever became of it. */
export function isWatchedFileKnown(store: Store, identity: FileIdentity): boolean {
  return selectByIdentity(store).get(identity) !== undefined;
}

export function findWatchedFile(store: Store, number: number): WatchedFileRow | undefined {
  return store.select().from(watchedFiles).where(eq(watchedFiles.number, number)).get();
}

/**
 * Moves a file to another state by compare-and-set, or changes columns in its state.
 *
 * @returns the row afterwards; undefined when its state was another one
 */
export function moveWatchedFile(
  tx: Store,
  { number, state }: Pick<WatchedFileRow, "number" | "state">,
  to: WatchedFileState,
  nowMs: number,
  change: WatchedFileChange = {},
): WatchedFileRow | undefined {
  if (!canMoveWatchedFile(state, to)) throw new Error(`a watched file cannot move from ${state} to ${to}`);
  return tx
    .update(watchedFiles)
    .set({ ...change, state: to, updatedAt: nowMs })
    .where(and(eq(watchedFiles.number, number), eq(watchedFiles.state, state)))
    .returning()
    .get();
}

/** Forgets a file, so that it is taken again where it is still there. Returns whether it was in this state. */
export function deleteWatchedFile(
  tx: Store,
  { number, state }: Pick<WatchedFileRow, "number" | "state">,
): boolean {
  const found = and(eq(watchedFiles.number, number), eq(watchedFiles.state, state));
  return tx.delete(watchedFiles).where(found).returning({ number: watchedFiles.number }).all().length > 0;
}

/** Condition for which the index of unfinished files is used. */
const IS_UNFINISHED = sql`state NOT IN ('done', 'failed')`;

/** Lists files with which the server still has something to do, oldest first. */
export function listUnfinishedFiles(store: Store): WatchedFileRow[] {
  return store.select().from(watchedFiles).where(IS_UNFINISHED).orderBy(asc(watchedFiles.number)).all();
}

/** Lists failed files of a folder, or of all, newest first. */
export function listFailedFiles(store: Store, limit: number, folder?: string): WatchedFileRow[] {
  return store
    .select()
    .from(watchedFiles)
    .where(and(sql`state = 'failed'`, folder === undefined ? undefined : eq(watchedFiles.folder, folder)))
    .orderBy(sql`number DESC`)
    .limit(limit)
    .all();
}

/** Lists files that were done or had failed before some time, by number, beginning after one. */
export function listEndedFiles(
  store: Store,
  endedBefore: Ages,
  after: number,
  limit: number,
): WatchedFileRow[] {
  return store
    .select()
    .from(watchedFiles)
    .where(
      and(
        sql`state IN ('done', 'failed')`,
        isBefore(watchedFiles.updatedAt, endedBefore),
        gt(watchedFiles.number, after),
      ),
    )
    .orderBy(asc(watchedFiles.number))
    .limit(limit)
    .all();
}

/** Counts the files of each folder and state. */
export function countWatchedFiles(
  store: Store,
): { folder: string; state: WatchedFileState; count: number }[] {
  return store
    .select({ folder: watchedFiles.folder, state: watchedFiles.state, count: count() })
    .from(watchedFiles)
    .groupBy(watchedFiles.folder, watchedFiles.state)
    .all();
}

/** Counts failed files of all folders. */
export function countFailedFiles(store: Store): number {
  const [row] = store.select({ count: count() }).from(watchedFiles).where(sql`state = 'failed'`).all();
  return row?.count ?? 0;
}

/** Lists what was taken under one name of a folder, newest first. */
export function listWatchedVersions(store: Store, folder: string, name: string): WatchedFileRow[] {
  return store
    .select()
    .from(watchedFiles)
    .where(and(eq(watchedFiles.folder, folder), eq(watchedFiles.name, name)))
    .orderBy(sql`number DESC`)
    .all();
}

/** Lists the names of the files of a folder that have written results, or will write them, under one of some names. */
export function listResultOwners(
  store: Store,
  folder: string,
  resultNames: readonly string[],
): { name: string; resultName: string | null }[] {
  return store
    .select({ name: watchedFiles.name, resultName: watchedFiles.resultName })
    .from(watchedFiles)
    .where(
      and(
        eq(watchedFiles.folder, folder),
        sql`result_name IS NOT NULL`,
        inArray(watchedFiles.resultName, [...resultNames]),
      ),
    )
    .all();
}
