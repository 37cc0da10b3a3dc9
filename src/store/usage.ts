import { and, asc, count, desc, eq, gt, gte, lt, sql } from "drizzle-orm";
import type { AnySQLiteColumn } from "drizzle-orm/sqlite-core";
import { encodeTime } from "ulid";
import { AppError } from "../domain/errors.ts";
import { ID_PREFIXES, MAX_ID_AHEAD_MS, newId } from "../lib/ids.ts";
import type { Store } from "./database.ts";
import { type Placeholders, preparedFor } from "./prepared.ts";
import { usageEvents } from "./schema.ts";

/** A finished transcription on the bill, whether it was free or not (docs/decisions/money.md). */
export type UsageEventRow = typeof usageEvents.$inferSelect;
export type NewUsageEvent = Omit<UsageEventRow, "id" | "createdAt">;

/** Events that an export holds in memory at once. */
const EXPORT_PAGE = 1000;

const insertion = preparedFor((store: Store, row: Placeholders<UsageEventRow>) =>
  store.insert(usageEvents).values(row).prepare(),
);

/**
 * Writes the event of a finished transcription, in the transaction of its final state.
 *
 * @returns the event's ID
 * @throws when the transcription has an event already
 */
export function insertUsageEvent(tx: Store, event: NewUsageEvent, nowMs: number): string {
  const id = newId("usageEvent", nowMs);
  const row = { ...event, id, createdAt: nowMs };
  insertion(tx, row).run(row);
  return id;
}

/**
 * Lists a page of a project's events, newest first.
 *
 * @param page `after`: ID of the last event of the page before
 * @throws AppError `invalid_request` (detail `after`) when `after` is not an event of this project
 */
export function listUsageEvents(
  store: Store,
  project: { projectId: string },
  page: { limit: number; after?: string },
): { data: UsageEventRow[]; next: string | null } {
  const ofProject = eq(usageEvents.projectId, project.projectId);
  if (page.after !== undefined) {
    const found = store
      .select({ id: usageEvents.id })
      .from(usageEvents)
      .where(and(eq(usageEvents.id, page.after), ofProject))
      .get();
    if (!found) {
      throw new AppError("invalid_request", {
        message: "`after` must be the ID of a usage event of this project.",
        detail: "after",
      });
    }
  }
  const rows = store
    .select()
    .from(usageEvents)
    .where(and(ofProject, page.after === undefined ? undefined : lt(usageEvents.id, page.after)))
    .orderBy(desc(usageEvents.id))
    .limit(page.limit + 1)
    .all();
  const data = rows.slice(0, page.limit);
  return { data, next: rows.length > page.limit ? (data.at(-1)?.id ?? null) : null };
}

/** What an organization used within a time. */
export type UsageSum = { transcriptions: number; audioMs: number; billedMs: number; amountPaise: number };

/**
 * Adds up the events of an organization.
 *
 * @param range epoch milliseconds, `fromMs` included, `toMs` not
 */
export function sumUsageOf(
  store: Store,
  organizationId: string,
  range: { fromMs: number; toMs: number },
): UsageSum {
  // An identifier is never older than its event, and at most a little newer.
  const idAt = (ms: number) => `${ID_PREFIXES.usageEvent}_${encodeTime(Math.max(0, ms), 10)}`;
  const sum = (column: AnySQLiteColumn) => sql<number>`coalesce(sum(${column}), 0)`;
  const row = store
    .select({
      transcriptions: count(),
      audioMs: sum(usageEvents.audioMs),
      billedMs: sum(usageEvents.billedMs),
      amountPaise: sum(usageEvents.amountPaise),
    })
    .from(usageEvents)
    .where(
      and(
        eq(usageEvents.organizationId, organizationId),
        gt(usageEvents.id, idAt(range.fromMs)),
        lt(usageEvents.id, idAt(range.toMs + MAX_ID_AHEAD_MS)),
        gte(usageEvents.createdAt, range.fromMs),
        lt(usageEvents.createdAt, range.toMs),
      ),
    )
    .get();
  return row ?? { transcriptions: 0, audioMs: 0, billedMs: 0, amountPaise: 0 };
}

/**
 * Iterates over the events of an organization within a time, oldest first. Reads them page by page.
 *
 * @param range epoch milliseconds, `fromMs` included, `toMs` not
 */
export function* exportUsageEvents(
  store: Store,
  organizationId: string,
  range: { fromMs?: number; toMs?: number },
): Generator<UsageEventRow> {
  // An identifier is never older than its event. So the start is found by identifier, and the end by reading.
  let after = `${ID_PREFIXES.usageEvent}_${encodeTime(Math.max(0, range.fromMs ?? 0), 10)}`;
  while (true) {
    const page = store
      .select()
      .from(usageEvents)
      .where(
        and(
          eq(usageEvents.organizationId, organizationId),
          gt(usageEvents.id, after),
          range.fromMs === undefined ? undefined : gte(usageEvents.createdAt, range.fromMs),
          range.toMs === undefined ? undefined : lt(usageEvents.createdAt, range.toMs),
        ),
      )
      .orderBy(asc(usageEvents.id))
      .limit(EXPORT_PAGE)
      .all();
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < EXPORT_PAGE) return;
    after = last.id;
  }
}

/** What an organization used within a time. */
export type UsageTotals = {
  organizationId: string;
  transcriptions: number;
  completed: number;
  partial: number;
  failed: number;
  cancelled: number;
  audioMs: number;
  billedMs: number;
  amountPaise: number;
};

/**
 * Sums up the events within a time, by organization.
 *
 * @param range epoch milliseconds, `fromMs` included, `toMs` not
 */
export function sumUsage(
  store: Store,
  range: { fromMs: number; toMs: number },
  organizationId?: string,
): UsageTotals[] {
  const ended = (state: UsageEventRow["state"]) => sql<number>`sum(${usageEvents.state} = ${state})`;
  return store
    .select({
      organizationId: usageEvents.organizationId,
      transcriptions: count(),
      completed: ended("completed"),
      partial: ended("partial"),
      failed: ended("failed"),
      cancelled: ended("cancelled"),
      audioMs: sql<number>`sum(${usageEvents.audioMs})`,
      billedMs: sql<number>`sum(${usageEvents.billedMs})`,
      amountPaise: sql<number>`sum(${usageEvents.amountPaise})`,
    })
    .from(usageEvents)
    .where(
      and(
        // An identifier is never older than its event, so this finds the start without reading what is before it.
        gt(usageEvents.id, `${ID_PREFIXES.usageEvent}_${encodeTime(Math.max(0, range.fromMs), 10)}`),
        gte(usageEvents.createdAt, range.fromMs),
        lt(usageEvents.createdAt, range.toMs),
        organizationId === undefined ? undefined : eq(usageEvents.organizationId, organizationId),
      ),
    )
    .groupBy(usageEvents.organizationId)
    .all();
}

/** Returns the number of the newest row, in the order in which rows were written. */
export function lastUsageRow(store: Store): number {
  // `get` of a raw statement returns a list of values.
  const [newest] = store.all<{ row: number | null }>(sql`SELECT max(rowid) AS "row" FROM usage_events`);
  return newest?.row ?? 0;
}

/** Counts the events that were written after a row, by state. @returns `row`: the newest of them */
export function endingsAfter(
  store: Store,
  row: number,
): { row: number; state: string; count: number; audioMs: number }[] {
  return store.all(sql`SELECT max(rowid) AS "row", state, count(*) AS "count", sum(audio_ms) AS "audioMs"
    FROM usage_events WHERE rowid > ${row} GROUP BY state`);
}
