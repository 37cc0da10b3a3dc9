import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { DeletionReceipt } from "../domain/receipt.ts";
import { exportAudit } from "../store/audit-log.ts";
import { writeBackup } from "../store/backup.ts";
import { auditLedger } from "../store/ledger-audit.ts";
import { findReceipts } from "../store/receipts.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { begin, clientOf, until } from "../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";
import { createAccountService } from "./accounts.ts";
import { DELETIONS_FILE } from "./journal/journal-file.ts";
import { createPurgeService } from "./purge.ts";

let testApp: TestApp;
beforeEach(async () => {
  testApp = await openTestApp();
});
afterEach(() => testApp.close());

/** Opens the purge; its `failAt`th deletion of a transcription ends as a crash would. */
function open(failAt = Number.POSITIVE_INFINITY) {
  const { app, clock, directory: dataDir } = testApp;
  const { transcriptions, receipts } = app.services;
  let deletions = 0;
  const deleteById: typeof transcriptions.deleteById = (id) => {
    if (++deletions === failAt) throw new Error("killed");
    return transcriptions.deleteById(id);
  };
  const { cancelById } = transcriptions;
  const { database } = app;
  return createPurgeService({
    database,
    clock,
    config: app.config,
    dataDir,
    receipts,
    transcriptions: { cancelById, deleteById },
  });
}

test("a purge that was killed right after its last transaction has its receipt in the file after the next one", async () => {
  const { app, clock, directory: dataDir, organization } = testApp;
  const { transcriptions, receipts } = app.services;
  const killed = () => Promise.reject(new Error("killed"));
  const deps = { database: app.database, clock, config: app.config, dataDir, transcriptions };
  const service = createPurgeService({ ...deps, receipts: { write: receipts.write, mirror: killed } });
  await expect(service.purge(organization.id)).rejects.toThrow("killed");
  expect(count("organizations", "purged_at IS NOT NULL")).toBe(1);
  const receipt = findReceipts(app.database.store, organization.id)[0]?.id ?? "none";
  expect(existsSync(join(dataDir, DELETIONS_FILE))).toBe(false);
  await expect(open().purge(organization.id)).rejects.toThrow("was purged");
  expect(readFileSync(join(dataDir, DELETIONS_FILE), "utf8")).toContain(receipt);
});

/** Continues all purges; none may fail. */
const resumed = (service: ReturnType<typeof open>) =>
  service.resume((_, error) => {
    throw error;
  });

