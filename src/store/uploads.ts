import { and, asc, count, eq, gt, inArray, isNull, lt, lte, notExists, or, sql } from "drizzle-orm";
import { UNFINISHED_STATES } from "../domain/transcription.ts";
import { nextUploadState, type UploadTrigger, uploadStatesAllowing } from "../domain/upload.ts";
import type { Store } from "./database.ts";
import { apiKeys, organizations, transcriptions, uploads } from "./schema.ts";

export type UploadRow = typeof uploads.$inferSelect;
export type NewUploadRow = typeof uploads.$inferInsert;
/** Columns that a change of state may set beside the state. */
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
  >
>;

export function insertUpload(tx: Store, row: NewUploadRow): UploadRow {
  return tx.insert(uploads).values(row).returning().get();
}

export function findUpload(store: Store, id: string): UploadRow | undefined {
  return store.select().from(uploads).where(eq(uploads.id, id)).get();
}

/** What an upload token's check needs: the upload, its organization, and the key that made it. */
export type UploadBearer = {
  upload: UploadRow;
  organizationDisabledAt: number | null;
  /** Null where none is known, or it is there no more. */
  key: { revokedAt: number | null; expiresAt: number | null } | null;
};

export function findUploadBearer(store: Store, id: string): UploadBearer | undefined {
  return store
    .select({
      upload: uploads,
      organizationDisabledAt: organizations.disabledAt,
      key: { id: apiKeys.id, revokedAt: apiKeys.revokedAt, expiresAt: apiKeys.expiresAt },
    })
    .from(uploads)
    .innerJoin(organizations, eq(organizations.id, uploads.organizationId))
    .leftJoin(apiKeys, eq(apiKeys.id, uploads.apiKeyId))
    .where(eq(uploads.id, id))
    .get();
}

/** How many uploads of an organization are open at a moment, and when the first of those that wait for bytes expires. */
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
        // The index's own condition first; expired ones are open until the next sweep, and count no more.
        sql`${uploads.state} IN ('allocated', 'verifying')`,
        or(eq(uploads.state, "verifying"), gt(uploads.expiresAt, nowMs)),
      ),
    )
    .get();
  return found ?? { count: 0, nextExpiryMs: null };
}

/**
 * One move of an upload, as a compare-and-set.
 *
 * @returns the row after the move, or undefined when its state did not allow it
 */
export function moveUpload(
  tx: Store,
  id: string,
  trigger: UploadTrigger,
  changes: UploadChanges = {},
): UploadRow | undefined {
  for (const from of uploadStatesAllowing(trigger)) {
    const state = nextUploadState(from, trigger);
    if (state === undefined) continue;
    const row = tx
      .update(uploads)
      .set({ ...changes, state })
      .where(and(eq(uploads.id, id), eq(uploads.state, from)))
      .returning()
      .get();
    if (row) return row;
  }
  return undefined;
}

/** Records that the audio's bytes are gone; false when that was known already. */
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

/** Removes the record itself; only for one that nothing refers to yet. */
export function deleteUpload(tx: Store, id: string): void {
  tx.delete(uploads).where(eq(uploads.id, id)).run();
}

/** Uploads whose time to arrive has run out, earliest first. */
export function listExpiredUploads(store: Store, nowMs: number, limit: number): UploadRow[] {
  return store
    .select()
    .from(uploads)
    .where(and(eq(uploads.state, "allocated"), lte(uploads.expiresAt, nowMs)))
    .orderBy(asc(uploads.expiresAt))
    .limit(limit)
    .all();
}

/** Identifiers of the uploads whose verification has no outcome yet. */
export function listVerifyingUploads(store: Store): string[] {
  return store
    .select({ id: uploads.id })
    .from(uploads)
    .where(eq(uploads.state, "verifying"))
    .orderBy(asc(uploads.id))
    .all()
    .map(({ id }) => id);
}

/** A page of uploads whose bytes the record says are there, in the order of their identifiers. */
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

/** Complete uploads finished before a moment that no unfinished transcription needs. */
export function listUnusedAudio(store: Store, finishedBeforeMs: number, limit: number): UploadRow[] {
  return store
    .select()
    .from(uploads)
    .where(
      and(
        eq(uploads.state, "complete"),
        isNull(uploads.deletedAt),
        lt(uploads.finishedAt, finishedBeforeMs),
        notExists(unfinishedWork(store)),
      ),
    )
    .orderBy(asc(uploads.finishedAt))
    .limit(limit)
    .all();
}
