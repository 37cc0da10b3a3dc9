import { Database as SqliteDatabase } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Installation, install, type RunningServer, reached, until, uploaded } from "./kit.ts";
import { sampleBytes } from "./samples.ts";

/** Customers leave, and what was deleted stays deleted: on the compiled executable. */

/** A step that takes longer hangs, also on a machine with other load. */
const STEP_WITHIN_MS = 120_000;

let installation: Installation;
let server: RunningServer | undefined;
const at = (name: string) => join(installation.folder, name);
beforeAll(async () => {
  installation = await install();
}, 300_000);
afterAll(async () => {
  await server?.stop();
  await installation?.remove();
}, STEP_WITHIN_MS);

async function running(): Promise<RunningServer> {
  server = await (await installation.serve()).ready();
  return server;
}
async function stopped(): Promise<void> {
  await server?.stop();
  server = undefined;
}

type Shown = { state: string; upload_id: string; content_deleted_at: string | null };
const show = (id: string) => installation.json<Shown>("transcriptions", "show", id);
const files = (upload: string) => existsSync(join(installation.dataDir, "uploads", upload));

/** Reads the database itself: the purge would go on while a command starts. */
function isPurging(org: string): boolean {
  const sqlite = new SqliteDatabase(join(installation.dataDir, "shruti.db"), { readonly: true });
  try {
    sqlite.run("PRAGMA busy_timeout = 30000");
    const query = "SELECT purge_started_at AS startedAt FROM organizations WHERE id = ?";
    return sqlite.query<{ startedAt: number | null }, string[]>(query).get(org)?.startedAt != null;
  } finally {
    sqlite.close();
  }
}

async function transcribed(): Promise<{ id: string; upload: string }> {
  const api = (server ?? (await running())).api();
  const upload = await uploaded(api, sampleBytes("01-en"));
  const { id } = (await api.start({ audio: { upload_id: upload }, language: "en" })).body;
  await reached(api, id, ["completed"], STEP_WITHIN_MS);
  return { id, upload };
}

test("what was deleted after a backup is deleted again when the backup is put back", async () => {
  const first = await transcribed();
  const other = await transcribed();
  const kept = await transcribed();
  await installation.output("backup", at("before.db"));
  await installation.output("transcriptions", "delete", first.id);
  await stopped();
  await installation.output("uploads", "delete", other.upload);
  expect(await installation.output("restore", at("before.db"))).toContain(
    "2 deletions from after the backup were repeated",
  );
  expect((await show(first.id)).content_deleted_at).not.toBeNull();
  expect((await installation.command("transcriptions", "show", first.id, "--format", "text")).code).toBe(5);
  expect(files(first.upload) || files(other.upload)).toBe(false);
  expect((await show(kept.id)).content_deleted_at).toBeNull();
  // The server learns of them as well, when the database was put back by hand.
  writeFileSync(join(installation.dataDir, "shruti.db"), readFileSync(at("before.db")));
  // The signed heads of the audit log do not know of it, so an older log looks like one whose end was removed.
  expect((await installation.command("audit", "verify")).code).toBe(1);
  renameSync(join(installation.dataDir, "audit-heads.jsonl"), at("audit-heads.jsonl"));
  expect((await show(first.id)).content_deleted_at).toBeNull();
  const api = (await running()).api();
  const result = await api.call("GET", `/v1/transcriptions/${first.id}/result`).catch((error) => error);
  expect(result.status).toBe(410);
  expect((await show(first.id)).content_deleted_at).not.toBeNull();
  const audit = await installation.json<{ ok: boolean }>("credit", "audit");
  expect(audit.ok).toBe(true);
}, 300_000);

