import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../lib/clock.ts";
import { newId } from "../../lib/ids.ts";
import { createReceiptService } from "../../services/receipts.ts";
import { databasePath, openDatabase, transaction } from "../../store/database.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";

/** All receipts of a customer in one file, which can be verified as a whole. */

const folder = mkdtempSync(join(tmpdir(), "shruti-export-"));
const at = (name: string) => join(folder, name);
const environment = { SHRUTI_CONFIG: at("shruti.toml"), SHRUTI_LOG_LEVEL: "silent" };
const run = (...args: string[]) => runCaptured(args, environment);
let org = "";
beforeAll(async () => {
  org = JSON.parse((await run("init", "--data", at("data"), "--json")).out).organization_id;
  const database = openDatabase(databasePath(at("data")));
  const receipts = createReceiptService({ database, clock: systemClock, dataDir: at("data") });
  transaction(database.store, (tx) => {
    for (const owner of [org, "org_other", org]) {
      const deleted = { kind: "upload", id: newId("upload", 1), organization_id: owner } as const;
      receipts.write(tx, { deleted, recording: null, transcript: null, removed: null });
    }
  });
  database.close();
  writeFileSync(at("export.jsonl"), (await run("receipts", "export", "--org", org)).out);
  writeFileSync(at("key.pem"), (await run("receipts", "key")).out);
  writeFileSync(at("other.pem"), await otherKey());
}, 60_000);
afterAll(() => rmSync(folder, { recursive: true }));

async function otherKey(): Promise<string> {
  await run("--config", at("other.toml"), "init", "--data", at("other"));
  return (await run("--config", at("other.toml"), "receipts", "key")).out;
}

const lines = () => readFileSync(at("export.jsonl"), "utf8").trim().split("\n");

type Case = [name: string, content: () => string, args: () => string[], status: number, out: RegExp];
const CASES: Case[] = [
  ["as it was exported", () => `${lines().join("\n")}\n`, () => [], 0, /^2 receipts, unchanged/],
  [
    "with the key",
    () => `${lines().join("\n")}\n`,
    () => ["--key", at("key.pem")],
    0,
    /^2 receipts, signed with/,
  ],
  ["with another key", () => `${lines().join("\n")}\n`, () => ["--key", at("other.pem")], 1, /line 1: /],
  [
    "with one line changed",
    () => `${lines()[0]}\n${lines()[1]?.replace("up_", "up_1")}\n`,
    () => [],
    1,
    /line 2: /,
  ],
  ["with a line that was cut", () => `${lines()[0]}\n${lines()[1]?.slice(0, 90)}\n`, () => [], 1, /line 2: /],
  ["whose last line has no end", () => lines().join("\n"), () => [], 1, /line 2: .*not complete/],
  ["with one line alone", () => `${lines()[0]}\n`, () => [], 0, /Deleted/],
];
test.each(CASES)("a file of receipts is verified %s", async (_name, content, args, status, said) => {
  writeFileSync(at("file.jsonl"), content());
  const outcome = await run("receipts", "verify", at("file.jsonl"), ...args());
  expect({ ...outcome, said: outcome.out + outcome.err }).toMatchObject({
    ...{ status, said: expect.stringMatching(said) },
  });
});

test("an export has the receipts of one organization, and as JSON its verification names the keys", async () => {
  expect(lines().map((line) => JSON.parse(line).document.deleted.organization_id)).toEqual([org, org]);
  const verified = await run("receipts", "verify", at("export.jsonl"), "--json");
  expect(JSON.parse(verified.out)).toMatchObject({ ok: true, receipts: 2, trusted: false });
  expect((await run("receipts", "export", "--org", "org_none")).status).toBe(4);
});
