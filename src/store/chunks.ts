import { and, asc, eq, gte, lt, max, type SQL, sql } from "drizzle-orm";
import type { SQLiteUpdateSetSource } from "drizzle-orm/sqlite-core";
import type { ChunkDoubts, GapReason, Segment, Warning } from "../domain/result.ts";
import type { ChunkCounts } from "../domain/story.ts";
import { nextTurn } from "../lib/in-slices.ts";
import { type Store, transaction } from "./database.ts";
import { prepared } from "./prepared.ts";
import { chunks } from "./schema.ts";
import { IS_UNFINISHED } from "./transcriptions.ts";

export type ChunkRow = typeof chunks.$inferSelect;
export type NewChunk = Pick<ChunkRow, "channel" | "startMs" | "endMs" | "speechMs" | "regions">;
/** A chunk, and one attempt at it. */
export type AttemptKey = Pick<ChunkRow, "transcriptionId" | "position" | "attempt">;

/** A random token that no other attempt has. Outcomes come from other processes, and may come late or twice. */
const NEW_TOKEN = sql<string>`lower(hex(randomblob(16)))`;

/** Chunks that are read or written without a pause. All 120,000 of the longest recording would take a second. */
export const CHUNKS_AT_ONCE = 1_000;

/** Some chunks of a transcription: those at positions of `from` or more, and less than `to`. */
const IS_IN_SLICE = and(
  eq(chunks.transcriptionId, sql.placeholder("transcriptionId")),
  gte(chunks.position, sql.placeholder("from")),
  lt(chunks.position, sql.placeholder("to")),
);

/** The values for `IS_IN_SLICE`: `CHUNKS_AT_ONCE` chunks from a position on. */
function sliceAt(transcriptionId: string, from: number) {
  return { transcriptionId, from, to: from + CHUNKS_AT_ONCE };
}

const insertion = prepared((store: Store) =>
  store
    .insert(chunks)
    .values({
      transcriptionId: sql.placeholder("transcriptionId"),
      position: sql.placeholder("position"),
      channel: sql.placeholder("channel"),
      startMs: sql.placeholder("startMs"),
      endMs: sql.placeholder("endMs"),
      speechMs: sql.placeholder("speechMs"),
      regions: sql.placeholder("regions"),
      state: "waiting",
      attempt: NEW_TOKEN,
    })
    .prepare(),
);

/** Inserts chunks of a transcription, the first of them at position `from`. */
export function insertChunks(
  tx: Store,
  transcriptionId: string,
  rows: readonly NewChunk[],
  from: number,
): void {
  const statement = insertion(tx);
  for (const [index, row] of rows.entries())
    statement.run({ ...row, transcriptionId, position: from + index });
}

const selectLast = prepared((store: Store) =>
  store
    .select({ position: max(chunks.position) })
    .from(chunks)
    .where(eq(chunks.transcriptionId, sql.placeholder("transcriptionId")))
    .prepare(),
);

/** Returns the positions at which slices of a transcription's chunks begin, in order; none when it has no chunks. */
export function sliceStarts(store: Store, transcriptionId: string): number[] {
  const slices = Math.ceil(countAllChunks(store, transcriptionId) / CHUNKS_AT_ONCE);
  return Array.from({ length: slices }, (_, n) => n * CHUNKS_AT_ONCE);
}

/** Returns how many chunks a transcription has. */
export function countAllChunks(store: Store, transcriptionId: string): number {
  const last = selectLast(store).get({ transcriptionId })?.position;
  return last === null || last === undefined ? 0 : last + 1;
}

const selectSlice = prepared((store: Store) =>
  store.select().from(chunks).where(IS_IN_SLICE).orderBy(asc(chunks.position)).prepare(),
);

/** Reads the chunks of a transcription in order of position, slice by slice, from a position on. */
function* chunkSlices(store: Store, transcriptionId: string, from = 0): Generator<ChunkRow[]> {
  for (const start of sliceStarts(store, transcriptionId)) {
    if (start + CHUNKS_AT_ONCE <= from) continue;
    const slice = sliceAt(transcriptionId, start);
    yield selectSlice(store).all({ ...slice, from: Math.max(start, from) });
  }
}