test("a receipt is verified anywhere, and a changed one is found", async () => {
  const { id, upload } = await transcribed();
  await installation.output("transcriptions", "delete", id);
  const receipt = await installation.output("receipts", "show", id);
  writeFileSync(at("receipt.json"), receipt);
  writeFileSync(at("key.pem"), await installation.output("receipts", "key"));
  expect(statSync(join(installation.dataDir, "signing-key.pem")).mode & 0o777).toBe(0o600);
  // In an empty folder, without config and data directory.
  const verify = (...args: string[]) => {
    const child = Bun.spawnSync([at("program/shruti"), "receipts", "verify", ...args], { cwd: "/", env: {} });
    return { code: child.exitCode, text: `${child.stdout}${child.stderr}` };
  };
  const verified = verify(at("receipt.json"), "--key", at("key.pem"));
  expect(verified.text).toContain(`transcription ${id}`);
  expect(verified.text).toContain("signed with the key");
  expect(verified.code).toBe(0);
  const { document } = JSON.parse(receipt);
  const sha256 = new Bun.CryptoHasher("sha256").update(sampleBytes("01-en")).digest("hex");
  expect(document.recording).toEqual({ upload_id: upload, sha256, bytes: sampleBytes("01-en").length });
  expect(document.transcript.sha256).toMatch(/^[0-9a-f]{64}$/);
  writeFileSync(at("changed.json"), receipt.replace(sha256, "0".repeat(64)));
  expect(verify(at("changed.json"))).toMatchObject({
    code: 1,
    text: expect.stringContaining("changed since"),
  });
  const other = Bun.spawnSync([at("program/shruti"), "bundle", "keygen", at("other.pem")], { env: {} });
  expect(other.exitCode).toBe(0);
  expect(verify(at("receipt.json"), "--key", at("other.pem.pub"))).toMatchObject({
    ...{ code: 1, text: expect.stringContaining("not signed with the key") },
  });
}, 300_000);

test("an organization is purged, also after kill -9; what accounting needs stays", async () => {
  const { id, upload } = await transcribed();
  const api = (await running_()).api();
  for (let n = 0; n < 40; n++) await api.createUpload(1000);
  await api.call("POST", "/v1/webhook_endpoints", { url: "https://hooks.example/x" });
  const org = installation.organizationId;
  expect((await installation.command("orgs", "purge", org)).code).toBe(2);
  const child = Bun.spawn(
    [at("program/shruti"), "--config", installation.configPath, "orgs", "purge", org, "--yes"],
    {
      ...{ env: {}, stdout: "ignore", stderr: "ignore" },
    },
  );
  await until("the purge has begun", () => isPurging(org), STEP_WITHIN_MS);
  child.kill("SIGKILL");
  await child.exited;
  const again = await installation.command("orgs", "purge", org, "--yes");
  expect(again.code === 0 || again.err.includes("was purged")).toBe(true);
  expect(await installation.output("orgs", "show", org)).toMatch(/State +purged/);
  expect((await show(id)).content_deleted_at).not.toBeNull();
  expect(files(upload)).toBe(false);
  const left = await installation.json<{ deleted_at: string | null }[]>("uploads", "list", "--limit", "1000");
  expect(left.filter(({ deleted_at }) => deleted_at === null)).toEqual([]);
  expect(await installation.json("keys", "list")).toEqual([]);
  expect(await installation.json("webhooks", "list")).toEqual([]);
  await stopped();
  const audit = await installation.json<{ ok: boolean; charged_paise: number }>("credit", "audit");
  expect(audit).toMatchObject({ ok: true, charged_paise: expect.any(Number) });
  expect((await installation.json<unknown[]>("usage", "export", "--org", org)).length).toBeGreaterThan(0);
  const receipt = JSON.parse(await installation.output("receipts", "show", org));
  expect(receipt.document.deleted).toEqual({ kind: "organization", id: org, organization_id: org });
  expect((await installation.command("orgs", "enable", org)).code).toBe(5);
  const acts = await installation.json<{ action: string }[]>(
    "audit",
    "list",
    "--action",
    "organization.purge",
  );
  expect(acts).toHaveLength(1);
  await installation.output("audit", "verify");
  // A backup from before brings nothing back: the next start completes the purge again.
  await installation.output("restore", at("before.db"));
  expect(await installation.output("orgs", "show", org)).toMatch(/State +being purged/);
  await running();
  await until(
    "the purge is completed",
    async () => /State +purged/.test(await installation.output("orgs", "show", org)),
    STEP_WITHIN_MS,
  );
}, 300_000);

const running_ = async () => server ?? (await running());
