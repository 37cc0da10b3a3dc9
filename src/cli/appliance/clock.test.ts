import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { newId } from "../../lib/ids.ts";
import { databasePath, openDatabase } from "../../store/database.ts";
import { insertUpload } from "../../store/uploads.ts";
import { manualClock } from "../../testing/kits/manual-clock.ts";
import { runAnswered, runCaptured } from "../../testing/kits/run-cli.ts";

const DAY_MS = 86_400_000;
const folder = mkdtempSync(join(tmpdir(), "shruti-clock-"));
const config = join(folder, "shruti.toml");
const clock = manualClock(Date.UTC(2026, 10, 26));
const environment = { SHRUTI_CONFIG: config };
const run = (...argv: string[]) => runCaptured(argv, environment, clock);
const json = async (...argv: string[]) => JSON.parse((await run(...argv, "--json")).out);
afterAll(() => rmSync(folder, { recursive: true }));
beforeAll(async () => {
  expect((await run("init", "--config", config, "--data", join(folder, "data"))).status).toBe(0);
  await makeRecording();
});

/** Writes the record of a recording that is finished now. */
async function makeRecording(): Promise<void> {
  const [{ id: projectId, organization_id: organizationId }] = await json("projects", "list");
  const database = openDatabase(databasePath(join(folder, "data")));
  const nowMs = clock.now();
  const id = newId("upload", nowMs);
  const row = { organizationId, projectId, id, bytes: 1, tokenHash: "", createdAt: nowMs, expiresAt: nowMs };
  insertUpload(database.store, { ...row, state: "complete", finishedAt: nowMs });
  database.close();
}

const show = () => run("clock", "show");
const prune = () => run("storage", "prune", "--older-than", "90d", "--yes");
const entries = async () => (await json("audit", "list", "--action", "clock.confirm")).length;

test("a clock in doubt: what says so, what is refused, and how an admin ends it", async () => {
  expect((await show()).out).toMatch(/trusted +yes\nold by it +0 recordings, 0 transcripts/);
  expect(await json("clock", "confirm")).toMatchObject({ confirmed: false, trusted: true });
  expect(await entries()).toBe(0);
  expect((await prune()).status).toBe(0);

  clock.leap(40 * DAY_MS);
  clock.reboot();
  expect((await show()).out).toContain("no: it is 40 d 0 h ahead of what is known");
  const { status, err, asked } = await runAnswered("no", ["clock", "confirm"], environment, clock);
  expect([status, err, await entries()]).toEqual([1, "error: nothing was changed\n", 0]);
  expect(asked).toHaveLength(1);
  expect(asked[0]).toStartWith("Is 2027-01-05T00:00:00.000Z the right time?");
  expect(asked[0]).toContain("1 recording, 0 transcripts");
  expect(await json("clock", "show")).toEqual({
    ...{ trusted: false, clock: "2027-01-05T00:00:00.000Z", expected: "2026-11-26T00:00:00.000Z" },
    ...{ offset_seconds: 40 * 86_400, agreed_seconds: 0 },
    old: { recordings: 1, transcripts: 0 },
  });
  expect(await json("status")).toMatchObject({ clock: { trusted: false } });
  expect((await run("status")).out).toContain("in doubt: it is 40 d 0 h ahead");
  const checks: { check: string; ok: boolean }[] = await json("doctor");
  expect(checks.find(({ check }) => check === "clock")).toMatchObject({ ok: false });
  expect(await prune()).toMatchObject({ status: 5, err: expect.stringContaining("clock show") });

  expect((await run("clock", "confirm")).out).toBe("The clock is trusted: 2027-01-05T00:00:00.000Z.\n");
  expect(await entries()).toBe(1);
  expect((await prune()).status).toBe(0);
  expect((await run("status")).out).not.toContain("in doubt");
  clock.leap(-400 * DAY_MS);
  expect((await show()).out).toContain("400 d 0 h behind what is known");
  clock.leap(400 * DAY_MS);
});

test("old backups are not removed under a clock in doubt, and one from the future is not newer than the last one", async () => {
  const store = join(folder, "store");
  const backUp = async (keep: number) => {
    clock.advance(1000);
    const { path, removed } = await json("backup", "--to", store, "--keep", String(keep));
    return { name: basename(path), removed: removed as string[] };
  };
  const [first, second] = [await backUp(2), await backUp(2)];
  clock.leap(40 * DAY_MS);
  const ahead = await backUp(1);
  expect(ahead.removed).toEqual([]);
  clock.leap(-40 * DAY_MS);
  const last = await backUp(2);
  expect(last.removed).toEqual([ahead.name, first.name]);
  expect(readdirSync(join(store, "backups")).sort()).toEqual([second.name, last.name]);
});
