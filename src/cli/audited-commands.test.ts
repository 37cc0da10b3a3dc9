import { Database as SqliteDatabase } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import type { AuditAction } from "../domain/audit.ts";
import { newId } from "../lib/ids.ts";
import { sha256Hex } from "../lib/sha256.ts";
import { AUDIT_HEADS_FILE } from "../services/audit-heads.ts";
import { audioFilePath } from "../store/audio-files.ts";
import { exportAudit, verifyAudit } from "../store/audit-log.ts";
import { databasePath, migrate, openDatabase, transaction } from "../store/database.ts";
import { putHeldKeys } from "../store/held-keys.ts";
import { reserveCredit } from "../store/ledger.ts";
import { MIGRATIONS } from "../store/migrations/index.ts";
import { insertTranscription } from "../store/transcriptions.ts";
import { insertUpload } from "../store/uploads.ts";
import { insertWatchedFile } from "../store/watched-files.ts";
import { closeForgotten } from "../testing/kits/forgotten-connections.ts";
import { runCaptured } from "../testing/kits/run-cli.ts";
import { hasAction } from "../testing/rules/generated-tables.ts";
import { insertEndpoint, insertEvent } from "../webhooks/event-rows.ts";
import { commandsBelow, pathOf } from "./frame/command-tree.ts";
import { buildProgram } from "./program.ts";

/** Every command is run once. What changes something must leave exactly the entries that are named here. */

const folder = mkdtempSync(join(tmpdir(), "shruti-audited-"));
const at = (name: string) => join(folder, name);
const environment = { SHRUTI_CONFIG: at("shruti.toml"), SHRUTI_LOG_LEVEL: "silent" };
const demo = join(import.meta.dir, "../../models/demo.bin");

/** Identifiers of the objects that the commands work on. */
const ids = {
  ...{ org: "", project: "", key: "" },
  ...{ other: newId("organization", 1), upload: newId("upload", 1), waiting: newId("transcription", 1) },
  ...{
    ended: newId("transcription", 2),
    spare: newId("upload", 2),
    endpoint: newId("webhookEndpoint", 1),
    event: "",
  },
};

type Case =
  /** Arguments of a run that changes something, and the acts that are recorded. */
  | { first?: () => unknown; args: () => string[]; acts: AuditAction[]; status?: number }
  /** Arguments of a run that changes nothing. */
  | { reads: () => string[]; status?: number }
  /** Why the command is not run here: it changes no data directory, or another test runs it. */
  | { elsewhere: string };

const NO_DATA = { elsewhere: "it changes nothing in a data directory" };
const nothing = () => [];

