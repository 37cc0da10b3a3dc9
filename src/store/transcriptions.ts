import { and, asc, count, desc, eq, gte, inArray, lt, ne, sql } from "drizzle-orm";
import type { Ages } from "../domain/clock-trust.ts";
import type { ErrorCode } from "../domain/errors.ts";
import type { Metadata } from "../domain/metadata.ts";
import type { Warning } from "../domain/result.ts";
import type { TranscriptionWork } from "../domain/story.ts";
import {
  billedMsOf,
  nextTranscriptionState,
  statesAllowing,
  type TranscriptionState,
  type TranscriptionTrigger,
  UNFINISHED_STATES,
  type UnfinishedState,
} from "../domain/transcription.ts";
import { firstIdAt } from "../lib/ids.ts";
import { BILLED_MS } from "./billed-time.ts";
import type { Store } from "./database.ts";
import { withMove } from "./history.ts";
import { isBefore } from "./over.ts";
import { type Placeholders, prepared, preparedFor } from "./prepared.ts";
import { organizations, projects, transcriptionMetadata, transcriptions, uploads } from "./schema.ts";

export type TranscriptionRow = typeof transcriptions.$inferSelect;
export type NewTranscription = typeof transcriptions.$inferInsert;

const insertion = preparedFor((store: Store, row: Placeholders<NewTranscription>) =>
  store.insert(transcriptions).values(row).returning().prepare(),
);

export function insertTranscription(tx: Store, row: NewTranscription): TranscriptionRow {
  return insertion(tx, row).get(row);
}

const selectById = prepared((store: Store) =>
  store
    .select()
    .from(transcriptions)
    .where(eq(transcriptions.id, sql.placeholder("id")))
    .prepare(),
);

export function findTranscription(store: Store, id: string): TranscriptionRow | undefined {
  return selectById(store).get({ id });
}

/** Returns the values of a transcription that its result repeats (`ResultInfo` of pipeline/render.ts). */
export function resultInfoOf(row: TranscriptionRow) {
  const { id, modelId, modelVersion, task, mode, timestamps, metadata } = row;
  const info = { id, model: modelId, version: modelVersion, mode, timestamps };
  return { ...info, ...(task === null ? {} : { task }), ...(metadata === null ? {} : { metadata }) };
}

/** Columns that a move may set beside the state. */
export type TranscriptionChange = {
  work?: TranscriptionWork;
  startedAt?: number;
  modelSha256?: string;
  finishedAt?: number;
  errorCode?: ErrorCode;
  errorMessage?: string;
  audioWarnings?: Warning[];
};

/**
 * Moves a transcription to another state by compare-and-set. Nothing else changes a state. The move enters the history.
 *
 * @returns the row after the move, or undefined when its state no longer allows the trigger
 */
export function moveTranscription(
  tx: Store,
  id: string,
  trigger: TranscriptionTrigger,
  nowMs: number,
  change: TranscriptionChange = {},
): TranscriptionRow | undefined {
  const update = updateMoved(tx, change);
  for (const from of statesAllowing(trigger)) {
    const to = nextTranscriptionState(from, trigger);
    if (to === undefined) continue;
    const row = update.get({ ...change, id, from, to, nowMs });
    if (row) return row;
  }
  return undefined;
}

const updateMoved = preparedFor((store: Store, change: Placeholders<TranscriptionChange>) => {
  const to = sql.placeholder("to");
  return store
    .update(transcriptions)
    .set({ ...change, state: sql`${to}`, history: withMove(sql.placeholder("nowMs"), to) })
    .where(
      and(eq(transcriptions.id, sql.placeholder("id")), eq(transcriptions.state, sql.placeholder("from"))),
    )
    .returning()
    .prepare();
});

const updateProgress = prepared((store: Store) => {
  const progressMs = sql.placeholder("progressMs");
  return store
    .update(transcriptions)
    .set({ progressMs: sql`${progressMs}` })
    .where(and(eq(transcriptions.id, sql.placeholder("id")), lt(transcriptions.progressMs, progressMs)))
    .prepare();
});

