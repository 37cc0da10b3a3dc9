import { Database as SqliteDatabase } from "bun:sqlite";
import { afterEach, beforeEach, expect, test } from "bun:test";
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newId } from "../../lib/ids.ts";
import { createApiKeyService } from "../../services/api-keys.ts";
import { closeAgain } from "../../services/backups/restored-access.ts";
import { closeLaterIn } from "../../services/journal/closings.ts";
import { findFingerprint } from "../../services/signed/appliance-key.ts";
import { recordAct, verifyAudit } from "../../store/audit-log.ts";
import { databasePath, openDatabase, transaction } from "../../store/database.ts";
import { findSetting, putSetting, SETTING_NAMES } from "../../store/settings.ts";
import { closeForgotten } from "../../testing/kits/forgotten-connections.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";
import { insertEndpoint } from "../../webhooks/event-rows.ts";

/** A restore opens nothing that was closed after the backup, and holds keys back where it does not know. */

const MINUTE_MS = 60_000;
const T0 = Date.parse("2026-11-26T10:00:00Z");

let root: string;
let nowMs: number;
let old: Machine;
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "shruti-restored-access-"));
  nowMs = T0;
  old = await machine("old");
});
afterEach(() => rmSync(root, { recursive: true }));

type Machine = Awaited<ReturnType<typeof machine>>;
type Access = {
  known_until: string | null;
  all_known: boolean;
  closed: { kind: string; id: string; change: string }[];
  ended: { links: number; sessions: number };
  keys_valid: number;
  keys_held: number;
};

/** A data directory of its own, with an organization, a project and a key. */
async function machine(name: string) {
  const dataDir = join(root, name);
  const environment = { SHRUTI_CONFIG: join(root, `${name}.toml`), SHRUTI_LOG_LEVEL: "silent" };
  async function run(...args: string[]): Promise<string> {
    if (args[0] === "restore") await closeForgotten(databasePath(dataDir));
    const { status, out, err } = await runCaptured(args, environment, { now: () => nowMs });
    expect({ args, status, err: status === 0 ? "" : err }).toEqual({ args, status: 0, err: "" });
    return out;
  }
  const made = JSON.parse(await run("init", "--data", dataDir, "--json")) as Record<
    "organization_id" | "project_id" | "key",
    string
  >;
  const restore = async (path: string, ...options: string[]) =>
    JSON.parse(await run("restore", path, "--json", ...options)) as {
      access: Access;
      deletions_repeated: number;
      workers_held: number;
    };
  return {
    ...made,
    dataDir,
    environment,
    run,
    path: databasePath(dataDir),
    restore: async (path: string, ...options: string[]) => (await restore(path, ...options)).access,
    restoreAll: restore,
    keys: async () => JSON.parse(await run("keys", "list", "--json")) as { id: string; state: string }[],
    /** Reports whether the server would accept the key. */
    accepts(key: string): boolean {
      const database = openDatabase(databasePath(dataDir));
      try {
        createApiKeyService({ database, clock: { now: () => nowMs } }).authenticate(`Bearer ${key}`);
        return true;
      } catch {
        return false;
      } finally {
        database.close();
      }
    },
  };
}

/** Makes a backup of the old machine. @param form the kind of backup */
async function backup(form: "database" | "archive" | "store"): Promise<string> {
  const path = join(root, `${form}-${nowMs}`);
  await old.run(
    "backup",
    ...(form === "store" ? ["--to", path] : [path, ...(form === "archive" ? ["--all"] : [])]),
  );
  return path;
}

function addEndpoint(): string {
  const database = openDatabase(old.path);
  const id = newId("webhookEndpoint", nowMs);
  insertEndpoint(database.store, {
    ...{ id, projectId: old.project_id, organizationId: old.organization_id, url: "https://a.example/" },
    ...{ secret: "whsec_old", createdAt: nowMs },
  });
  database.close();
  return id;
}