/** In this order: the later ones use what the earlier ones have made. */
const COMMANDS: Record<string, Case> = {
  "orgs create": { args: () => ["Physics"], acts: ["organization.create"] },
  "orgs list": { reads: nothing },
  "orgs show": { reads: () => [ids.org] },
  "orgs disable": { args: () => [ids.org], acts: ["organization.disable"] },
  "orgs enable": { args: () => [ids.org], acts: ["organization.enable"] },
  "orgs set": { args: () => [ids.org, "--weight", "3", "--name", "Chemistry"], acts: ["organization.set"] },
  "orgs purge": {
    first: async () => {
      ids.other = (await run("orgs", "create", "Leaving")).out.trim();
    },
    ...{ args: () => [ids.other, "--yes"], acts: ["organization.purge"] },
  },
  "projects create": { args: () => ["lab", "--org", ids.org], acts: ["project.create"] },
  "projects list": { reads: nothing },
  "projects set": { args: () => [ids.project, "--audio-days", "7"], acts: ["project.set"] },
  "projects show": { reads: () => [ids.project] },
  "keys create": { args: () => ["--project", ids.project, "--name", "n"], acts: ["key.create"] },
  "keys list": { reads: nothing },
  "keys confirm": { first: holdKeys, args: () => [ids.key], acts: ["key.confirm"] },
  "keys revoke": { args: () => [ids.key], acts: ["key.revoke"] },
  "credit grant": { args: () => ["--org", ids.org, "--paise", "500"], acts: ["credit.grant"] },
  "credit show": { reads: () => ["--org", ids.org] },
  "credit ledger": { reads: () => ["--org", ids.org] },
  "credit audit": { reads: nothing },
  help: { reads: () => ["orgs", "create"] },
  man: { reads: nothing },
  "completion bash": { reads: nothing },
  "completion zsh": { reads: nothing },
  "completion fish": { reads: nothing },
  "completion words": { reads: nothing },
  "models list": { reads: nothing },
  "models show": { reads: () => ["demo"] },
  "models add": { args: () => [demo, "--id", "one", "--no-trial"], acts: ["model.default", "model.add"] },
  "models quantise": { elsewhere: "it adds a model through the same function as `models add`" },
  "models advise": { reads: nothing },
  "models catalogue": { reads: nothing },
  "models fetch": { elsewhere: "it adds a model through the same function as `models add`" },
  "models verify": { reads: nothing },
  "models default": {
    first: () => run("models", "add", demo, "--id", "two", "--no-trial"),
    ...{ args: () => ["two"], acts: ["model.default"] },
  },
  "models route": { args: () => ["hi=two"], acts: ["model.route"] },
  "models remove": { args: () => ["one"], acts: ["model.remove"] },
  "transcriptions list": { reads: nothing },
  "transcriptions show": { reads: () => [ids.waiting] },
  "transcriptions evidence": { reads: () => [ids.waiting], status: 5 },
  "transcriptions cancel": { args: () => [ids.waiting], acts: ["transcription.cancel"] },
  "transcriptions retry": {
    ...{ first: placeRecording, args: () => [ids.waiting], acts: ["transcription.retry"] },
  },
  "transcriptions delete": { first: cancelAll, args: () => [ids.waiting], acts: ["transcription.delete"] },
  "uploads list": { reads: nothing },
  "uploads delete": { args: () => [ids.spare], acts: ["upload.delete"] },
  "receipts list": { reads: nothing },
  "receipts show": { reads: () => [ids.spare] },
  "receipts key": { reads: nothing },
  "receipts export": { reads: () => ["--org", ids.org] },
  "receipts verify": { elsewhere: "it changes nothing in a data directory" },
  "evidence verify": NO_DATA,
  "uploads show": { reads: () => [ids.upload] },
  "webhooks list": { reads: nothing },
  "webhooks deliveries": { reads: nothing },
  "webhooks redeliver": { args: () => [ids.event], acts: ["webhook.redeliver"] },
  "webhooks disable": { args: () => [ids.endpoint], acts: ["webhook.disable"] },
  "webhooks enable": { first: disableEndpoint, args: () => [ids.endpoint], acts: ["webhook.enable"] },
  "webhooks rotate": { args: () => [ids.endpoint], acts: ["webhook.rotate"] },
  "webhooks test": { args: () => [ids.endpoint], acts: ["webhook.test"], status: 1 },
  "webhooks remove": { args: () => [ids.endpoint], acts: ["webhook.remove"] },
  "buckets list": { reads: nothing },
  "buckets add": { first: writeSecret, args: bucketOptions, acts: ["bucket.add"] },
  "buckets remove": { args: () => ["calls", "--org", ids.org], acts: ["bucket.remove"] },
  console: { args: nothing, acts: ["session.link"] },
  "usage export": { reads: () => ["--org", ids.org] },
  "usage summary": { reads: nothing },
  storage: { reads: nothing },
  "clock show": { reads: nothing },
  "clock confirm": { elsewhere: "clock.test.ts, on a clock in doubt" },
  "storage prune": { elsewhere: "storage.test.ts" },
  "audit list": { reads: nothing },
  "audit verify": { reads: nothing },
  "audit export": { reads: nothing },
  "bundle keygen": NO_DATA,
  "bundle create": NO_DATA,
  "bundle verify": NO_DATA,
  "bundle install": { elsewhere: "bundle.test.ts" },
  "fleet init": {
    args: () => ["--nats", "tls://127.0.0.1:4222", "--base-url", "https://127.0.0.1:8443"],
    acts: ["fleet_keys.create"],
  },
  "fleet add": { args: () => ["gpu", "--output", at("gpu")], acts: ["fleet_worker.add"] },
  "fleet list": { reads: nothing },
  "fleet drain": { args: () => ["gpu"], acts: ["fleet_worker.drain"] },
  "fleet remove": { args: () => ["gpu"], acts: ["fleet_worker.remove"] },
  "folder status": { reads: nothing },
  "folder retry": { first: failFile, args: () => ["call.wav"], acts: ["watched_file.retry"] },
  backup: { args: () => [at("copy.db")], acts: ["database.backup"] },
  "backup verify": { reads: () => [at("copy.db")] },
  restore: { args: () => [at("copy.db")], acts: ["database.restore"] },
  migrate: { elsewhere: "below, on an older database" },
  init: { elsewhere: "below, in an empty folder" },
  serve: { elsewhere: "what it changes by itself is recorded with the source `server`" },
  mcp: NO_DATA,
  worker: NO_DATA,
  transcribe: NO_DATA,
  text: NO_DATA,
  benchmark: { elsewhere: "it writes only figures beside a model" },
  "config check": NO_DATA,
  "config show": NO_DATA,
  "config defaults": NO_DATA,
  doctor: NO_DATA,
  status: { reads: nothing, status: 1 },
  version: NO_DATA,
  licenses: NO_DATA,
  verify: NO_DATA,
};

