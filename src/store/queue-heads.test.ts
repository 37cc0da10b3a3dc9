import { afterAll, beforeAll, expect, test } from "bun:test";
import { openDatabase } from "./database.ts";
import {
  countQueuedBefore,
  findTranscription,
  listQueueHeads,
  listQueuePositions,
} from "./transcriptions.ts";

/** The query for the heads of the queue. */

const database = openDatabase(":memory:");
const { store, sqlite } = database;
afterAll(() => database.close());

/** Organization, project, length, state. A later row is younger. */
const ROWS = [
  ["org_a", "prj_1", 300, "queued"],
  ["org_a", "prj_1", 100, "queued"],
  ["org_a", "prj_1", 50, "transcribing"],
  ["org_a", "prj_2", 200, "queued"],
  ["org_b", "prj_3", 400, "queued"],
  ["org_b", "prj_3", 400, "queued"],
  ["org_c", "prj_4", 10, "completed"],
] as const;

beforeAll(() => {
  sqlite.run("PRAGMA foreign_keys = OFF");
  const insert = sqlite.query(`INSERT INTO transcriptions
    (id, organization_id, project_id, upload_id, entrance, model_id, model_version, language, mode, timestamps, diarization,
     channel_mode, state, created_at, duration_ms, channels, price_paise_per_audio_hour, reserved_paise)
    VALUES (?, ?, ?, 'upl', 'asynchronous', 'm', '1', 'hi', 'native', 'segment', 0, 'mix', ?, 0, ?, 1, 0, 0)`);
  for (const [index, [organizationId, projectId, durationMs, state]] of ROWS.entries())
    insert.run(`tr_${index}`, organizationId, projectId, state, durationMs);
});

test("the heads are the oldest and the shortest queued transcription of each project", () => {
  const heads = listQueueHeads(store).map(({ id }) => id);
  expect(heads.sort()).toEqual(["tr_0", "tr_1", "tr_3", "tr_4"]);
});

test("an empty queue has no heads", () => {
  const empty = openDatabase(":memory:");
  expect(listQueueHeads(empty.store)).toEqual([]);
  empty.close();
});

test.each([
  ["tr_1", 0],
  ["tr_3", 1],
  ["tr_0", 2],
  ["tr_4", 0],
  ["tr_5", 1],
])("%s has %d of its organization ahead", (id, ahead) => {
  const row = findTranscription(store, id);
  if (!row) throw new Error(id);
  expect(countQueuedBefore(store, row)).toBe(ahead);
  const positions = listQueuePositions(store, row.organizationId, [
    "tr_0",
    "tr_1",
    "tr_2",
    "tr_3",
    "tr_4",
    "tr_5",
  ]);
  expect(positions.get(id)).toBe(ahead);
  expect(positions.has("tr_2")).toBe(false);
});

test("heads are found through the indexes, without reading or sorting the queue", () => {
  const statements: string[] = [];
  // The statement is prepared once for each database, so this is another one.
  const other = openDatabase(":memory:");
  const prepare = other.sqlite.prepare.bind(other.sqlite);
  other.sqlite.prepare = ((text: string) => {
    statements.push(text);
    return prepare(text);
  }) as typeof sqlite.prepare;
  listQueueHeads(other.store);
  other.close();
  const [heads = ""] = statements;
  const plan = sqlite.query<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${heads}`).all();
  const details = plan.map(({ detail }) => detail).join("\n");
  expect(details).toContain("transcriptions_queued_by_age");
  expect(details).toContain("transcriptions_queued_by_work (organization_id=? AND project_id=?)");
  expect(details).not.toContain("TEMP B-TREE");
});