test.each(["database", "store"] as const)(
  "on the same machine, what was closed after a backup (%s) stays closed",
  async (form) => {
    const [rotated, removed, disabled] = [addEndpoint(), addEndpoint(), addEndpoint()];
    const other = (await old.run("orgs", "create", "Other")).trim();
    await old.run("console", "--json");
    const made = await backup(form);
    nowMs += 90 * MINUTE_MS;
    const [key] = await old.keys();
    await old.run("keys", "revoke", key?.id ?? "");
    await old.run("orgs", "disable", other);
    await old.run("webhooks", "rotate", rotated);
    await old.run("webhooks", "remove", removed);
    await old.run("webhooks", "disable", disabled);
    const access = await old.restore(made);
    expect(access).toMatchObject({ all_known: true, keys_held: 0, keys_valid: 0 });
    expect(access.closed.map(({ id, change }) => `${id} ${change}`).sort()).toEqual(
      [
        `${key?.id} revoked`,
        `${other} disabled`,
        `${rotated} secret_rotated`,
        `${removed} removed`,
        `${disabled} disabled`,
      ].sort(),
    );
    expect(await old.keys()).toMatchObject([{ state: "revoked" }]);
    expect(old.accepts(old.key)).toBe(false);
    expect(JSON.parse(await old.run("orgs", "show", other, "--json"))).toMatchObject({ disabled: true });
    const database = openDatabase(old.path);
    const rows = database.sqlite
      .query(
        "SELECT id, secret = 'whsec_old' AS old, removed_at, disabled_at FROM webhook_endpoints ORDER BY id",
      )
      .all();
    expect(rows).toMatchObject([
      { id: rotated, old: 0 },
      { id: removed, removed_at: nowMs },
      { id: disabled, disabled_at: nowMs },
    ]);
    expect(database.sqlite.query("SELECT * FROM console_secrets").all()).toEqual([]);
    expect(database.sqlite.query("SELECT * FROM settings WHERE name = 'copy.moment'").all()).toEqual([]);
    expect(verifyAudit(database.store)).toMatchObject({ ok: true });
    database.close();
    const acts = (await old.run("audit", "list", "--object", key?.id ?? "", "--json")).match(
      /"action": "[^"]+"/g,
    );
    expect(acts).toEqual(['"action": "key.revoke"', '"action": "key.create"']);
  },
  60_000,
);

test("sessions end although the backup is a minute old, and a link that was used cannot be used again", async () => {
  await old.run("console", "--json");
  const made = await backup("database");
  nowMs += MINUTE_MS;
  const access = await old.restore(made);
  expect(access).toMatchObject({ ended: { links: 1, sessions: 0 }, closed: [], keys_held: 0 });
});

type Elsewhere = { ageMs: number; first?: (there: Machine) => void; options?: string[]; held: boolean };
const ELSEWHERE: Record<string, Elsewhere> = {
  "a backup of five minutes ago is a move: its key is valid": { ageMs: 5 * MINUTE_MS, held: false },
  "a backup of an hour ago: its key is held": { ageMs: 60 * MINUTE_MS, held: true },
  "a backup from the future: its key is held": { ageMs: -60 * MINUTE_MS, held: true },
  "an admin who vouches for the keys": { ageMs: 60 * MINUTE_MS, options: ["--confirm-keys"], held: false },
};
test.each(Object.entries(ELSEWHERE))(
  "on another machine: %s",
  async (_, { ageMs, options = [], held }) => {
    const made = await backup("database");
    const there = await machine("there");
    nowMs += ageMs;
    const access = await there.restore(made, ...options);
    expect(access).toMatchObject({ all_known: false, keys_valid: 1, keys_held: held ? 1 : 0 });
    expect(access.known_until).toBe(new Date(T0).toISOString());
    expect(await there.keys()).toMatchObject([{ state: held ? "held" : "active" }]);
    expect(there.accepts(old.key)).toBe(!held);
  },
  60_000,
);