/** Raises the audio whose chunks have outcomes, milliseconds over all channels. It never decreases. */
export function raiseProgress(tx: Store, id: string, progressMs: number): void {
  updateProgress(tx).run({ id, progressMs });
}

const updateStreamed = prepared((store: Store) => {
  const streamedMs = sql.placeholder("streamedMs");
  return store
    .update(transcriptions)
    .set({ streamedMs: sql`max(streamed_ms, ${streamedMs})` })
    .where(and(eq(transcriptions.id, sql.placeholder("id")), IS_UNFINISHED))
    .returning({ id: transcriptions.id })
    .prepare();
});

/**
 * Records that the text of so much audio is about to leave the server, milliseconds over the recognized channels. It never
 * decreases.
 *
 * @returns false when the transcription has ended: its charge is fixed, and this text must not leave
 */
export function raiseStreamed(tx: Store, id: string, streamedMs: number): boolean {
  return updateStreamed(tx).get({ id, streamedMs }) !== undefined;
}

/** What is known of a recording once it has arrived, and what it costs. */
export type ArrivedAudio = Pick<TranscriptionRow, "durationMs" | "channels" | "reservedPaise">;

/** Lets a transcription that awaits its recording wait for a turn, by compare-and-set. Undefined: it does not await one. */
export function markArrived(tx: Store, id: string, audio: ArrivedAudio): TranscriptionRow | undefined {
  return tx
    .update(transcriptions)
    .set({ ...audio, awaitsAudio: false })
    .where(and(eq(transcriptions.id, id), sql`state = 'queued' AND awaits_audio = 1`))
    .returning()
    .get();
}

/** Lists transcriptions that await a recording which has been verified, rejected or deleted, oldest first. */
export function listArrived(store: Store, limit: number): TranscriptionRow[] {
  return store
    .select({ row: transcriptions })
    .from(transcriptions)
    .innerJoin(uploads, eq(uploads.id, transcriptions.uploadId))
    .where(
      and(
        sql`${transcriptions.state} = 'queued' AND ${transcriptions.awaitsAudio} = 1`,
        sql`(${uploads.state} IN ('complete', 'rejected') OR ${uploads.deletedAt} IS NOT NULL)`,
      ),
    )
    .orderBy(sql`+${transcriptions.id}`)
    .limit(limit)
    .all()
    .map(({ row }) => row);
}

/** Marks the content as deleted, and removes the metadata. Returns undefined when it was marked already. The state stays. */
export function markContentDeleted(tx: Store, id: string, nowMs: number): TranscriptionRow | undefined {
  return tx
    .update(transcriptions)
    .set({ contentDeletedAt: nowMs, metadata: null })
    .where(and(eq(transcriptions.id, id), sql`content_deleted_at IS NULL`))
    .returning()
    .get();
}

type ListQuery = {
  projectId: string;
  after?: string;
  states?: readonly TranscriptionState[];
  limit: number;
};

/** A page of what has some metadata: `next` is the last that was looked at where there may be more, else null. */
export type MetadataPage = { rows: TranscriptionRow[]; next: string | null };

/** Candidates that one page looks at. That many take some ten milliseconds. */
const MAX_CANDIDATES = 10_000;
/** So far the candidates of each name are counted, to begin with the rarest. */
const COUNTED = 1_000;

/**
 * Lists a page of a project's transcriptions that have all of some metadata, newest first. It looks at a bounded number of
 * them: where few of those fit, the page is shorter than the limit although there are more.
 */
