import { afterAll, expect, test } from "bun:test";
import { drizzle } from "drizzle-orm/bun-sqlite";
import { countFailedOfEndpoint, countPendingOfEndpoint } from "../webhooks/delivery-rows.ts";
import { deleteRemovedEndpoints } from "../webhooks/event-rows.ts";
import { listEndedWithChunks } from "./chunks.ts";
import { openDatabase, type Store } from "./database.ts";
import { listContentOf, listRecordingsOf, listUnfinishedOf, listUploadsOf } from "./purge.ts";
import * as schema from "./schema.ts";
import {
  countUnfinishedByState,
  countUnfinishedWithModel,
  isUploadInUse,
  listFinishedBefore,
  listUnfinished,
} from "./transcriptions.ts";
import {
  deleteRejectedUploads,
  listExpiredUploads,
  listUnusedAudio,
  listVerifyingUploads,
  openUploadsOf,
} from "./uploads.ts";

/** What a running server reads again and again must not grow with all that it has ever taken. */

const { sqlite, close } = openDatabase(":memory:");
afterAll(close);

const statements: { query: string; params: unknown[] }[] = [];
const logger = { logQuery: (query: string, params: unknown[]) => void statements.push({ query, params }) };
const store: Store = drizzle(sqlite, { schema, logger });
const [org, prj, now] = ["org_1", "prj_1", 1];
/** A clock that was wrong twice must not make a statement read more. */
const wrong = [1, 2].map((fromMs) => ({ fromMs, toMs: fromMs + 1, shiftMs: 5 }));
const ages = { nowMs: now, wrong };

/** Returns how the only statement so far reads tables. */
function planOf(): string[] {
  expect(statements).toHaveLength(1);
  const [{ query, params } = { query: "", params: [] }] = statements;
  const plan = sqlite
    .query<{ detail: string }, never[]>(`EXPLAIN QUERY PLAN ${query}`)
    .all(...(params as never[]));
  return plan.map(({ detail }) => detail).filter((detail) => /^(SCAN|SEARCH) /.test(detail));
}

test.each([
  ["expired uploads", () => listExpiredUploads(store, ages, 10), "uploads_unfinished"],
  ["uploads that are being verified", () => listVerifyingUploads(store), "uploads_unfinished"],
  ["open uploads", () => openUploadsOf(store, org, now), "uploads_open"],
  ["audio after its period", () => listUnusedAudio(store, prj, ages, 10), "uploads_kept"],
  ["work after a start", () => listUnfinished(store), "transcriptions_unfinished"],
  ["work by state", () => countUnfinishedByState(store), "transcriptions_unfinished"],
  ["work with a model", () => countUnfinishedWithModel(store, "m"), "transcriptions_unfinished"],
  ["work with an upload", () => isUploadInUse(store, "up_1"), "transcriptions_by_upload"],
  ["transcripts after their period", () => listFinishedBefore(store, prj, ages, 10), "transcriptions_kept"],
  ["unfinished work of a purge", () => listUnfinishedOf(store, org, 10), "transcriptions_unfinished"],
  ["transcripts of a purge", () => listContentOf(store, org, 10), "transcriptions_kept"],
  ["recordings of a purge", () => listRecordingsOf(store, org, 10), "uploads_kept"],
  ["pending events of an endpoint", () => countPendingOfEndpoint(store, "whe_1"), "deliveries_due"],
  ["failed events of an endpoint", () => countFailedOfEndpoint(store, "whe_1"), "deliveries_failed"],
  ["records of rejected uploads", () => deleteRejectedUploads(store, ages, 10), "uploads_rejected"],
  [
    "records of removed endpoints",
    () => deleteRemovedEndpoints(store, ages, 10),
    "webhook_endpoints_removed",
  ],
  [
    "files of a purge",
    () => listUploadsOf(store, org, { projectId: prj, id: "up_1" }, 10),
    "uploads_by_project",
  ],
])("%s are found through an index", (_what, read, index) => {
  statements.length = 0;
  read();
  const tables = planOf();
  // A removal finds its rows in a query of its own.
  expect(tables.find((detail) => !detail.includes("(id=?)")) ?? tables[0]).toContain(index);
  expect(
    tables.filter((detail) => /^SCAN (?!\w+ USING (COVERING )?INDEX \w+_unfinished)/.test(detail)),
  ).toEqual([]);
});

test("ended work with chunks is found by its identifiers, not by reading chunks", () => {
  statements.length = 0;
  listEndedWithChunks(store);
  const reads = planOf().filter((detail) => !detail.startsWith("SCAN owners"));
  expect(reads.filter((detail) => !/^SEARCH \w+ USING (COVERING )?INDEX/.test(detail))).toEqual([]);
});
