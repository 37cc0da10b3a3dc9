import { afterEach, describe, expect, test } from "bun:test";
import { listAudit } from "../store/audit-log.ts";
import { raiseStreamed } from "../store/transcriptions.ts";
import { apiClient } from "../testing/answers/api-client.ts";
import { expectRefusal } from "../testing/answers/scenarios.ts";
import { manualClock } from "../testing/kits/manual-clock.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { forever, watchChunks } from "../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";

/** What costs nothing and leaves a record has a rate for each organization; what is paid has none. */

const open: TestApp[] = [];
afterEach(async () => {
  for (const testApp of open.splice(0)) await testApp.close();
});

const BURST = 3;
async function openApp(limits: Record<string, number> = {}) {
  const testApp = await openTestApp({
    clock: manualClock(),
    config: { limits: { unpaid_acts_per_second: 1, unpaid_act_burst: BURST, ...limits } },
  });
  open.push(testApp);
  return testApp;
}

const AUDIO = scriptedAudio({ seconds: 1, channels: 1, text: "नमस्ते" });
const json = (method: string, body: unknown) => ({
  method,
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});

async function makeEndpoint({ as, key }: TestApp): Promise<Response> {
  return as(key)("/v1/webhook_endpoints", json("POST", { url: "https://receiver.example/" }));
}

async function rejectUpload({ as, key, fetch }: TestApp): Promise<Response> {
  const send = as(key);
  const created = await send("/v1/uploads", json("POST", { bytes: 1 }));
  if (created.status !== 201) return created;
  const { id, upload } = (await created.clone().json()) as {
    id: string;
    upload: { headers: Record<string, string> };
  };
  const { headers } = upload;
  await fetch(`/storage/uploads/${id}`, { method: "PUT", headers, body: new Uint8Array(1) });
  expect((await send(`/v1/uploads/${id}/complete`, { method: "POST" })).status).toBe(415);
  return created;
}

async function startAndCancel(testApp: TestApp): Promise<Response> {
  const send = testApp.as(testApp.key);
  const client = apiClient(send);
  const upload = await client.upload(AUDIO);
  const started = await send(
    "/v1/transcriptions",
    json("POST", { audio: { upload_id: upload.id }, language: "hi" }),
  );
  if (started.status !== 202) return started;
  const { id } = (await started.clone().json()) as { id: string };
  expect((await client.cancel(id)).state).toBe("cancelled");
  // A finished one is not cancelled again.
  for (let count = 0; count < 2 * BURST; count++) await client.cancel(id);
  return started;
}

type Act = (testApp: TestApp) => Promise<Response>;

describe("the rate of unpaid acts", () => {
  test.each<[string, Act]>([
    ["new webhook endpoints", makeEndpoint],
    ["rejected uploads", rejectUpload],
    ["cancelled transcriptions", startAndCancel],
  ])("bounds %s: so many at once, then one a second", async (_, act) => {
    const testApp = await openApp();
    watchChunks(testApp.engine, (_chunk, signal) => forever(signal));
    for (let count = 0; count < BURST; count++) expect((await act(testApp)).ok).toBe(true);
    const refused = await act(testApp);
    expect(refused.headers.get("retry-after")).toBe("1");
    await expectRefusal(refused, { code: "rate_limited" });
    testApp.clock.advance(1_000);
    expect((await act(testApp)).ok).toBe(true);
    expect((await act(testApp)).status).toBe(429);
  });

  test("counts each change of an endpoint that the audit log keeps, and none that changes nothing", async () => {
    const testApp = await openApp();
    const send = testApp.as(testApp.key);
    const { id } = (await (await makeEndpoint(testApp)).json()) as { id: string };
    const path = `/v1/webhook_endpoints/${id}`;
    for (let count = 0; count < 2 * BURST; count++) {
      expect((await send(`${path}/enable`, { method: "POST" })).status).toBe(200);
      expect((await send("/v1/webhook_endpoints", json("POST", { url: "ftp://x" }))).status).toBe(422);
    }
    expect((await send(`${path}/rotate_secret`, { method: "POST" })).status).toBe(200);
    expect((await send(path, { method: "DELETE" })).status).toBe(200);
    const entries = () =>
      listAudit(testApp.app.database.store, { sources: ["api_key"] }, { limit: 100 }).data;
    expect(entries().map(({ action }) => action)).toEqual([
      "webhook.remove",
      "webhook.rotate",
      "webhook.create",
    ]);
    await expectRefusal(await makeEndpoint(testApp), { code: "rate_limited" });
    expect(entries()).toHaveLength(BURST);
  });

  test("is of each organization and kind, and does not hold up what is paid", async () => {
    const testApp = await openApp();
    for (let count = 0; count < BURST; count++) await makeEndpoint(testApp);
    expect((await makeEndpoint(testApp)).status).toBe(429);
    const other = testApp.accounts.createOrganization({ name: "Second" });
    const project = testApp.accounts.createProject({ organizationId: other.id, name: "main" });
    expect((await makeEndpoint({ ...testApp, key: testApp.makeKey(project.id) })).status).toBe(201);
    const client = apiClient(testApp.as(testApp.key));
    for (let count = 0; count < 3 * BURST; count++) {
      const upload = await client.upload(AUDIO);
      const { body } = await client.start({ audio: { upload_id: upload.id }, language: "hi" });
      expect((await client.finished(body.id)).state).toBe("completed");
      await client.remove(body.id);
    }
  });

  test("a customer who cancels many at once waits for new work, but not longer than twice the time of a full count", async () => {
    const testApp = await openApp();
    watchChunks(testApp.engine, (_chunk, signal) => forever(signal));
    const client = apiClient(testApp.as(testApp.key));
    const upload = await client.upload(AUDIO);
    const start = () => client.start({ audio: { upload_id: upload.id }, language: "hi" });
    const ids: string[] = [];
    for (let count = 0; count < 5 * BURST; count++) ids.push((await start()).body.id);
    for (const id of ids) expect((await client.cancel(id)).state).toBe("cancelled");
    const refusal = await start().catch((error: unknown) => error);
    expect(refusal).toMatchObject({ status: 429, code: "rate_limited" });
    testApp.clock.advance((BURST + 1) * 1_000);
    expect((await start()).status).toBe(202);
  });

  test("counts no cancelled transcription of which a stream has sent words, because these are paid", async () => {
    const testApp = await openApp();
    watchChunks(testApp.engine, (_chunk, signal) => forever(signal));
    const client = apiClient(testApp.as(testApp.key));
    const upload = await client.upload(AUDIO);
    for (let count = 0; count < 2 * BURST; count++) {
      const { body } = await client.start({ audio: { upload_id: upload.id }, language: "hi" });
      expect(raiseStreamed(testApp.app.database.store, body.id, 500)).toBe(true);
      expect((await client.cancel(body.id)).state).toBe("cancelled");
    }
  });

  test("does not bound what an admin does, nor anything with 0", async () => {
    const testApp = await openApp({ unpaid_acts_per_second: 0 });
    for (let count = 0; count < 3 * BURST; count++) expect((await makeEndpoint(testApp)).status).toBe(201);
  });
});