export function listWithMetadata(
  store: Store,
  { projectId, after, states, limit, metadata }: ListQuery & { metadata: Metadata },
  maxCandidates = MAX_CANDIDATES,
): MetadataPage {
  const [rarest, ...others] = Object.entries(metadata)
    .map(([name, value]) => ({ name, value, found: countWithPair(store, { projectId, name, value, after }) }))
    .sort((a, b) => a.found - b.found);
  if (!rarest) throw new Error("no metadata is asked for");
  const isAlone = states === undefined && others.length === 0;
  const candidates = (from: { limit: number; offset?: number }) =>
    store
      .select({ id: transcriptionMetadata.transcriptionId })
      .from(transcriptionMetadata)
      .where(hasPair({ projectId, after, ...rarest }))
      .orderBy(desc(transcriptionMetadata.transcriptionId))
      .limit(from.limit)
      .offset(from.offset ?? 0);
  const rows = store
    .select()
    .from(transcriptions)
    .where(
      and(
        inArray(transcriptions.id, candidates({ limit: isAlone ? limit + 1 : maxCandidates })),
        states === undefined ? undefined : inArray(transcriptions.state, [...states]),
        ...others.map(({ name, value }) => sql`${transcriptions.metadata} ->> ${`$."${name}"`} = ${value}`),
      ),
    )
    .orderBy(desc(transcriptions.id))
    .limit(limit + 1)
    .all();
  if (rows.length > limit) return { rows: rows.slice(0, limit), next: rows[limit - 1]?.id ?? null };
  if (isAlone || rarest.found < Math.min(COUNTED, maxCandidates)) return { rows, next: null };
  const last = candidates({ limit: 1, offset: maxCandidates - 1 }).get();
  return { rows, next: last?.id ?? null };
}

/** A name and a value of the metadata of one project's transcriptions that are older than `after`. */
type Pair = { projectId: string; name: string; value: string; after: string | undefined };

const hasPair = ({ projectId, name, value, after }: Pair) =>
  and(
    eq(transcriptionMetadata.projectId, projectId),
    eq(transcriptionMetadata.name, name),
    eq(transcriptionMetadata.value, value),
    after === undefined ? undefined : lt(transcriptionMetadata.transcriptionId, after),
  );

/** Counts as far as `COUNTED`. */
function countWithPair(store: Store, pair: Pair): number {
  const some = store
    .select({ id: transcriptionMetadata.transcriptionId })
    .from(transcriptionMetadata)
    .where(hasPair(pair))
    .limit(COUNTED)
    .as("some");
  return store.select({ found: count() }).from(some).get()?.found ?? 0;
}

/**
 * Lists a page of a project's transcriptions that are older than `after`, newest first. It reads each state on its own
 * and merges the pages, so that it does not search all rows for a rare state.
 */
export function listTranscriptions(store: Store, query: ListQuery): TranscriptionRow[] {
  if (query.states === undefined) return listInState(store, query, undefined);
  return [...new Set(query.states)]
    .flatMap((state) => listInState(store, query, state))
    .sort((a, b) => (a.id < b.id ? 1 : -1))
    .slice(0, query.limit);
}

function listInState(
  store: Store,
  query: ListQuery,
  state: TranscriptionState | undefined,
): TranscriptionRow[] {
  return store
    .select()
    .from(transcriptions)
    .where(
      and(
        eq(transcriptions.projectId, query.projectId),
        state === undefined ? undefined : eq(transcriptions.state, state),
        query.after === undefined ? undefined : lt(transcriptions.id, query.after),
      ),
    )
    .orderBy(desc(transcriptions.id))
    .limit(query.limit)
    .all();
}

/** Which transcriptions an admin lists; `sinceMs` is when they were accepted, epoch milliseconds. */
export type AdminQuery = {
  organizationId?: string;
  projectId?: string;
  uploadId?: string;
  states?: readonly TranscriptionState[];
  sinceMs?: number;
  limit: number;
};

