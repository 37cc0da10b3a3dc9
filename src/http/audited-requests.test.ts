import { afterEach, beforeEach, expect, test } from "bun:test";
import { silentLog } from "../lib/log.ts";
import { createRetentionService } from "../services/retention.ts";
import { exportAudit, verifyAudit } from "../store/audit-log.ts";
import { apiClient } from "../testing/answers/api-client.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { until } from "../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";
import { startReceiver } from "../testing/kits/webhook-kit.ts";

/** What requests and the server itself leave in the audit log. */

const DAY_MS = 86_400_000;

let testApp: TestApp;
beforeEach(async () => {
  testApp = await openTestApp({
    config: {
      webhooks: { allow_http: true, allowed_networks: ["127.0.0.0/8"] },
      retention: { transcript_days: 1 },
    },
  });
});
afterEach(() => testApp.close());

const entries = () => [...exportAudit(testApp.app.database.store)];
const keyId = () => testApp.app.services.apiKeys.listKeys()[0]?.id ?? "";

async function call(method: string, path: string, body?: unknown): Promise<Record<string, string>> {
  const headers = { "content-type": "application/json" };
  const content = body === undefined ? {} : { headers, body: JSON.stringify(body) };
  const response = await testApp.as(testApp.key)(path, { method, ...content });
  return { ...((await response.json()) as object), request: response.headers.get("x-request-id") ?? "" };
}

test("what a key changes about webhook endpoints is recorded with the request and without secrets", async () => {
  const before = entries().length;
  const url = "https://hooks.example/services/T0/S3CRET?a=S3CRET";
  const made = await call("POST", "/v1/webhook_endpoints", { url });
  const path = `/v1/webhook_endpoints/${made.id}`;
  const rotated = await call("POST", `${path}/rotate_secret`);
  // It is enabled already, so this changes nothing.
  await call("POST", `${path}/enable`);
  const removed = await call("DELETE", path);
  const found = entries().slice(before);
  expect(found.map(({ action, object, via }) => `${action} ${object} ${via}`)).toEqual([
    `webhook.create ${made.id} ${made.request}`,
    `webhook.rotate ${made.id} ${rotated.request}`,
    `webhook.remove ${made.id} ${removed.request}`,
  ]);
  expect(found.map(({ source, actor }) => `${source} ${actor}`)).toEqual(Array(3).fill(`api_key ${keyId()}`));
  expect(found[0]?.after).toContain('"url":"https://hooks.example"');
  expect(JSON.stringify(found)).not.toMatch(/S3CRET|whsec_/);
  expect(verifyAudit(testApp.app.database.store).ok).toBe(true);
});

test("deletions name who deleted: the key, or the server when the time of a transcript is over", async () => {
  const api = apiClient(testApp.as(testApp.key));
  const ids: string[] = [];
  for (const text of ["एक", "दो"]) {
    const upload = await api.upload(scriptedAudio({ seconds: 2, text }));
    const { body } = await api.start({ audio: { upload_id: upload.id }, language: "hi" });
    await until("it is completed", async () => (await api.get(body.id)).state === "completed");
    ids.push(body.id);
  }
  await call("DELETE", `/v1/transcriptions/${ids[0]}`);
  await call("DELETE", `/v1/transcriptions/${ids[0]}`);
  testApp.clock.advance(2 * DAY_MS);
  const deleted = () => entries().filter(({ action }) => action === "transcription.delete");
  const { config, clock, app } = testApp;
  const { database, services } = app;
  await createRetentionService({
    ...{ ...services, database, clock, config, log: silentLog, trust: app.trust },
    purge: { resume: () => Promise.resolve(0) },
  }).run();
  expect(deleted().map(({ object, source, actor, via }) => ({ object, source, actor, via }))).toEqual([
    { object: ids[0] ?? "", source: "api_key", actor: keyId(), via: expect.stringMatching(/^req_/) },
    { object: ids[1] ?? "", source: "server", actor: "shruti", via: "retention" },
  ]);
});

test("an endpoint that answers 410 is disabled by the server, whatever request has woken the delivery", async () => {
  const receiver = startReceiver(() => new Response(null, { status: 410 }));
  try {
    const api = apiClient(testApp.as(testApp.key));
    const { id = "" } = await call("POST", "/v1/webhook_endpoints", { url: receiver.url });
    const upload = await api.upload(scriptedAudio({ seconds: 2, text: "a" }));
    await api.start({ audio: { upload_id: upload.id }, language: "hi", webhook_endpoint_id: id });
    const disabled = () => entries().find(({ action }) => action === "webhook.disable");
    await until("the endpoint is disabled", () => disabled() !== undefined);
    expect(disabled()).toMatchObject({ object: id, source: "server", via: null });
  } finally {
    await receiver.stop();
  }
});
