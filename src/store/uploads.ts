import { and, asc, count, desc, eq, gt, gte, inArray, isNull, notExists, or, sql } from "drizzle-orm";
import type { Ages } from "../domain/clock-trust.ts";
import { FIRST_TRACK, type Reading } from "../domain/reading.ts";
import { UNFINISHED_STATES } from "../domain/transcription.ts";
import {
  nextUploadState,
  type UploadState,
  type UploadTrigger,
  uploadStatesAllowing,
} from "../domain/upload.ts";
import { firstIdAt } from "../lib/ids.ts";
import type { Store } from "./database.ts";
import { withMove } from "./history.ts";
import { isBefore, isOver } from "./over.ts";
import { prepared } from "./prepared.ts";
import { apiKeys, organizations, transcriptions, uploads } from "./schema.ts";

export type UploadRow = typeof uploads.$inferSelect;
export type NewUploadRow = typeof uploads.$inferInsert;
/** Columns that a move may set beside the state. */
export type UploadChanges = Partial<
  Pick<
    UploadRow,
    | "finishedAt"
    | "durationMs"
    | "channels"
    | "sampleRateHz"
    | "truncated"
    | "errorCode"
    | "errorMessage"
    | "deletedAt"
    | "storedSha256"
    | "spaceBytes"
    | "reading"
  >
>;

/** Sets how the file of an upload is read that still takes bytes. Returns whether it does. */
export function setReading(tx: Store, id: string, reading: Reading): boolean {
  const isReceiving = and(eq(uploads.id, id), eq(uploads.state, "allocated"));
  return (
    tx.update(uploads).set({ reading }).where(isReceiving).returning({ id: uploads.id }).all().length > 0
  );
}

/** Returns how the file of a verified upload is read. Older versions took the first audio track. */
export const readingOf = ({ reading }: Pick<UploadRow, "reading">): Reading => reading ?? FIRST_TRACK;

export function insertUpload(tx: Store, row: NewUploadRow): UploadRow {
  return tx.insert(uploads).values(row).returning().get();
}

const selectById = prepared((store: Store) =>
  store
    .select()
    .from(uploads)
    .where(eq(uploads.id, sql.placeholder("id")))
    .prepare(),
);

export function findUpload(store: Store, id: string): UploadRow | undefined {
  return selectById(store).get({ id });
}

/** What the check of an upload token reads: the upload, its organization, and the key that made it. */
export type UploadBearer = {
  upload: UploadRow;
  organizationDisabledAt: number | null;
  /** Null when no key is known, or it does not exist any more. */
  key: { id: string; createdAt: number; revokedAt: number | null; expiresAt: number | null } | null;
};

export function findUploadBearer(store: Store, id: string): UploadBearer | undefined {
  return store
    .select({
      upload: uploads,
      organizationDisabledAt: organizations.disabledAt,
      key: {
        ...{ id: apiKeys.id, createdAt: apiKeys.createdAt },
        ...{ revokedAt: apiKeys.revokedAt, expiresAt: apiKeys.expiresAt },
      },
    })
    .from(uploads)
    .innerJoin(organizations, eq(organizations.id, uploads.organizationId))
    .leftJoin(apiKeys, eq(apiKeys.id, uploads.apiKeyId))
    .where(eq(uploads.id, id))
    .get();
}

/** Counts the open uploads of an organization, and finds when the next that waits for bytes expires, epoch milliseconds. */
export function openUploadsOf(
  store: Store,
  organizationId: string,
  nowMs: number,
): { count: number; nextExpiryMs: number | null } {
  const found = store
    .select({
      count: count(),
      nextExpiryMs: sql<
        number | null
      >`min(CASE WHEN ${uploads.state} = 'allocated' THEN ${uploads.expiresAt} END)`,
    })
    .from(uploads)
    .where(
      and(
        eq(uploads.organizationId, organizationId),
        // The first condition is that of the index. Expired uploads have this state until the next sweep, and do not count.
        sql`${uploads.state} IN ('allocated', 'verifying')`,
        or(eq(uploads.state, "verifying"), gt(uploads.expiresAt, nowMs)),
      ),
    )
    .get();
  return found ?? { count: 0, nextExpiryMs: null };
}

/**
 * Moves an upload to another state by compare-and-set. The move enters the history.
 *
 * @returns the row after the move; undefined when its state does not allow the trigger
 */
export function moveUpload(
  tx: Store,
  id: string,
  trigger: UploadTrigger,
  nowMs: number,
  changes: UploadChanges = {},
): UploadRow | undefined {
  for (const from of uploadStatesAllowing(trigger)) {
    const state = nextUploadState(from, trigger);
    if (state === undefined) continue;
    const row = tx
      .update(uploads)
      .set({ ...changes, state, history: withMove(nowMs, state) })
      .where(and(eq(uploads.id, id), eq(uploads.state, from)))
      .returning()
      .get();
    if (row) return row;
  }
  return undefined;
}

/**
 * Changes the space of an upload that takes bytes, by compare-and-set.
 *
 * @returns false when the upload takes no bytes any more, or has other space than `from`
 */
export function changeSpace(tx: Store, id: string, from: number, to: number): boolean {
  return (
    tx
      .update(uploads)
      .set({ spaceBytes: to })
      .where(and(eq(uploads.id, id), eq(uploads.state, "allocated"), eq(uploads.spaceBytes, from)))
      .returning({ id: uploads.id })
      .get() !== undefined
  );
}