/** Lists transcriptions of all projects, newest first, for an admin. */
export function listAllTranscriptions(store: Store, query: AdminQuery): TranscriptionRow[] {
  const { organizationId, projectId, uploadId, states, sinceMs, limit } = query;
  const isPlain = [organizationId, uploadId, sinceMs].every((each) => each === undefined);
  if (projectId !== undefined && isPlain) return listTranscriptions(store, { ...query, projectId });
  return store
    .select()
    .from(transcriptions)
    .where(
      and(
        organizationId === undefined ? undefined : eq(transcriptions.organizationId, organizationId),
        projectId === undefined ? undefined : eq(transcriptions.projectId, projectId),
        uploadId === undefined ? undefined : eq(transcriptions.uploadId, uploadId),
        states === undefined ? undefined : inArray(transcriptions.state, [...states]),
        // Identifiers begin with their time, so older rows are not read.
        sinceMs === undefined ? undefined : gte(transcriptions.id, firstIdAt("transcription", sinceMs)),
      ),
    )
    .orderBy(desc(transcriptions.id))
    .limit(limit)
    .all();
}

/** Lists transcriptions of all projects that have all of some metadata, newest first, for an admin. */
export function listAllWithMetadata(
  store: Store,
  query: Omit<AdminQuery, "uploadId"> & { metadata: Metadata },
): TranscriptionRow[] {
  const { organizationId, projectId } = query;
  const owners = store
    .select({ id: projects.id })
    .from(projects)
    .where(
      and(
        organizationId === undefined ? undefined : eq(projects.organizationId, organizationId),
        projectId === undefined ? undefined : eq(projects.id, projectId),
      ),
    )
    .all();
  return owners
    .flatMap(({ id }) => listPages(store, { ...query, projectId: id }))
    .sort((a, b) => (a.id < b.id ? 1 : -1))
    .slice(0, query.limit);
}

/** Reads pages of `listWithMetadata` until they have enough, or are older than `sinceMs`. */
function listPages(
  store: Store,
  { sinceMs, ...query }: ListQuery & { metadata: Metadata; sinceMs?: number },
): TranscriptionRow[] {
  const oldest = sinceMs === undefined ? "" : firstIdAt("transcription", sinceMs);
  const found: TranscriptionRow[] = [];
  for (let from: { after?: string } = {}; ; ) {
    const { rows, next } = listWithMetadata(store, { ...query, ...from });
    found.push(...rows.filter(({ id }) => id >= oldest));
    if (next === null || next < oldest || found.length >= query.limit) return found;
    from = { after: next };
  }
}

/** Lists the transcriptions that were started in the place of another one, oldest first. */
export function listRetries(store: Store, ofId: string): TranscriptionRow[] {
  return store
    .select()
    .from(transcriptions)
    .where(eq(transcriptions.retryOfId, ofId))
    .orderBy(asc(transcriptions.id))
    .all();
}

/** Lists a page of the transcriptions of all projects or of one, newest first, for the console. */
export function listPageOfAll(
  store: Store,
  query: { projectId?: string; states?: readonly TranscriptionState[]; limit: number; after?: string },
): TranscriptionRow[] {
  if (query.projectId !== undefined)
    return listTranscriptions(store, { ...query, projectId: query.projectId });
  if (query.states === undefined) {
    return store
      .select()
      .from(transcriptions)
      .where(query.after === undefined ? undefined : lt(transcriptions.id, query.after))
      .orderBy(desc(transcriptions.id))
      .limit(query.limit)
      .all();
  }
  // There is an index of each project's states, so a rare state is found without reading all rows.
  const all = store.select({ id: projects.id }).from(projects).all();
  return all
    .flatMap(({ id }) => listTranscriptions(store, { ...query, projectId: id }))
    .sort((a, b) => (a.id < b.id ? 1 : -1))
    .slice(0, query.limit);
}

/**
 * The condition of the index `transcriptions_unfinished`. Only a query that has it as it is, without parameters, reads the
 * unfinished transcriptions and no others.
 */
export const IS_UNFINISHED = sql`state IN ('queued', 'preparing', 'transcribing', 'finalizing')`;

