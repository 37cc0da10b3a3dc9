import { Database as SqliteDatabase } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Installation, install, reached, until, uploaded } from "./kit.ts";
import { concatenated, sampleBytes } from "./samples.ts";

/** `orgs purge` with kill -9 at random moments, again and again, until one run reaches its end. */

/** Runs that are killed at most; the one after them is not. */
const MOST_KILLS = Number(process.env.SHRUTI_CRASH_ROUNDS ?? 20);

let installation: Installation;
beforeAll(async () => {
  installation = await install({ environment: { SHRUTI_ENGINE_SPEECH_WORKERS: "1" } });
}, 120_000);
afterAll(() => installation?.remove());

type Report = { ok: boolean; charged_paise: number; problems?: unknown[] };

function rows<T>(sql: string, ...values: string[]): T[] {
  const sqlite = new SqliteDatabase(join(installation.dataDir, "shruti.db"), { readonly: true });
  try {
    // A program that was killed leaves a log that the next one to open the database recovers.
    sqlite.run("PRAGMA busy_timeout = 30000");
    return sqlite.query<T, string[]>(sql).all(...values);
  } finally {
    sqlite.close();
  }
}
const count = (sql: string, ...values: string[]) => rows<{ n: number }>(sql, ...values)[0]?.n ?? -1;

/** Counts the steps that a purge still has to take. */
const remaining = (org: string) =>
  count(
    `SELECT (SELECT count(*) FROM transcriptions WHERE organization_id = ?1 AND finished_at IS NULL)
       + (SELECT count(*) FROM transcriptions WHERE organization_id = ?1 AND content_deleted_at IS NULL)
       + (SELECT count(*) FROM uploads WHERE organization_id = ?1 AND deleted_at IS NULL) AS n`,
    org,
  );