test("a held key is refused until it is confirmed, also by a second restore, and new keys are not held", async () => {
  const made = await backup("archive");
  const there = await machine("there");
  nowMs += 60 * MINUTE_MS;
  expect(await there.restore(made)).toMatchObject({ keys_held: 1 });
  const key = (await there.run("keys", "create", "--project", old.project_id, "--name", "n")).trim();
  expect([there.accepts(old.key), there.accepts(key)]).toEqual([false, true]);
  nowMs += MINUTE_MS;
  const status = await runCaptured(["status", "--json"], there.environment, { now: () => nowMs });
  expect(JSON.parse(status.out)).toMatchObject({ keys_held: 1 });
  // The machine has not learned anything meanwhile.
  expect(await there.restore(made)).toMatchObject({ all_known: true, keys_held: 1 });
  expect(there.accepts(old.key)).toBe(false);
  const id = (await there.keys())[0]?.id ?? "";
  expect(JSON.parse(await there.run("keys", "confirm", id, "--json"))).toMatchObject([
    { id, state: "active" },
  ]);
  expect(there.accepts(old.key)).toBe(true);
  expect(await there.run("audit", "list", "--json")).toContain('"key.confirm"');
  nowMs += MINUTE_MS;
  // What is confirmed stays confirmed: this machine knows it.
  expect(await there.restore(made)).toMatchObject({ keys_held: 0 });
  expect(there.accepts(old.key)).toBe(true);
}, 60_000);

test("a previous database that is damaged proves nothing: keys are held, and the file of closings still counts", async () => {
  await old.run("keys", "create", "--project", old.project_id, "--name", "second");
  const made = await backup("database");
  nowMs += 60 * MINUTE_MS;
  await old.run("keys", "revoke", (await old.keys())[0]?.id ?? "");
  await closeForgotten(old.path);
  for (const ending of ["-wal", "-shm"]) rmSync(old.path + ending, { force: true });
  writeFileSync(old.path, Buffer.alloc(65_536, 7));
  expect(await runCaptured(["restore", made], old.environment, { now: () => nowMs })).toMatchObject({
    status: 1,
  });
  rmSync(old.path);
  expect(await old.restore(made)).toMatchObject({
    ...{ all_known: false, keys_valid: 1, keys_held: 1, closed: [{ change: "revoked" }] },
  });
}, 60_000);

test("a mistaken restore is undone with the copy that it kept, and nothing is held or opened", async () => {
  const made = await backup("database");
  nowMs += 60 * MINUTE_MS;
  await old.run("orgs", "create", "Later");
  expect(await old.restore(made)).toMatchObject({ all_known: true, keys_held: 0 });
  await old.run("keys", "revoke", (await old.keys())[0]?.id ?? "");
  const kept = readdirSync(old.dataDir).find((name) => name.startsWith("shruti.db.before-")) ?? "none";
  nowMs += MINUTE_MS;
  const access = await old.restore(join(old.dataDir, kept));
  expect(access).toMatchObject({ all_known: true, keys_held: 0, closed: [{ change: "revoked" }] });
  expect(await old.run("orgs", "list")).toContain("Later");
}, 60_000);

test("a backup from before the audit log and the sessions: what was closed stays closed", async () => {
  const made = join(root, "older.db");
  copyFileSync(await backup("database"), made);
  const sqlite = new SqliteDatabase(made);
  // The ledger is empty here, so nothing proves that this machine continued that database.
  sqlite.run("DROP TABLE audit_log");
  sqlite.run("DROP TABLE console_secrets");
  sqlite.close();
  nowMs += 60 * MINUTE_MS;
  await old.run("keys", "revoke", (await old.keys())[0]?.id ?? "");
  const access = closeAgain(made, {
    ...{ nowMs, backup: "older", previousPath: old.path, keptPaths: [], confirmKeys: false },
    ...{ dataDir: old.dataDir, journalFolder: undefined, signedBy: undefined },
  });
  expect(access).toMatchObject({ isAllKnown: false, keys: 0, held: 0, closed: [{ change: "revoked" }] });
});