/** Lists all unfinished transcriptions, oldest first. The scheduler continues them at a start. */
export function listUnfinished(store: Store): TranscriptionRow[] {
  return (
    store
      .select()
      .from(transcriptions)
      .where(IS_UNFINISHED)
      // The plus sign keeps SQLite from reading all rows in the order of their identifiers.
      .orderBy(sql`+${transcriptions.id}`)
      .all()
  );
}

/** The condition of the queue's indexes: it waits for a turn. What still awaits its recording is queued, too, and has no turn. */
const IS_WAITING = sql`state = 'queued' AND awaits_audio = 0`;

const selectQueueHeads = prepared((store: Store) =>
  store
    .select()
    .from(transcriptions)
    .where(
      sql`${transcriptions.id} IN (
        WITH RECURSIVE heads(id) AS (
          SELECT (
            SELECT id FROM transcriptions WHERE ${IS_WAITING} ORDER BY organization_id, project_id, id LIMIT 1
          )
          UNION ALL
          SELECT (
            SELECT id FROM transcriptions
            WHERE ${IS_WAITING} AND (organization_id, project_id) > (last.organization_id, last.project_id)
            ORDER BY organization_id, project_id, id LIMIT 1
          )
          FROM heads JOIN transcriptions AS last ON last.id = heads.id
        )
        SELECT id FROM heads
        UNION ALL
        SELECT (
          SELECT transcriptions.id FROM transcriptions
          WHERE ${IS_WAITING} AND organization_id = head.organization_id AND project_id = head.project_id
          ORDER BY ${BILLED_MS}, transcriptions.id LIMIT 1
        )
        FROM heads JOIN transcriptions AS head ON head.id = heads.id
      )`,
    )
    .prepare(),
);

/**
 * Lists the oldest queued transcription of each project and the one with the least audio: the candidates for the next
 * turn. Each takes a few steps in an index, however many are queued.
 */
export function listQueueHeads(store: Store): TranscriptionRow[] {
  return selectQueueHeads(store).all();
}

const selectQueued = prepared((store: Store) =>
  store
    .select({ waiting: count() })
    .from(transcriptions)
    .where(and(sql`state = 'queued'`, eq(transcriptions.organizationId, sql.placeholder("organizationId"))))
    .prepare(),
);

export function countQueued(store: Store, organizationId: string): number {
  return selectQueued(store).get({ organizationId })?.waiting ?? 0;
}

const selectQueuedBefore = prepared((store: Store) => {
  const { organizationId, id } = transcriptions;
  const own = sql`(${sql.placeholder("billedMs")}, ${sql.placeholder("id")})`;
  return store
    .select({ waiting: count() })
    .from(transcriptions)
    .where(
      and(
        IS_WAITING,
        eq(organizationId, sql.placeholder("organizationId")),
        sql`(${BILLED_MS}, ${id}) < ${own}`,
      ),
    )
    .prepare();
});

/** Counts the queued transcriptions of the same organization with less audio, or as much and older; 0: it is next. */
export function countQueuedBefore(store: Store, row: TranscriptionRow): number {
  const { organizationId, id } = row;
  return selectQueuedBefore(store).get({ organizationId, id, billedMs: billedMsOf(row) })?.waiting ?? 0;
}

/**
 * Does what `countQueuedBefore` does for several transcriptions of one organization, and reads its queue once: to count for
 * each of a hundred takes a hundred times as long.
 *
 * @returns the counts by identifier; those that are not queued are left out
 */
export function listQueuePositions(
  store: Store,
  organizationId: string,
  ids: readonly string[],
): Map<string, number> {
  const { id } = transcriptions;
  const queue = store
    .select({
      id,
      position: sql<number>`row_number() OVER (ORDER BY ${BILLED_MS}, ${id}) - 1`.as("position"),
    })
    .from(transcriptions)
    .where(and(IS_WAITING, eq(transcriptions.organizationId, organizationId)))
    .as("queue");
  const found = store
    .select({ id: queue.id, position: queue.position })
    .from(queue)
    .where(inArray(queue.id, [...ids]))
    .all();
  return new Map(found.map(({ id, position }) => [id, position]));
}

