import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newId } from "../../lib/ids.ts";
import { openDatabase } from "../../store/database.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-usage-"));
const environment = { SHRUTI_CONFIG: join(folder, "shruti.toml") };
const run = (...argv: string[]) => runCaptured(argv, environment);
const json = async (...argv: string[]) => JSON.parse((await run(...argv, "--json")).out);
let ids: { organization_id: string; project_id: string };
let other: string;

/** The month ends at midnight in India, 18:30 UTC. */
const LAST_OF_NOVEMBER = Date.parse("2026-11-30T18:29:59.999Z");
const FIRST_OF_DECEMBER = LAST_OF_NOVEMBER + 1;
const FIRST_OF_NOVEMBER = Date.parse("2026-10-31T18:30:00Z");

beforeAll(async () => {
  ids = JSON.parse((await run("init", "--data", join(folder, "data"), "--json")).out);
  other = (await run("orgs", "create", "Idle")).out.trim();
  await run("credit", "grant", "--org", ids.organization_id, "--paise", "1000");
  const database = openDatabase(join(folder, "data/shruti.db"));
  const { sqlite } = database;
  sqlite.run("PRAGMA foreign_keys = OFF");
  const insert = (createdAt: number, state: string, amount: number) =>
    sqlite.run(
      `INSERT INTO usage_events (id, organization_id, project_id, transcription_id, model_id, state, audio_ms, billed_ms,
         channels, amount_paise, created_at) VALUES (?, ?, ?, ?, 'demo', ?, 1800000, ?, 1, ?, ?)`,
      [
        ...[newId("usageEvent", createdAt), ids.organization_id, ids.project_id],
        ...[newId("transcription", createdAt), state, amount * 1000, amount, createdAt],
      ],
    );
  insert(FIRST_OF_NOVEMBER - 1, "completed", 100);
  insert(FIRST_OF_NOVEMBER, "completed", 10);
  insert(LAST_OF_NOVEMBER, "partial", 5);
  insert(LAST_OF_NOVEMBER, "cancelled", 0);
  insert(FIRST_OF_DECEMBER, "completed", 1000);
  database.close();
});
afterAll(() => rmSync(folder, { recursive: true }));

test("a month begins and ends at midnight of the billing time zone", async () => {
  const summary = await json("usage", "summary", "--month", "2026-11", "--org", ids.organization_id);
  expect(summary).toMatchObject({
    ...{ month: "2026-11", timezone: "Asia/Kolkata" },
    ...{ from: "2026-10-31T18:30:00.000Z", to: "2026-11-30T18:30:00.000Z" },
    organizations: [
      {
        ...{ organization_id: ids.organization_id, name: "default", transcriptions: 3 },
        ...{ completed: 1, partial: 1, failed: 0, cancelled: 1 },
        ...{ audio_seconds: 5400, billed_seconds: 15, amount_paise: 15, balance_paise: 1000 },
      },
    ],
    total: { transcriptions: 3, amount_paise: 15 },
  });
  const december = await json("usage", "summary", "--month", "2026-12");
  expect(december.total).toMatchObject({ transcriptions: 1, amount_paise: 1000 });
});

test("sums agree with the events that are exported", async () => {
  const events: { amount_paise: number }[] = await json(
    ...["usage", "export", "--org", ids.organization_id, "--from", "2026-11-01", "--to", "2026-11-30"],
  );
  const { total } = await json("usage", "summary", "--month", "2026-11");
  expect(events.reduce((sum, { amount_paise }) => sum + amount_paise, 0)).toBe(total.amount_paise);
  expect(events).toHaveLength(total.transcriptions);
});

test("as a table and as CSV; organizations that used nothing are left out unless asked for", async () => {
  const table = await run("usage", "summary", "--month", "2026-11");
  expect(table.out).toContain("CHARGED");
  expect(table.out).toMatch(/^total +3 +1 +1\.50 +₹0\.15/m);
  expect(table.out).not.toContain("Idle");
  const csv = await run("usage", "summary", "--month", "2026-11", "--format", "csv");
  const [head, line, total] = csv.out.split("\r\n");
  expect(head).toStartWith(
    "month,organization_id,name,transcriptions,completed,partial,failed,cancelled,audio_seconds,",
  );
  expect(line).toStartWith(`2026-11,${ids.organization_id},default,3,1,1,0,1,5400,15,15,`);
  expect(total).toStartWith("2026-11,total,,3,1,1,0,1,5400,15,15,");
  const idle = await json("usage", "summary", "--month", "2026-11", "--org", other);
  expect(idle.organizations[0]).toMatchObject({ name: "Idle", transcriptions: 0, granted_paise: 0 });
  // A name can be given instead of the ID.
  expect((await json("usage", "summary", "--org", "Idle")).organizations[0].organization_id).toBe(other);
});

test("grants count in the month in which they were made", async () => {
  const { month, total } = await json("usage", "summary");
  expect(month).toMatch(/^\d{4}-\d\d$/);
  expect(total.granted_paise).toBe(1000);
  expect((await json("usage", "summary", "--month", "2020-01")).organizations).toEqual([]);
});

test.each(["2026-13", "2026-1", "November", "26-11"])("%s is refused", async (month) => {
  expect((await run("usage", "summary", "--month", month)).status).toBe(2);
});