/** Sets the size of an upload that takes bytes. Returns whether it does. */
export function setUploadBytes(tx: Store, id: string, bytes: number): boolean {
  const isReceiving = and(eq(uploads.id, id), eq(uploads.state, "allocated"), isNull(uploads.deletedAt));
  return tx.update(uploads).set({ bytes }).where(isReceiving).returning({ id: uploads.id }).all().length > 0;
}

/** Marks an upload's audio as deleted. Returns false when it was marked already. */
export function markAudioDeleted(tx: Store, id: string, nowMs: number): boolean {
  return (
    tx
      .update(uploads)
      .set({ deletedAt: nowMs })
      .where(and(eq(uploads.id, id), isNull(uploads.deletedAt)))
      .returning({ id: uploads.id })
      .get() !== undefined
  );
}

/** Removes a record. Only for a record that nothing refers to. */
export function deleteUpload(tx: Store, id: string): void {
  tx.delete(uploads).where(eq(uploads.id, id)).run();
}

/**
 * Removes the records of uploads that were rejected before a time and that no transcription refers to.
 *
 * @param limit most that are removed
 * @returns how many
 */
export function deleteRejectedUploads(tx: Store, rejectedBefore: Ages, limit: number): number {
  const old = tx
    .select({ id: uploads.id })
    .from(uploads)
    .where(
      and(
        sql`${uploads.state} = 'rejected'`,
        isBefore(uploads.finishedAt, rejectedBefore),
        notExists(
          tx
            .select({ id: transcriptions.id })
            .from(transcriptions)
            .where(eq(transcriptions.uploadId, uploads.id)),
        ),
      ),
    )
    .limit(limit);
  return tx.delete(uploads).where(inArray(uploads.id, old)).returning({ id: uploads.id }).all().length;
}

/** Which uploads an admin lists; `sinceMs` is when they were created, epoch milliseconds. */
export type UploadQuery = {
  organizationId?: string;
  projectId?: string;
  states?: readonly UploadState[];
  sinceMs?: number;
  limit: number;
};

/** Lists uploads of all projects, newest first, for an admin. */
export function listAllUploads(store: Store, query: UploadQuery): UploadRow[] {
  const { organizationId, projectId, states, sinceMs, limit } = query;
  return store
    .select()
    .from(uploads)
    .where(
      and(
        organizationId === undefined ? undefined : eq(uploads.organizationId, organizationId),
        projectId === undefined ? undefined : eq(uploads.projectId, projectId),
        states === undefined ? undefined : inArray(uploads.state, [...states]),
        sinceMs === undefined ? undefined : gte(uploads.id, firstIdAt("upload", sinceMs)),
      ),
    )
    .orderBy(desc(uploads.id))
    .limit(limit)
    .all();
}

/** The condition of the index `uploads_unfinished`. A query that has it as it is reads the few unfinished uploads only. */
const IS_UNFINISHED = sql`${uploads.state} IN ('allocated', 'verifying')`;

/** Lists uploads that have expired and wait for bytes, earliest first. */
export function listExpiredUploads(store: Store, ages: Ages, limit: number): UploadRow[] {
  return store
    .select()
    .from(uploads)
    .where(
      and(IS_UNFINISHED, eq(uploads.state, "allocated"), isOver(uploads.createdAt, uploads.expiresAt, ages)),
    )
    .orderBy(asc(uploads.expiresAt))
    .limit(limit)
    .all();
}

const selectVerifying = prepared((store: Store) =>
  store
    .select({ id: uploads.id })
    .from(uploads)
    .where(and(IS_UNFINISHED, eq(uploads.state, "verifying")))
    .prepare(),
);

/** Lists the identifiers of uploads that are being verified. */
export function listVerifyingUploads(store: Store): string[] {
  return selectVerifying(store)
    .all()
    .map(({ id }) => id)
    .sort();
}

/** Lists a page of uploads whose records say that they have audio, by identifier. */
export function listUploadsWithAudio(store: Store, after: string, limit: number): UploadRow[] {
  return store
    .select()
    .from(uploads)
    .where(
      and(
        gt(uploads.id, after),
        inArray(uploads.state, ["verifying", "complete"]),
        isNull(uploads.deletedAt),
      ),
    )
    .orderBy(asc(uploads.id))
    .limit(limit)
    .all();
}

const unfinishedWork = (store: Store) =>
  store
    .select({ id: transcriptions.id })
    .from(transcriptions)
    .where(
      and(eq(transcriptions.uploadId, uploads.id), inArray(transcriptions.state, [...UNFINISHED_STATES])),
    );

/**
 * Lists uploads of a project that were complete before a time, have audio, and are not needed by unfinished
 * transcriptions.
 */
export function listUnusedAudio(
  store: Store,
  projectId: string,
  finishedBefore: Ages,
  limit: number,
): UploadRow[] {
  return store
    .select()
    .from(uploads)
    .where(isUnusedAudio(store, projectId, finishedBefore))
    .orderBy(asc(uploads.finishedAt))
    .limit(limit)
    .all();
}

/** Counts what `listUnusedAudio` lists. */
export function countUnusedAudio(store: Store, projectId: string, finishedBefore: Ages): number {
  const condition = isUnusedAudio(store, projectId, finishedBefore);
  return store.select({ found: count() }).from(uploads).where(condition).get()?.found ?? 0;
}

const isUnusedAudio = (store: Store, projectId: string, finishedBefore: Ages) =>
  and(
    eq(uploads.projectId, projectId),
    eq(uploads.state, "complete"),
    sql`${uploads.deletedAt} IS NULL`,
    isBefore(uploads.finishedAt, finishedBefore),
    notExists(unfinishedWork(store)),
  );
