import { Database as SqliteDatabase } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { sha256Hex } from "../lib/sha256.ts";
import { migrate } from "../store/database.ts";
import { MIGRATIONS } from "../store/migrations/index.ts";
import { type Installation, install } from "./kit.ts";

/** The executable and databases of other versions: who upgrades them, who leaves them alone, and with which status. */

let installation: Installation;
let path: string;
beforeAll(async () => {
  installation = await install();
  path = join(installation.dataDir, "shruti.db");
}, 300_000);
afterAll(() => installation?.remove());

const OLD = MIGRATIONS[2]?.name ?? "";
const LATEST = MIGRATIONS.at(-1)?.name ?? "";

function replaceDatabase(make: (sqlite: SqliteDatabase) => void): void {
  for (const name of readdirSync(installation.dataDir).filter((each) => each.startsWith("shruti.db")))
    rmSync(join(installation.dataDir, name));
  const sqlite = new SqliteDatabase(path, { create: true });
  sqlite.run("PRAGMA journal_mode = WAL");
  make(sqlite);
  sqlite.close(true);
  chmodSync(path, 0o600);
}
const makeOlder = () => replaceDatabase((sqlite) => migrate(sqlite, MIGRATIONS.slice(0, 3)));
const makeNewer = () =>
  replaceDatabase((sqlite) => {
    migrate(sqlite);
    sqlite.run("INSERT INTO schema_migrations VALUES ('9999_future', 'x', 0)");
  });

/** What a command could have changed about the database. */
const traces = () =>
  readdirSync(installation.dataDir)
    .filter((name) => name.startsWith("shruti.db"))
    .map((name) => {
      const file = join(installation.dataDir, name);
      return `${name} ${statSync(file).mtimeMs} ${sha256Hex(readFileSync(file))}`;
    });

const version = () => installation.json<{ state: string; found: string }>("migrate", "--check");

const COMMANDS = [
  ["orgs", "list"],
  ["orgs", "create", "x"],
  ["projects", "list"],
  ["keys", "list"],
  ["credit", "audit"],
  ["transcriptions", "list"],
  ["webhooks", "list"],
  ["models", "list"],
  ["usage", "export", "--org", "org_none"],
  ["status"],
  ["transcribe", "call.wav"],
];
describe.each([
  ["older", makeOlder, "has version 3 (transcriptions by state)", "shruti migrate"],
  ["newer", makeNewer, "was written by a newer version: it has version 9999 (future)", "shruti restore"],
])("with a database of a version that is %s", (_which, make, found, advice) => {
  test("commands end with 6, say what to do, and leave no trace", async () => {
    make();
    const before = traces();
    for (const command of COMMANDS) {
      const { code, err } = await installation.command(...command);
      expect({ command, code, err }).toEqual({ command, code: 6, err: expect.stringContaining(found) });
      expect(err).toContain("this program needs version");
      expect(err).toContain(advice);
    }
    expect(traces()).toEqual(before);
  }, 60_000);

  test("doctor reports it, and a backup can be made", async () => {
    make();
    const before = traces();
    const { code, out } = await installation.command("doctor", "--json");
    expect(code).toBe(1);
    const findings = JSON.parse(out) as { check: string; ok: boolean; detail: string }[];
    expect(findings.find(({ check }) => check === "database")).toMatchObject({
      ok: false,
      detail: expect.stringContaining(found),
    });
    expect(findings.find(({ check }) => check === "engine")).toMatchObject({ ok: true });
    expect(traces()).toEqual(before);
    const backup = join(installation.folder, `${advice}.db`.replaceAll(" ", "-"));
    expect((await installation.command("backup", backup)).code).toBe(0);
    expect(statSync(backup).size).toBeGreaterThan(100_000);
  }, 60_000);
});

test("serve and migrate end with 6 for a newer database, and leave no trace", async () => {
  makeNewer();
  const before = traces();
  for (const command of ["serve", "migrate"]) {
    const { code, err } = await installation.command(command);
    expect({ code, err }).toEqual({
      code: 6,
      err: expect.stringContaining("was written by a newer version"),
    });
  }
  expect((await installation.command("migrate", "--check")).code).toBe(6);
  expect(traces()).toEqual(before);
}, 30_000);

test("of several that upgrade at once, one does it, and there is one backup", async () => {
  for (let round = 0; round < 5; round++) {
    makeOlder();
    expect(await version()).toMatchObject({ state: "older", found: OLD });
    const outcomes = await Promise.all([1, 2, 3].map(() => installation.command("migrate", "--json")));
    const made = outcomes.filter(({ out }) => out.includes('"upgraded": true'));
    expect(made.map(({ code }) => code)).toEqual([0]);
    for (const { code } of outcomes) expect(code).toBeOneOf([0, 5]);
    expect(await version()).toMatchObject({ state: "current", found: LATEST });
    expect(traces().filter((trace) => trace.includes(".version-"))).toHaveLength(1);
  }
}, 60_000);

test("an upgrade is undone and made again; a server that has been ready keeps it", async () => {
  makeOlder();
  await installation.output("migrate");
  await installation.output("migrate", "--undo");
  expect(await version()).toMatchObject({ state: "older", found: OLD });
  const server = await installation.serve();
  await server.ready();
  expect(server.log()).toContain("the database has been upgraded");
  expect((await fetch(`${server.baseUrl}/v1/usage`)).status).toBe(401);
  expect((await installation.command("status", "--ready")).out).toBe("ready\n");
  expect((await installation.command("migrate")).code).toBe(5);
  expect(await server.stop()).toBe(0);
  const undone = await installation.command("migrate", "--undo");
  expect({ ...undone }).toMatchObject({
    code: 4,
    err: expect.stringContaining("no upgrade that could be undone"),
  });
  expect(await version()).toMatchObject({ state: "current" });
  expect((await installation.command("status", "--ready")).code).toBe(1);
}, 60_000);

test("a restore leaves the version of its backup to the next start", async () => {
  makeOlder();
  const backup = join(installation.folder, "older.db");
  await installation.output("backup", backup);
  replaceDatabase((sqlite) => migrate(sqlite));
  await installation.output("restore", backup);
  expect(await version()).toMatchObject({ state: "older", found: OLD });
  await installation.output("migrate");
  expect(await version()).toMatchObject({ state: "current" });
}, 30_000);

test.skipIf(process.getuid?.() === 0 && !Bun.which("setpriv"))(
  "a server whose user may not write the data directory ends with 7 (needs setpriv where root tests)",
  async () => {
    makeOlder();
    const folder = join(installation.folder, "foreign");
    mkdirSync(folder, { mode: 0o755 });
    chmodSync(installation.folder, 0o755);
    const asOther = process.getuid?.() === 0 ? ["setpriv", "--reuid", "65534", "--clear-groups"] : [];
    const child = Bun.spawn([...asOther, join(installation.folder, "program/shruti"), "serve"], {
      env: { SHRUTI_STORAGE_DATA_DIR: installation.dataDir },
      cwd: folder,
      stdout: "pipe",
      stderr: "pipe",
    });
    const [code, err] = await Promise.all([child.exited, child.stderr.text()]);
    if (asOther.length > 0)
      expect({ code, err }).toEqual({ code: 7, err: expect.stringContaining("EACCES") });
    else child.kill();
  },
  30_000,
);