/** Whether nothing takes an act back. A person at a terminal confirms commands with such an act. */
const IS_FINAL: Record<AuditAction, boolean> = {
  ...{ "organization.purge": true, "key.revoke": true, "transcription.cancel": true },
  ...{ "transcription.delete": true, "upload.delete": true, "webhook.remove": true, "model.remove": true },
  ...{
    "speaker_weights.remove": true,
    "punctuation_model.remove": true,
    "fleet_worker.remove": true,
    "database.restore": true,
  },
  ...{ "database.undo_upgrade": true, "clock.confirm": true },
  ...{ "organization.create": false, "organization.set": false, "organization.disable": false },
  ...{ "organization.enable": false, "project.create": false, "project.set": false, "key.create": false },
  ...{
    "key.confirm": false,
    "credit.grant": false,
    "transcription.retry": false,
    "watched_file.retry": false,
    "watched_file.delete": true,
    "webhook.create": false,
  },
  ...{ "webhook.enable": false, "webhook.disable": false, "webhook.rotate": false },
  ...{ "webhook.redeliver": false, "webhook.test": false, "model.add": false, "model.default": false },
  ...{
    "bucket.add": false,
    "bucket.remove": true,
    "model.route": false,
    "speaker_weights.add": false,
    "punctuation_model.add": false,
    "bundle.install": false,
  },
  ...{ "fleet_keys.create": false, "fleet_worker.add": false, "fleet_worker.drain": false },
  ...{ "fleet_worker.resume": false, "session.link": false, "session.begin": false, "session.end": false },
  ...{ "session.end_all": false, "database.backup": false, "database.upgrade": false },
  ...{ "database.keep_upgrade": false },
};

function writeSecret(): void {
  writeFileSync(at("secret"), "wJalrXUtnFEMI");
}

function bucketOptions(): string[] {
  const server = ["--endpoint", "https://s3.example", "--access-key", "AKIA1", "--secret-file", at("secret")];
  return ["calls", "--org", ids.org, ...server];
}

const path = () => databasePath(at("data"));
const run = (...argv: string[]) => runCaptured(argv, environment);

/** Returns a hash of all tables but the audit log, and the acts of the log. */
function look(): { content: string; acts: AuditAction[] } {
  const database = openDatabase(path());
  try {
    expect(verifyAudit(database.store).problems).toEqual([]);
    const entries = [...exportAudit(database.store)];
    const tables = database.sqlite
      .query<{ name: string }, []>(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'audit_log'",
      )
      .all();
    const rows = tables.map(({ name }) => database.sqlite.query(`SELECT * FROM "${name}"`).values());
    return { content: sha256Hex(JSON.stringify(rows)), acts: entries.map(({ action }) => action) };
  } finally {
    database.close();
  }
}