test("nothing is half deleted afterwards, ledger and audit log are whole, and other customers are untouched", async () => {
  const org = installation.organizationId;
  const other = (await installation.json<{ id: string }>("orgs", "create", "Other")).id;
  await installation.output("credit", "grant", "--org", other, "--paise", "100000");
  const project = (await installation.json<{ id: string }>("projects", "create", "p", "--org", other)).id;
  const made = await installation.json<{ key: string }>(
    "keys",
    "create",
    "--project",
    project,
    "--name",
    "k",
  );

  const server = await (await installation.serve()).ready();
  const [api, others] = [server.api(), server.api(made.key)];
  const finish = async (client: typeof api) => {
    const upload_id = await uploaded(client, sampleBytes("01-en"));
    const { id } = (await client.start({ audio: { upload_id }, language: "en" })).body;
    await reached(client, id, ["completed"]);
    return { id, upload_id };
  };
  const kept = await finish(others);
  for (let n = 0; n < 5; n++) await finish(api);
  for (let n = 0; n < 25; n++) await api.createUpload(1_000);
  for (let n = 0; n < 3; n++)
    await api.call("POST", "/v1/webhook_endpoints", { url: `https://hooks.example/${n}` });
  // Work that waits, has credit reserved, and is partly begun when the server is killed.
  const long = await uploaded(api, concatenated(["04-en"], 8));
  for (let n = 0; n < 20; n++) await api.start({ audio: { upload_id: long }, language: "en" });
  await server.kill();
  expect(count("SELECT count(*) AS n FROM organizations WHERE reserved_paise > 0")).toBe(1);
  const charged = count("SELECT sum(amount_paise) AS n FROM ledger WHERE kind = 'charge'");

  const states = new Set<string>();
  let kills = 0;
  for (let isOver = false; !isOver; ) {
    const program = join(installation.folder, "program/shruti");
    const child = Bun.spawn([program, "--config", installation.configPath, "orgs", "purge", org, "--yes"], {
      ...{ env: {}, stdout: "ignore", stderr: "pipe" },
    });
    let hasEnded = false;
    const ended = child.exited.finally(() => {
      hasEnded = true;
    });
    // The first kill comes while the program starts, the others after some more steps, at any moment between two of them.
    const steps = Math.floor(Math.random() * 6);
    const before = remaining(org);
    if (kills === 0) await Bun.sleep(20);
    else
      while (!hasEnded && (kills >= MOST_KILLS || remaining(org) > before - 1 - steps))
        await Bun.sleep(Math.random() * 4);
    child.kill("SIGKILL");
    const status = await ended;
    if (child.signalCode === "SIGKILL") kills += 1;
    else {
      // A kill after the last transaction leaves a purge that is complete.
      const said = await child.stderr.text();
      expect({ status, said }).toEqual({
        status: said === "" ? 0 : 5,
        said: expect.stringMatching(/^$|was purged/),
      });
      isOver = true;
    }
    const left = count(
      "SELECT count(*) AS n FROM transcriptions WHERE organization_id = ? AND content_deleted_at IS NULL",
      org,
    );
    states.add(
      `${left} ${count("SELECT count(*) AS n FROM uploads WHERE organization_id = ? AND deleted_at IS NULL", org)}`,
    );
    // What is not marked as deleted is whole.
    for (const { id } of rows<{ id: string }>(
      "SELECT id FROM uploads WHERE organization_id = ? AND state = 'complete' AND deleted_at IS NULL",
      org,
    ))
      expect(existsSync(join(installation.dataDir, "uploads", id))).toBe(true);
    expect(
      count(
        `SELECT count(*) AS n FROM transcriptions AS t LEFT JOIN results AS r ON r.transcription_id = t.id
         WHERE t.state = 'completed' AND (t.content_deleted_at IS NULL) <> (r.transcription_id IS NOT NULL)`,
      ),
    ).toBe(0);
    // Money moves with the state.
    expect(
      count(
        `SELECT count(*) AS n FROM transcriptions AS t WHERE (t.finished_at IS NOT NULL) <>
         EXISTS (SELECT 1 FROM ledger AS l WHERE l.transcription_id = t.id AND l.kind = 'release')`,
      ),
    ).toBe(0);
  }
  if (process.env.SHOW_TIMES) console.log({ kills, states: [...states] });
  expect(kills).toBeGreaterThan(0);

  expect(await installation.json<Report>("credit", "audit")).toMatchObject({ ok: true });
  await installation.output("audit", "verify");
  expect(count("SELECT sum(amount_paise) AS n FROM ledger WHERE kind = 'charge'")).toBe(charged);
  expect(count("SELECT count(*) AS n FROM organizations WHERE reserved_paise <> 0")).toBe(0);
  expect(await installation.output("orgs", "show", org)).toMatch(/State +purged/);
  for (const [table, column] of [
    ["transcriptions", "content_deleted_at"],
    ["uploads", "deleted_at"],
  ])
    expect(
      count(`SELECT count(*) AS n FROM ${table} WHERE organization_id = ? AND ${column} IS NULL`, org),
    ).toBe(0);
  expect(count("SELECT count(*) AS n FROM events")).toBe(0);
  expect(count("SELECT count(*) AS n FROM results")).toBe(1);
  expect(count("SELECT count(*) AS n FROM audit_log WHERE action = 'organization.purge'")).toBe(1);
  const deleted = count("SELECT count(*) AS n FROM receipts WHERE organization_id = ?", org);
  expect(deleted).toBeGreaterThan(5);
  // Each deletion has one receipt, and the file beside the database has all of them.
  expect(count("SELECT count(DISTINCT object) AS n FROM receipts WHERE organization_id = ?", org)).toBe(
    deleted,
  );
  await installation.output("receipts", "list");
  const started = await (await installation.serve()).ready();
  await until(
    "all receipts are marked",
    () => count("SELECT count(*) AS n FROM receipts WHERE mirrored_at IS NULL") === 0,
  );
  // A kill while a line was written leaves half a line, or the line twice; none is lacking.
  const lines = readFileSync(join(installation.dataDir, "deletions.jsonl"), "utf8").split("\n");
  const signed = rows<{ signed: string }>("SELECT signed FROM receipts");
  expect(signed.filter((receipt) => !lines.includes(receipt.signed))).toEqual([]);
  // Only the other customer's recording is left, and its key works.
  expect(readdirSync(join(installation.dataDir, "uploads"))).toEqual([kept.upload_id]);
  expect((await started.api(made.key).result(kept.id)).text).not.toBe("");
  await expect(started.api().list()).rejects.toThrow("401");
  expect(await started.stop()).toBe(0);
}, 300_000);
