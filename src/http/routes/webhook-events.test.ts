import { afterEach, expect, test } from "bun:test";
import { ApiError, apiClient } from "../../testing/answers/api-client.ts";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";
import { type Script, scriptedAudio } from "../../testing/kits/scripted-engine.ts";
import { BENCH_WEBHOOKS, isAuthentic, type Receiver, startReceiver } from "../../testing/kits/webhook-kit.ts";
import type { Transcription, WebhookEndpoint } from "../wire/schemas.ts";

/** Events of webhooks, from the request that names an endpoint to the receiver. */

let app: TestApp | undefined;
let receiver: Receiver | undefined;
afterEach(async () => {
  await app?.close();
  await receiver?.stop();
});

async function open() {
  app = await openTestApp({ config: { webhooks: BENCH_WEBHOOKS } });
  receiver = startReceiver();
  const client = apiClient(app.as(app.key));
  const { status, body: endpoint } = await client.call<WebhookEndpoint>("POST", "/v1/webhook_endpoints", {
    url: receiver.url,
  });
  expect(status).toBe(201);
  const { received } = receiver;
  const { engine } = app;

  async function start(script: Script): Promise<Transcription> {
    const { id: upload_id } = await client.upload(scriptedAudio(script));
    const { id: webhook_endpoint_id } = endpoint;
    return (await client.start({ audio: { upload_id }, language: "hi", webhook_endpoint_id })).body;
  }
  async function eventOf(id: string) {
    const end = performance.now() + 30_000;
    for (;;) {
      const event = received.find(({ body }) => body.includes(id));
      if (event) return { event, body: JSON.parse(event.body) as unknown };
      if (performance.now() > end) throw new Error(`no event of ${id}`);
      await Bun.sleep(5);
    }
  }
  return { client, endpoint, engine, start, eventOf };
}

test("a final state is sent to its endpoint, signed with the secret of the registration", async () => {
  const { client, endpoint, engine, start, eventOf } = await open();
  const spoken = await start({ seconds: 2, text: "नमस्ते" });
  const done = await eventOf(spoken.id);
  expect(done.body).toEqual({ type: "transcription.completed", data: { id: spoken.id, state: "completed" } });
  expect(isAuthentic(done.event, endpoint.secret)).toBe(true);
  // The transcription of the event can be fetched when the event arrives.
  expect((await client.result(spoken.id)).text).toBe("नमस्ते");

  const broken = await start({ seconds: 2, trouble: "refuse" });
  const failed = await eventOf(broken.id);
  const { error } = await client.get(broken.id);
  expect(error).toBeDefined();
  expect(failed.body).toEqual({
    type: "transcription.failed",
    data: { id: broken.id, state: "failed", error },
  });

  const release = engine.hold();
  const long = await start({ seconds: 2, text: "x" });
  await client.cancel(long.id);
  const cancelled = await eventOf(long.id);
  expect(cancelled.body).toEqual({
    type: "transcription.cancelled",
    data: { id: long.id, state: "cancelled" },
  });
  release();
  expect(new Set([done, failed, cancelled].map(({ event }) => event.id)).size).toBe(3);
});

test("an endpoint that is unknown, disabled or removed is refused before anything is reserved", async () => {
  const { client, endpoint } = await open();
  const { id: upload_id } = await client.upload(scriptedAudio({ seconds: 2, text: "x" }));
  const startFor = async (webhook_endpoint_id: string) => {
    try {
      await client.start({ audio: { upload_id }, language: "hi", webhook_endpoint_id });
    } catch (error) {
      if (error instanceof ApiError) return [error.status, error.code, error.detail];
      throw error;
    }
    return [];
  };
  expect(await startFor("whe_00000000000000000000000000")).toEqual([404, "not_found", "webhook_endpoint_id"]);
  app?.app.database.sqlite.run("UPDATE webhook_endpoints SET disabled_at = 1");
  expect(await startFor(endpoint.id)).toEqual([409, "conflict", "webhook_endpoint_id"]);
  app?.app.services.webhooks.remove(endpoint.id);
  expect(await startFor(endpoint.id)).toEqual([404, "not_found", "webhook_endpoint_id"]);
  expect((await client.list()).data).toEqual([]);
});