beforeAll(async () => {
  const made = await runCaptured(["init", "--config", at("shruti.toml"), "--data", at("data"), "--json"], {});
  const { organization_id, project_id } = JSON.parse(made.out);
  Object.assign(ids, { org: organization_id, project: project_id });
  ids.key = JSON.parse((await run("keys", "list", "--json")).out)[0].id;
  prepare(organization_id, project_id);
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Writes the records that only requests make. */
function prepare(organizationId: string, projectId: string): void {
  const database = openDatabase(path());
  const owners = { organizationId, projectId };
  transaction(database.store, (tx) => {
    insertEndpoint(tx, {
      ...{ ...owners, id: ids.endpoint, url: "http://127.0.0.1:1/", secret: "whsec_eA==", createdAt: 1 },
    });
    insertUpload(tx, {
      ...{
        ...owners,
        id: ids.upload,
        state: "complete",
        bytes: 1,
        tokenHash: "",
        createdAt: 1,
        expiresAt: 2,
      },
      ...{ finishedAt: 1, durationMs: 1000, channels: 1, sampleRateHz: 16_000 },
    });
    insertUpload(tx, {
      ...{ ...owners, id: ids.spare, state: "complete", bytes: 1, tokenHash: "", createdAt: 1, expiresAt: 2 },
      ...{ finishedAt: 1, durationMs: 1000, channels: 1, sampleRateHz: 16_000 },
    });
    insertTranscription(tx, {
      ...{ ...owners, id: ids.waiting, uploadId: ids.upload, submission: "asynchronous", modelId: "two" },
      ...{ modelVersion: "1", language: "hi", mode: "native", timestamps: "segment", diarization: false },
      ...{ channelMode: "mix", state: "queued", createdAt: 1, durationMs: 1000, channels: 1 },
      ...{ pricePaisePerAudioHour: 0, reservedPaise: 0 },
    });
    reserveCredit(tx, { organizationId, transcriptionId: ids.waiting, amountPaise: 0, nowMs: 1 });
    const transcription = { id: ids.ended, state: "completed" } as const;
    ids.event = insertEvent(tx, { transcription, endpointId: ids.endpoint, nowMs: 1 });
  });
  database.close();
}

function placeRecording(): void {
  mkdirSync(join(at("data"), "uploads"), { recursive: true });
  writeFileSync(audioFilePath(at("data"), ids.upload), "a");
}

async function cancelAll(): Promise<void> {
  for (const { id } of JSON.parse((await run("transcriptions", "list", "--state", "queued", "--json")).out))
    await run("transcriptions", "cancel", id);
}

function disableEndpoint(): void {
  const database = openDatabase(path());
  database.sqlite.run("UPDATE webhook_endpoints SET disabled_at = 5, disabled_reason = 'gone'");
  database.close();
}

/** Holds all keys, as a restore of an old backup does. */
/** Notes a file of a watched folder that has failed. */
function failFile() {
  const database = openDatabase(databasePath(at("data")));
  const identity = { folder: at("calls"), name: "call.wav", bytes: 1, changedUs: 1, device: "1:1" };
  insertWatchedFile(database.store, {
    ...{ ...identity, state: "failed", reason: "It has no sound.", createdAt: 1, updatedAt: 1 },
    ...{ projectId: ids.project, organizationId: ids.org },
  });
  database.close();
}

function holdKeys(): void {
  const database = openDatabase(path());
  putHeldKeys(database.store, { untilMs: Date.now(), knownUntilMs: null, confirmed: new Set() }, 1);
  database.close();
}

function leaves(command: Command): string[] {
  return [...(hasAction(command) ? [pathOf(command)] : []), ...command.commands.flatMap(leaves)];
}

test("every command is in the table", () => {
  const { program } = buildProgram({ out: () => {}, err: () => {}, environment: {} });
  expect(leaves(program).sort()).toEqual(Object.keys(COMMANDS).sort());
});

test("a command whose act nothing takes back asks a person", () => {
  const { program } = buildProgram({ out: () => {}, err: () => {}, environment: {} });
  const asking = commandsBelow(program)
    .filter(({ options }) => options.some(({ long }) => long === "--yes"))
    .map(pathOf);
  const final = Object.entries(COMMANDS).filter(
    ([, each]) => "acts" in each && each.acts.some((act) => IS_FINAL[act]),
  );
  expect(final.length).toBeGreaterThan(7);
  expect(final.map(([name]) => name).filter((name) => !asking.includes(name))).toEqual([]);
});

describe("each command that changes something leaves its entry, and no other command does", () => {
  const cases = Object.entries(COMMANDS).flatMap(([name, each]) =>
    "elsewhere" in each ? [] : [[name, each] as const],
  );
  test.each(cases)(
    "%s",
    async (name, each) => {
      if ("first" in each) await each.first?.();
      const before = look();
      await closeForgotten(path());
      const args = "reads" in each ? each.reads() : each.args();
      const { status, err } = await run(...name.split(" "), ...args);
      expect({ status, err: status === (each.status ?? 0) ? "" : err }).toEqual({
        status: each.status ?? 0,
        err: "",
      });
      const after = look();
      if (name === "restore") {
        // The restored log is that of the backup; the restore is its next entry.
        expect(after.acts.at(-1)).toBe("database.restore");
        return;
      }
      const acts = "reads" in each ? [] : each.acts;
      expect(after.acts.slice(before.acts.length)).toEqual(acts);
      if (acts.length === 0) expect(after.content).toBe(before.content);
    },
    30_000,
  );
});

test("init, and acts that change nothing", async () => {
  const { acts } = look();
  expect(acts.slice(0, 3)).toEqual(["organization.create", "project.create", "key.create"]);
  for (const again of [
    ["orgs", "enable", ids.org],
    ["keys", "revoke", ids.key],
    ["orgs", "set", ids.org, "--weight", "3"],
  ])
    expect((await run(...again)).status).toBe(0);
  expect(look().acts).toEqual(acts);
});

test("entries name the user, the command and the values", async () => {
  const entries = JSON.parse((await run("audit", "list", "--object", ids.org, "--json")).out);
  const set = entries.find((entry: { action: string }) => entry.action === "organization.set");
  expect(set).toMatchObject({
    ...{
      source: "command_line",
      actor: expect.stringMatching(/\w/),
      via: "orgs set",
      organization_id: ids.org,
    },
    ...{ before: { name: "default", weight: 1 }, after: { name: "Chemistry", weight: 3 } },
  });
  const list = await run("audit", "list", "--action", "organization.set");
  expect(list.out).toContain("name default → Chemistry, weight 1 → 3");
  const made = JSON.parse(
    (await run("keys", "create", "--project", ids.project, "--name", "k", "--json")).out,
  );
  const exported = await run("audit", "export", "--json");
  expect(exported.out.trim().split("\n").at(-1)).toContain(made.id);
  expect(exported.out).not.toContain(made.key.slice(5));
  expect((await run("audit", "export")).out).toStartWith("entry,created_at,source,actor,via,action,object,");
  expect((await run("audit", "list", "--since", "1h", "--source", "console", "--json")).out).toBe("[]\n");
  const both = await run("audit", "list", "--source", "command_line", "console", "--limit", "1", "--json");
  expect(JSON.parse(both.out)).toMatchObject([{ source: "command_line" }]);
});

test("an upgrade is recorded in the database that it has made", async () => {
  await closeForgotten(path());
  renameSync(path(), at("other.db"));
  for (const suffix of ["-wal", "-shm"]) rmSync(path() + suffix, { force: true });
  const older = new SqliteDatabase(path(), { create: true });
  migrate(older, MIGRATIONS.slice(0, 6));
  older.close();
  expect((await run("migrate")).status).toBe(0);
  const [entry] = JSON.parse((await run("audit", "list", "--json")).out);
  expect(entry).toMatchObject({
    ...{ action: "database.upgrade", via: "migrate", before: { version: "0006_fair_queue" } },
    after: { version: MIGRATIONS.at(-1)?.name },
  });
  await closeForgotten(path());
  expect((await run("migrate", "--undo")).err).toBe("");
});

test("undoing and keeping an upgrade are recorded, once", async () => {
  await closeForgotten(path());
  rmSync(path());
  // They are of the log that was removed with the database.
  rmSync(join(dirname(path()), AUDIT_HEADS_FILE), { force: true });
  const older = new SqliteDatabase(path(), { create: true });
  migrate(older, MIGRATIONS.slice(0, -1));
  older.close();
  const from = MIGRATIONS.at(-2)?.name;
  const to = MIGRATIONS.at(-1)?.name;
  expect((await run("migrate")).status).toBe(0);
  await closeForgotten(path());
  expect(await run("migrate", "--undo")).toMatchObject({ status: 0, err: "" });
  const actsOf = () => {
    const sqlite = new SqliteDatabase(path(), { readonly: true });
    const rows = sqlite.query("SELECT action, via, before, after FROM audit_log ORDER BY sequence").all();
    sqlite.close();
    return rows;
  };
  const undone = {
    ...{ action: "database.undo_upgrade", via: "migrate" },
    ...{ before: JSON.stringify({ version: to }), after: JSON.stringify({ version: from }) },
  };
  // The log of the backup did not know the upgrade; it knows that it was undone.
  expect(actsOf()).toEqual([undone]);
  expect((await run("migrate")).status).toBe(0);
  await closeForgotten(path());
  expect(await run("migrate", "--keep")).toMatchObject({ status: 0, err: "" });
  expect(await run("migrate", "--keep")).toMatchObject({ status: 0 });
  expect(actsOf()).toMatchObject([
    undone,
    { action: "database.upgrade" },
    { action: "database.keep_upgrade", via: "migrate", after: JSON.stringify({ version: to }) },
  ]);
  expect((await run("audit", "verify")).status).toBe(0);
});
