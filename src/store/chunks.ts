import { and, asc, eq, sql } from "drizzle-orm";
import type { GapReason, Segment, Warning } from "../domain/result.ts";
import type { Store } from "./database.ts";
import { chunks } from "./schema.ts";

export type ChunkRow = typeof chunks.$inferSelect;
export type NewChunk = Pick<ChunkRow, "channel" | "startMs" | "endMs" | "speechMs" | "regions">;
export type ChunkKey = Pick<ChunkRow, "transcriptionId" | "position">;

/** Replaces the chunks of a transcription that has not begun to be transcribed. */
export function insertChunks(tx: Store, transcriptionId: string, rows: readonly NewChunk[]): void {
  tx.delete(chunks).where(eq(chunks.transcriptionId, transcriptionId)).run();
  for (const [position, row] of rows.entries()) {
    tx.insert(chunks)
      .values({ ...row, transcriptionId, position, state: "waiting" })
      .run();
  }
}

export function listChunks(store: Store, transcriptionId: string): ChunkRow[] {
  return store
    .select()
    .from(chunks)
    .where(eq(chunks.transcriptionId, transcriptionId))
    .orderBy(asc(chunks.position))
    .all();
}

/** Ends a waiting chunk with its text; false when it has ended already. */
export function completeChunk(
  tx: Store,
  key: ChunkKey,
  outcome: { segments: Omit<Segment, "index">[]; warnings: Warning[] },
): boolean {
  return endChunk(tx, key, { state: "done", ...outcome });
}

/** Ends a waiting chunk without text; false when it has ended already. */
export function giveUpChunk(tx: Store, key: ChunkKey, gapReason: GapReason): boolean {
  return endChunk(tx, key, { state: "failed", gapReason });
}

function endChunk(tx: Store, key: ChunkKey, values: Partial<ChunkRow>): boolean {
  return (
    tx.update(chunks).set(values).where(isWaiting(key)).returning({ position: chunks.position }).get() !==
    undefined
  );
}

/** Counts a run that failed; returns the chunk as it stands then, undefined when it has ended. */
export function countChunkFailure(tx: Store, key: ChunkKey, hasCrashed: boolean): ChunkRow | undefined {
  return tx
    .update(chunks)
    .set({ failures: sql`failures + 1`, ...(hasCrashed ? { crashes: sql`crashes + 1` } : {}) })
    .where(isWaiting(key))
    .returning()
    .get();
}

export function deleteChunks(tx: Store, transcriptionId: string): void {
  tx.delete(chunks).where(eq(chunks.transcriptionId, transcriptionId)).run();
}

function isWaiting(key: ChunkKey) {
  return and(
    eq(chunks.transcriptionId, key.transcriptionId),
    eq(chunks.position, key.position),
    eq(chunks.state, "waiting"),
  );
}