/** Unfinished work in one state: recordings, their audio, and what is left over all channels, milliseconds. */
export type UnfinishedWork = {
  state: TranscriptionState;
  count: number;
  audioMs: number;
  remainingMs: number;
};

/** Counts the unfinished transcriptions that a model was accepted for. */
export function countUnfinishedWithModel(store: Store, modelId: string): number {
  const row = store
    .select({ found: count() })
    .from(transcriptions)
    .where(and(IS_UNFINISHED, eq(transcriptions.modelId, modelId)))
    .get();
  return row?.found ?? 0;
}

const selectUnfinishedByState = prepared((store: Store) =>
  store
    .select({
      state: transcriptions.state,
      count: count(),
      audioMs: sql<number>`coalesce(sum(${transcriptions.durationMs}), 0)`,
      remainingMs: sql<number>`coalesce(sum(max(0, ${BILLED_MS} - progress_ms)), 0)`,
    })
    .from(transcriptions)
    .where(IS_UNFINISHED)
    .groupBy(transcriptions.state)
    .prepare(),
);

/** Counts the unfinished work of the whole server by state. */
export function countUnfinishedByState(store: Store): UnfinishedWork[] {
  return selectUnfinishedByState(store).all();
}

/** Counts the unfinished work of each organization by state. */
export function countUnfinishedByOrganization(
  store: Store,
): { organizationId: string; name: string; state: UnfinishedState; count: number; remainingMs: number }[] {
  return store
    .select({
      organizationId: transcriptions.organizationId,
      name: organizations.name,
      state: sql<UnfinishedState>`${transcriptions.state}`,
      count: count(),
      remainingMs: sql<number>`coalesce(sum(max(0, ${BILLED_MS} - progress_ms)), 0)`,
    })
    .from(transcriptions)
    .innerJoin(organizations, eq(organizations.id, transcriptions.organizationId))
    .where(IS_UNFINISHED)
    .groupBy(transcriptions.organizationId, transcriptions.state)
    .all();
}

/** Reports whether an unfinished transcription, other than `exceptId`, needs this upload's audio. */
export function isUploadInUse(store: Store, uploadId: string, exceptId?: string): boolean {
  const row = store
    .select({ id: transcriptions.id })
    .from(transcriptions)
    .where(
      and(
        eq(transcriptions.uploadId, uploadId),
        inArray(transcriptions.state, [...UNFINISHED_STATES]),
        exceptId === undefined ? undefined : ne(transcriptions.id, exceptId),
      ),
    )
    .limit(1)
    .get();
  return row !== undefined;
}

/** Lists transcriptions with a transcript that finished before a time, oldest first, from the one after `after` on. */
export function listFinishedBefore(
  store: Store,
  projectId: string,
  finishedBefore: Ages,
  limit: number,
  after?: Pick<TranscriptionRow, "finishedAt" | "id">,
): TranscriptionRow[] {
  return store
    .select()
    .from(transcriptions)
    .where(
      and(
        hasOldTranscript(projectId, finishedBefore),
        after && sql`(finished_at, id) > (${after.finishedAt}, ${after.id})`,
      ),
    )
    .orderBy(asc(transcriptions.finishedAt), asc(transcriptions.id))
    .limit(limit)
    .all();
}

/** Counts what `listFinishedBefore` lists. */
export function countFinishedBefore(store: Store, projectId: string, finishedBefore: Ages): number {
  const condition = hasOldTranscript(projectId, finishedBefore);
  return store.select({ found: count() }).from(transcriptions).where(condition).get()?.found ?? 0;
}

const hasOldTranscript = (projectId: string, finishedBefore: Ages) =>
  and(
    eq(transcriptions.projectId, projectId),
    sql`content_deleted_at IS NULL`,
    isBefore(transcriptions.finishedAt, finishedBefore),
  );