test("a new machine learns from the folder of backups what was closed and deleted after the backup", async () => {
  const key = (await old.keys())[0]?.id ?? "";
  const other = (await old.run("orgs", "create", "Other")).trim();
  const left = (await old.run("orgs", "create", "Left")).trim();
  const store = await backup("store");
  nowMs += 90 * MINUTE_MS;
  await old.run("keys", "revoke", key);
  await old.run("orgs", "disable", left);
  await old.run("orgs", "enable", left);
  await old.run("orgs", "disable", other);
  const purged = JSON.parse(await old.run("orgs", "purge", left, "--yes", "--json")) as {
    not_reached: { backups: { path: string; found: boolean }[]; elsewhere: string };
  };
  const [name = ""] = readdirSync(join(store, "backups"));
  expect(purged.not_reached.backups).toMatchObject([{ path: join(store, "backups", name), found: true }]);
  const knownUntil = new Date(nowMs).toISOString();
  // Lines that were cut, and those of another machine, count nothing.
  const stranger = await machine("stranger");
  const mine = (await old.run("orgs", "create", "Mine")).trim();
  appendFileSync(join(store, "journal/closings.jsonl"), '{"document": {"object": "access_ch');
  const foreign = await strangerCloses(stranger, mine);
  appendFileSync(join(store, "journal/closings.jsonl"), `\n${foreign}\n${"x".repeat(200_000)}\n`);
  // The old machine and its signing key are gone.
  rmSync(old.dataDir, { recursive: true });
  nowMs += 5 * MINUTE_MS;
  const there = await machine("there");
  const outcome = await there.restoreAll(store);
  expect(outcome).toMatchObject({ deletions_repeated: 1 });
  expect(outcome.access).toMatchObject({
    all_known: false,
    known_until: knownUntil,
    keys_held: 0,
    keys_valid: 0,
  });
  expect(outcome.access.closed.map(({ id, change }) => `${id} ${change}`).sort()).toEqual(
    [`${key} revoked`, `${other} disabled`].sort(),
  );
  expect(there.accepts(old.key)).toBe(false);
  expect(JSON.parse(await there.run("orgs", "show", other, "--json"))).toMatchObject({ disabled: true });
  const purging = JSON.parse(await there.run("orgs", "show", left, "--json")) as { disabled: boolean };
  expect(purging.disabled).toBe(true);
  const database = openDatabase(there.path);
  expect(verifyAudit(database.store)).toMatchObject({ ok: true });
  database.close();
}, 60_000);

/** Returns a line that a stranger's machine has signed. */
async function strangerCloses(stranger: Machine, target: string): Promise<string> {
  const database = openDatabase(stranger.path);
  const act = { action: "organization.disable", object: target, organizationId: target } as const;
  transaction(database.store, (tx) => recordAct(tx, act, nowMs));
  database.close();
  await stranger.run("keys", "list");
  return readFileSync(join(stranger.dataDir, "closings.jsonl"), "utf8").trim().split("\n").at(-1) ?? "";
}

test("after many moves, a restore forgets the keys of the oldest machines, and not that of the last one", async () => {
  const earlier = Array.from({ length: 20 }, (_, index) => index.toString(16).padStart(64, "0"));
  const before = openDatabase(old.path);
  putSetting(before.store, SETTING_NAMES.journalKeys, earlier, nowMs);
  before.close();
  const made = await backup("database");
  const there = await machine("there");
  await there.restore(made);
  const database = openDatabase(there.path);
  const kept = findSetting(database.store, SETTING_NAMES.journalKeys);
  database.close();
  expect(kept).toEqual([findFingerprint(old.dataDir) ?? "none", ...earlier.slice(0, 19)]);
}, 60_000);

