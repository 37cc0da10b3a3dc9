import type { ChunkCounts } from "../../domain/story.ts";
import { billedMsOf, isFinal } from "../../domain/transcription.ts";
import { type AuditEntry, listAudit } from "../../store/audit-log.ts";
import { countChunks } from "../../store/chunks.ts";
import type { Store } from "../../store/database.ts";
import { type LedgerEntry, listEntriesOf } from "../../store/ledger.ts";
import { listRetries, type TranscriptionRow } from "../../store/transcriptions.ts";
import { findEventOf } from "../../webhooks/delivery-rows.ts";
import { type DeliveryHistory, viewDelivery } from "../../webhooks/redelivery.ts";

/** How long a transcription waited and was worked on, milliseconds. */
export type Pace = {
  waitedMs: number;
  workedMs: number;
  /** Audio of the recognized channels by working time, two decimals; null: there was no result, or no history. */
  timesRealTime: number | null;
  /** How often work on it has begun. */
  runs: number;
};

/**
 * Adds up the times between the moves of a transcription.
 *
 * @param nowMs for unfinished ones: until when the present state counts; left out: it does not count
 */
export function paceOf(row: TranscriptionRow, nowMs?: number): Pace {
  let waitedMs = 0;
  let workedMs = 0;
  let runs = 0;
  let before: { state: string; atMs: number } = { state: "queued", atMs: row.createdAt };
  const open = nowMs === undefined || isFinal(row.state) ? [] : [[nowMs, "now"] as const];
  for (const [atMs, state] of [...row.history, ...open]) {
    const passedMs = Math.max(0, atMs - before.atMs);
    if (before.state === "queued") waitedMs += passedMs;
    else workedMs += passedMs;
    if (state === "preparing") runs++;
    before = { state, atMs };
  }
  const hasResult = row.state === "completed" || row.state === "partial";
  const timesRealTime =
    hasResult && workedMs > 0 ? Math.round((100 * billedMsOf(row)) / workedMs) / 100 : null;
  return { waitedMs, workedMs, timesRealTime, runs };
}

/** Everything that is known about a transcription. */
export type TranscriptionStory = {
  row: TranscriptionRow;
  pace: Pace;
  /** Counts at the end of a finished transcription, or current counts. Null where an older version ended it. */
  chunks: ChunkCounts | null;
  ledger: LedgerEntry[];
  /** The delivery of its event; undefined: it has none, or it was removed by its age. */
  delivery: DeliveryHistory | undefined;
  retries: TranscriptionRow[];
  /** What admins, keys and the server have done to it, oldest first. */
  acts: AuditEntry[];
};

const MOST_ACTS = 100;

/** Collects everything that is known about a transcription. */
export function storyOf(store: Store, row: TranscriptionRow, nowMs: number): TranscriptionStory {
  const eventId = findEventOf(store, row);
  const acts = listAudit(store, { object: row.id }, { limit: MOST_ACTS }).data;
  return {
    row,
    pace: paceOf(row, nowMs),
    chunks: isFinal(row.state) ? row.work : countChunks(store, row.id),
    ledger: listEntriesOf(store, row.id),
    delivery: eventId === undefined ? undefined : viewDelivery(store, eventId),
    retries: listRetries(store, row.id),
    acts: acts.reverse(),
  };
}