/** Returns all chunks in order of position. Other work runs between slices. */
export async function listChunks(store: Store, transcriptionId: string): Promise<ChunkRow[]> {
  const found: ChunkRow[] = [];
  for (const slice of chunkSlices(store, transcriptionId)) {
    if (found.length > 0) await nextTurn();
    for (const row of slice) found.push(row);
  }
  return found;
}

/** Returns the chunks from a position on, up to the first one without an outcome. */
export function listFirstEnded(store: Store, transcriptionId: string, from: number): ChunkRow[] {
  const found: ChunkRow[] = [];
  for (const slice of chunkSlices(store, transcriptionId, from)) {
    for (const row of slice) {
      if (row.state === "waiting") return found;
      found.push(row);
    }
  }
  return found;
}

const renewSlice = prepared((store: Store) =>
  store
    .update(chunks)
    .set({ attempt: NEW_TOKEN })
    .where(and(IS_IN_SLICE, eq(chunks.state, "waiting")))
    .prepare(),
);

/** Gives each waiting chunk of a slice a new attempt, so that outcomes of attempts of an earlier run do not count. */
export function renewAttempts(tx: Store, transcriptionId: string, from: number): void {
  renewSlice(tx).run(sliceAt(transcriptionId, from));
}

const removeSlice = prepared((store: Store) => store.delete(chunks).where(IS_IN_SLICE).prepare());

/** Deletes a slice of chunks. */
export function deleteSlice(tx: Store, transcriptionId: string, from: number): void {
  removeSlice(tx).run(sliceAt(transcriptionId, from));
}

const updateDone = prepared((store: Store) =>
  store
    .update(chunks)
    .set({
      state: "done",
      // The types know placeholders only in insertions. An update encodes their values in the same way.
      segments: sql.placeholder("segments") as unknown as SQL,
      warnings: sql.placeholder("warnings") as unknown as SQL,
      doubts: sql.placeholder("doubts") as unknown as SQL,
    })
    .where(
      and(
        eq(chunks.transcriptionId, sql.placeholder("transcriptionId")),
        eq(chunks.position, sql.placeholder("position")),
        eq(chunks.state, "waiting"),
        eq(chunks.attempt, sql.placeholder("attempt")),
      ),
    )
    .returning({ position: chunks.position })
    .prepare(),
);

/**
 * Ends a waiting chunk with its text.
 *
 * @returns false when it has ended already, or the attempt is not the one that counts
 */
export function completeChunk(
  tx: Store,
  key: AttemptKey,
  outcome: { segments: Omit<Segment, "index">[]; warnings: Warning[]; doubts: ChunkDoubts },
): boolean {
  return updateDone(tx).get({ ...key, ...outcome }) !== undefined;
}

/** Ends a waiting chunk without text. Returns false as `completeChunk` does. */
export function giveUpChunk(tx: Store, key: AttemptKey, gapReason: GapReason): boolean {
  return changeWaiting(tx, key, { state: "failed", gapReason }) !== undefined;
}

/**
 * Counts an attempt that failed, and begins another.
 *
 * @returns the chunk after it; undefined when the chunk has ended, or the attempt is not the one that counts
 */
export function countChunkFailure(tx: Store, key: AttemptKey, hasCrashed: boolean): ChunkRow | undefined {
  const crashes = hasCrashed ? { crashes: sql`crashes + 1` } : {};
  return changeWaiting(tx, key, { failures: sql`failures + 1`, ...crashes, attempt: NEW_TOKEN });
}

/** Begins another attempt without counting a failure. Returns undefined as `countChunkFailure` does. */
export function renewAttempt(tx: Store, key: AttemptKey): ChunkRow | undefined {
  return changeWaiting(tx, key, { attempt: NEW_TOKEN });
}

function changeWaiting(
  tx: Store,
  { transcriptionId, position, attempt }: AttemptKey,
  values: SQLiteUpdateSetSource<typeof chunks>,
): ChunkRow | undefined {
  return tx
    .update(chunks)
    .set(values)
    .where(
      and(
        eq(chunks.transcriptionId, transcriptionId),
        eq(chunks.position, position),
        eq(chunks.state, "waiting"),
        eq(chunks.attempt, attempt),
      ),
    )
    .returning()
    .get();
}