test("after an hour without word from the old machine, the keys of its folder of backups are held", async () => {
  const store = await backup("store");
  nowMs += 60 * MINUTE_MS;
  await old.run("orgs", "disable", (await old.run("orgs", "create", "Other")).trim());
  const knownUntil = new Date(nowMs).toISOString();
  nowMs += 60 * MINUTE_MS;
  const there = await machine("there");
  expect(await there.restore(store)).toMatchObject({ known_until: knownUntil, keys_held: 1 });
}, 60_000);

test("a folder of backups that is not there is not made again, and the command says so", async () => {
  const store = await backup("store");
  renameSync(store, `${store}.unmounted`);
  const [key] = await old.keys();
  const revoke = ["keys", "revoke", key?.id ?? ""];
  const { status, err } = await runCaptured(revoke, old.environment, { now: () => nowMs });
  expect({ status, err }).toMatchObject({
    status: 0,
    err: expect.stringContaining(`A restore from ${store}`),
  });
  expect(existsSync(store)).toBe(false);
  // Once it is there again, the next change brings everything.
  renameSync(`${store}.unmounted`, store);
  await old.run("orgs", "disable", (await old.run("orgs", "create", "Other")).trim());
  const lines = readFileSync(join(store, "journal/closings.jsonl"), "utf8");
  expect(lines).toContain(key?.id ?? "none");
  expect(lines).toBe(`\n${readFileSync(join(old.dataDir, "closings.jsonl"), "utf8")}`);
}, 60_000);

test("the file of closings tells a damaged machine, and a database that was put back by hand, what was closed", async () => {
  const made = await backup("database");
  nowMs += 60 * MINUTE_MS;
  const [key] = await old.keys();
  await old.run("keys", "revoke", key?.id ?? "");
  await closeForgotten(old.path);
  for (const ending of ["", "-wal", "-shm"]) rmSync(old.path + ending, { force: true });
  expect(await old.restore(made)).toMatchObject({ closed: [{ id: key?.id, change: "revoked" }] });
  expect(await old.keys()).toMatchObject([{ state: "revoked" }]);
  await closeForgotten(old.path);
  for (const ending of ["", "-wal", "-shm"]) rmSync(old.path + ending, { force: true });
  copyFileSync(made, old.path);
  const database = openDatabase(old.path);
  const deps = { database, clock: { now: () => nowMs }, dataDir: old.dataDir };
  expect(closeLaterIn(deps)).toBe(1);
  expect(closeLaterIn(deps)).toBe(0);
  database.close();
  expect(await old.keys()).toMatchObject([{ state: "revoked" }]);
}, 60_000);

test("workers of a fleet: removed ones stay removed, and the others are held with the keys", async () => {
  await old.run("fleet", "init", "--nats", "tls://127.0.0.1:4222", "--base-url", "https://127.0.0.1:8443");
  for (const name of ["gpu-1", "gpu-2"]) await old.run("fleet", "add", name, "--output", join(root, name));
  const store = join(root, "store");
  await old.run("backup", "--to", store, "--with-secrets");
  await old.run("fleet", "remove", "gpu-1");
  const there = await machine("there");
  nowMs += 60 * MINUTE_MS;
  const outcome = await there.restoreAll(store);
  expect(outcome).toMatchObject({ workers_held: 1, access: { keys_held: 1 } });
  expect(outcome.access.closed).toMatchObject([{ kind: "fleet_worker", id: "gpu-1", change: "removed" }]);
  const names = () =>
    (JSON.parse(readFileSync(join(there.dataDir, "fleet/workers.json"), "utf8")) as { name: string }[]).map(
      ({ name }) => name,
    );
  expect(names()).toEqual([]);
  await there.run("keys", "confirm", "--all");
  expect(names()).toEqual(["gpu-2"]);
}, 60_000);