const count = (table: string, condition: string) =>
  testApp.app.database.sqlite
    .query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table} WHERE ${condition}`)
    .get()?.n;

test("an interrupted purge continues where it was, and what it removed is counted and gone", async () => {
  const ids: string[] = [];
  for (let n = 0; n < 4; n++) ids.push(await begin(testApp));
  for (const id of ids)
    await until("it is completed", async () => (await clientOf(testApp).get(id)).state === "completed");
  testApp.engine.hold();
  const unfinished = await begin(testApp);
  const uploads = testApp.app.database.sqlite.query<{ id: string }, []>("SELECT id FROM uploads").all();
  const { id: organizationId } = testApp.organization;
  await expect(open(3).purge(organizationId)).rejects.toThrow("killed");
  expect(count("transcriptions", "content_deleted_at IS NULL")).toBe(3);
  expect(
    count("organizations", "purge_started_at IS NOT NULL AND purged_at IS NULL AND disabled_at IS NOT NULL"),
  ).toBe(1);
  expect(await resumed(open())).toBe(1);
  expect(count("transcriptions", "content_deleted_at IS NULL")).toBe(0);
  expect(count("uploads", "deleted_at IS NULL")).toBe(0);
  for (const table of ["api_keys", "webhook_endpoints", "events", "results", "chunks", "idempotency_keys"])
    expect({ table, rows: count(table, "1") }).toEqual({ table, rows: 0 });
  expect(uploads.some(({ id }) => existsSync(testApp.app.services.uploads.audioPath(id)))).toBe(false);
  const { store } = testApp.app.database;
  expect(testApp.app.services.transcriptions.find(unfinished)?.state).toBe("cancelled");
  expect(auditLedger(store)).toMatchObject({ ok: true, openReservations: 0 });
  expect(count("usage_events", "1")).toBe(5);
  expect(findReceipts(store, organizationId)).toHaveLength(1);
  for (const id of ids) expect(findReceipts(store, id)).toHaveLength(1);
  const purges = [...exportAudit(store)].filter(({ action }) => action === "organization.purge");
  expect(purges).toHaveLength(1);
  await expect(open().purge(organizationId)).rejects.toThrow("was purged");
});

test("the receipt of a purge counts all recordings, also those that went with their transcripts, and older databases", async () => {
  const id = await begin(testApp);
  await until("it is completed", async () => (await clientOf(testApp).get(id)).state === "completed");
  const { database } = testApp.app;
  const copy = "shruti.db.version-0015.2026-11-01T00-00-00-000Z";
  writeBackup(database, join(testApp.directory, copy));
  const { id: organizationId } = testApp.organization;
  const { copies } = await open().purge(organizationId);
  expect(copies).toMatchObject({ removed: [join(testApp.directory, copy)], kept: [] });
  const [receipt] = findReceipts(database.store, organizationId);
  const { document } = JSON.parse(receipt?.signed ?? "") as { document: DeletionReceipt };
  expect(document).toMatchObject({
    ...{ recording: null, transcript: null },
    removed: { keys: 1, webhook_endpoints: 0, transcriptions: 1, uploads: 1, database_copies: 1 },
  });
  expect(existsSync(join(testApp.directory, copy))).toBe(false);
});

test("a purge that was killed between a mark and its file removes that file when it continues", async () => {
  const id = await begin(testApp);
  await until("it is completed", async () => (await clientOf(testApp).get(id)).state === "completed");
  const { database, services } = testApp.app;
  const { id: organizationId } = testApp.organization;
  const uploadId = services.transcriptions.find(id)?.uploadId ?? "";
  await expect(open(1).purge(organizationId)).rejects.toThrow("killed");
  database.sqlite.run("UPDATE uploads SET deleted_at = 1");
  database.sqlite.run("UPDATE transcriptions SET content_deleted_at = 1");
  expect(existsSync(services.uploads.audioPath(uploadId))).toBe(true);
  expect(await resumed(open())).toBe(1);
  expect(existsSync(services.uploads.audioPath(uploadId))).toBe(false);
});

test("unfinished work that names a webhook endpoint does not keep a purge from its end", async () => {
  const { app, organization, project } = testApp;
  const caller = { organizationId: organization.id, projectId: project.id };
  const id = await begin(testApp);
  const endpoint = app.services.webhooks.register(caller, { url: "https://receiver.example/" });
  app.database.sqlite.run(
    "UPDATE transcriptions SET webhook_endpoint_id = ?, state = 'queued' WHERE id = ?",
    [endpoint.id, id],
  );
  await open().purge(organization.id);
  expect(count("webhook_endpoints", "1")).toBe(0);
  expect(count("transcriptions", "state = 'cancelled'")).toBe(1);
});

test("a purge that keeps failing does not keep other organizations waiting", async () => {
  const { app, clock, organization } = testApp;
  const accounts = createAccountService({ database: app.database, clock });
  const id = await begin(testApp);
  await until("it is completed", async () => (await clientOf(testApp).get(id)).state === "completed");
  const others = ["before", "after"].map((name) => accounts.createOrganization({ name }).id);
  app.database.sqlite.run("UPDATE organizations SET purge_started_at = 1");
  const failed: string[] = [];
  const note = (organizationId: string, error: unknown) =>
    void failed.push(`${organizationId} ${(error as Error).message}`);
  expect(await open(1).resume(note)).toBe(others.length);
  expect(failed).toEqual([`${organization.id} killed`]);
  expect(count("organizations", "purged_at IS NOT NULL")).toBe(others.length);
  // Another purge is not begun for those that are purged, and the failed one can be completed.
  expect(await open().resume(note)).toBe(1);
  expect(failed).toHaveLength(1);
  expect(count("organizations", "purged_at IS NULL")).toBe(0);
});

test("a recording that is sent while its organization is purged leaves nothing", async () => {
  const { engine, organization } = testApp;
  const decoding = Promise.withResolvers<void>();
  const purged = Promise.withResolvers<void>();
  engine.interfere({
    verify: async () => {
      decoding.resolve();
      await purged.promise;
    },
  });
  const form = { language: "hi" };
  const sent = clientOf(testApp).transcribe(scriptedAudio({ seconds: 2, text: "नमस्ते" }), form);
  await decoding.promise;
  await open().purge(organization.id);
  purged.resolve();
  await expect(sent).rejects.toThrow("organization_disabled");
  expect(count("transcriptions", "1")).toBe(0);
  expect(count("uploads", "1")).toBe(0);
  expect(readdirSync(join(testApp.directory, "uploads"))).toEqual([]);
});