/** Most chunks that `countChunks` names. */
const MOST_TROUBLED = 20;

/** Counts the chunks of a transcription and names the first of those that had failures. */
export function countChunks(store: Store, transcriptionId: string): ChunkCounts {
  return sumOf(sliceStarts(store, transcriptionId).map((from) => countSlice(store, transcriptionId, from)));
}

/** Does what `countChunks` does, for chunks that have all ended. Other work runs between slices. */
export async function countEndedChunks(store: Store, transcriptionId: string): Promise<ChunkCounts> {
  const counts: ChunkCounts[] = [];
  for (const from of sliceStarts(store, transcriptionId)) {
    if (counts.length > 0) await nextTurn();
    counts.push(countSlice(store, transcriptionId, from));
  }
  return sumOf(counts);
}

function sumOf(counts: readonly ChunkCounts[]): ChunkCounts {
  const sum = { chunks: 0, ended: 0, gaps: 0, failures: 0, crashes: 0 };
  for (const { chunks, ended, gaps, failures, crashes } of counts) {
    sum.chunks += chunks;
    sum.ended += ended;
    sum.gaps += gaps;
    sum.failures += failures;
    sum.crashes += crashes;
  }
  return { ...sum, troubled: counts.flatMap(({ troubled }) => troubled).slice(0, MOST_TROUBLED) };
}

const selectCounts = prepared((store: Store) =>
  store
    .select({
      chunks: sql<number>`count(*)`,
      ended: sql<number>`count(*) FILTER (WHERE state <> 'waiting')`,
      gaps: sql<number>`count(*) FILTER (WHERE state = 'failed')`,
      failures: sql<number>`coalesce(sum(failures), 0)`,
      crashes: sql<number>`coalesce(sum(crashes), 0)`,
    })
    .from(chunks)
    .where(IS_IN_SLICE)
    .prepare(),
);

function countSlice(store: Store, transcriptionId: string, from: number): ChunkCounts {
  const slice = sliceAt(transcriptionId, from);
  const counts = selectCounts(store).get(slice);
  if (!counts) throw new Error("a count has no row");
  if (counts.failures === 0 && counts.gaps === 0) return { ...counts, troubled: [] };
  const { channel, startMs, endMs, failures, crashes, gapReason: reason } = chunks;
  const troubled = store
    .select({ channel, startMs, endMs, failures, crashes, reason })
    .from(chunks)
    .where(and(IS_IN_SLICE, sql`(failures > 0 OR state = 'failed')`))
    .orderBy(asc(chunks.position))
    .limit(MOST_TROUBLED)
    .prepare()
    .all(slice);
  return { ...counts, troubled };
}

/** Deletes the chunks of a transcription that has ended, unless they are more than a slice. */
export function deleteFewChunks(tx: Store, transcriptionId: string): void {
  if (sliceStarts(tx, transcriptionId).length <= 1) deleteSlice(tx, transcriptionId, 0);
}

/** Lists the transcriptions that have ended and still have chunks. It reads one entry of the index for each transcription. */
export function listEndedWithChunks(store: Store): string[] {
  const rows = store.all<{ id: string }>(sql`
    WITH RECURSIVE owners(id) AS (
      SELECT min(transcription_id) FROM chunks
      UNION ALL
      SELECT (SELECT min(transcription_id) FROM chunks WHERE transcription_id > owners.id)
      FROM owners WHERE owners.id IS NOT NULL
    )
    SELECT owners.id AS id FROM owners JOIN transcriptions ON transcriptions.id = owners.id
    WHERE NOT (${IS_UNFINISHED})`);
  return rows.map(({ id }) => id);
}

/** Deletes all chunks of a transcription that has ended, in a transaction for each slice. Other work runs in between. */
export async function removeChunks(store: Store, transcriptionId: string): Promise<void> {
  // The last slices first: what is left is always a beginning.
  for (const from of sliceStarts(store, transcriptionId).reverse()) {
    transaction(store, (tx) => deleteSlice(tx, transcriptionId, from));
    await nextTurn();
  }
}

export function deleteChunks(tx: Store, transcriptionId: string): void {
  tx.delete(chunks).where(eq(chunks.transcriptionId, transcriptionId)).run();
}
