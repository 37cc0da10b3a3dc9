import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { isId } from "../../lib/ids.ts";
import { apiClient } from "../../testing/answers/api-client.ts";
import { expectRefusal, fingerprint } from "../../testing/answers/scenarios.ts";
import { openTestApp, type TestApp, type TestClient } from "../../testing/kits/open-test-app.ts";
import { until } from "../../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";
import { startReceiver } from "../../testing/kits/webhook-kit.ts";
import { updateEndpoint } from "../../webhooks/event-rows.ts";
import type { RotatedSecret, WebhookEndpoint, WebhookEndpointList } from "../wire/schemas.ts";

/** Webhook endpoints that clients administer over HTTP. */

const PATH = "/v1/webhook_endpoints";
let testApp: TestApp;
let client: TestClient;
beforeEach(async () => {
  testApp = await openTestApp();
  client = testApp.as(testApp.key);
});
afterEach(() => testApp.close());

const json = { "content-type": "application/json" };
const post = (path: string, body?: unknown, as = client) =>
  as(path, { method: "POST", ...(body === undefined ? {} : { headers: json, body: JSON.stringify(body) }) });
const register = async (n = 0) =>
  (await (await post(PATH, { url: `https://hooks.example/${n}` })).json()) as WebhookEndpoint;

describe("webhook endpoints by the API", () => {
  test("are listed in pages, newest first, and shown, without their secrets", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) {
      testApp.clock.advance(5);
      ids.unshift((await register(n)).id);
    }
    const first = (await (await client(`${PATH}?limit=2`)).json()) as WebhookEndpointList;
    expect(first.data.map(({ id }) => id)).toEqual(ids.slice(0, 2));
    const second = (await (
      await client(`${PATH}?limit=2&after=${first.next}`)
    ).json()) as WebhookEndpointList;
    expect([second.data.map(({ id }) => id), second.next]).toEqual([ids.slice(2), null]);
    const shown = await (await client(`${PATH}/${ids[0]}`)).json();
    expect(shown).toEqual(first.data[0]);
    expect(shown).toMatchObject({ url: "https://hooks.example/2", state: "enabled", pending_deliveries: 0 });
    expect(JSON.stringify([first, shown])).not.toContain("whsec_");
    const other = testApp.as(
      testApp.makeKey(
        testApp.accounts.createProject({
          organizationId: testApp.organization.id,
          name: "other",
        }).id,
      ),
    );
    expect(((await (await other(PATH)).json()) as WebhookEndpointList).data).toEqual([]);
    await expectRefusal(await other(`${PATH}?after=${ids[0]}`), { code: "invalid_request", detail: "after" });
  });

  test("are removed for good, and then do not exist", async () => {
    const { id } = await register();
    expect(await (await client(`${PATH}/${id}`, { method: "DELETE" })).json()).toEqual({
      ...{ id, object: "webhook_endpoint", deleted: true },
    });
    for (const method of ["GET", "DELETE"])
      await expectRefusal(await client(`${PATH}/${id}`, { method }), { code: "not_found" });
    expect(((await (await client(PATH)).json()) as WebhookEndpointList).data).toEqual([]);
  });

  test("are enabled again after they were disabled", async () => {
    const { id } = await register();
    updateEndpoint(testApp.app.database.store, id, { disabledAt: 5, disabledReason: "answered 410" });
    const path = `${PATH}/${id}`;
    expect(await (await client(path)).json()).toMatchObject({
      state: "disabled",
      disabled_reason: "answered 410",
    });
    expect(await (await post(`${path}/enable`)).json()).toMatchObject({ id, state: "enabled" });
    expect(await (await post(`${path}/enable`)).json()).not.toHaveProperty("disabled_reason");
  });

  test("send what waited as soon as they are enabled, signed with both secrets after a rotation", async () => {
    const receiver = startReceiver();
    const app = await openTestApp({
      config: { webhooks: { allow_http: true, allowed_networks: ["127.0.0.0/8"] } },
    });
    try {
      const send = app.as(app.key);
      const api = apiClient(send);
      const made = (await (await post(PATH, { url: receiver.url }, send)).json()) as WebhookEndpoint;
      const path = `${PATH}/${made.id}`;
      const upload = await api.upload(scriptedAudio({ seconds: 2, text: "a" }));
      const release = app.engine.hold();
      const { body } = await api.start({
        ...{ audio: { upload_id: upload.id }, language: "hi", webhook_endpoint_id: made.id },
      });
      updateEndpoint(app.app.database.store, made.id, { disabledAt: 5, disabledReason: "by hand" });
      release();
      await until("it is completed", async () => (await api.get(body.id)).state === "completed");
      expect(await (await send(path)).json()).toMatchObject({ pending_deliveries: 1 });
      const rotated = (await (await post(`${path}/rotate_secret`, undefined, send)).json()) as RotatedSecret;
      await post(`${path}/enable`, undefined, send);
      await until("the event arrives", () => receiver.received.length === 1, 5_000);
      const [event] = receiver.received;
      expect(event?.signature.split(" ")).toHaveLength(2);
      for (const secret of [made.secret, rotated.secret]) {
        const key = Buffer.from(secret.slice("whsec_".length), "base64");
        const text = `${event?.id}.${event?.timestamp}.${event?.body}`;
        expect(event?.signature).toContain(createHmac("sha256", key).update(text).digest("base64"));
      }
    } finally {
      await app.close();
      await receiver.stop();
    }
  });

  test("get another secret, and both sign until the previous one ends", async () => {
    const { id, secret } = await register();
    const path = `${PATH}/${id}/rotate_secret`;
    const rotated = (await (await post(path)).json()) as RotatedSecret;
    expect(rotated.secret).not.toBe(secret);
    expect(Date.parse(rotated.previous_secret_expires_at)).toBe(testApp.clock.now() + 86_400_000);
    expect(isId("webhookEndpoint", rotated.id)).toBe(true);
    const short = (await (await post(path, { keep_previous_seconds: 60 })).json()) as RotatedSecret;
    const view = (await (await client(`${PATH}/${id}`)).json()) as Record<string, unknown>;
    expect(view.previous_secret_expires_at).toBe(short.previous_secret_expires_at);
    const none = (await (await post(path, { keep_previous_seconds: 0 })).json()) as RotatedSecret;
    expect(Date.parse(none.previous_secret_expires_at)).toBe(testApp.clock.now());
    expect(await (await client(`${PATH}/${id}`)).json()).not.toHaveProperty("previous_secret_expires_at");
  });

  test.each([
    [{ keep_previous_seconds: -1 }, "invalid_request", "keep_previous_seconds"],
    [{ keep_previous_seconds: 604_801 }, "invalid_request", "keep_previous_seconds"],
    [{ keep: 1 }, "unknown_parameter", "keep"],
  ] as const)("refuse to be rotated with %j", async (body, code, detail) => {
    const { id } = await register();
    const before = fingerprint(testApp);
    await expectRefusal(await post(`${PATH}/${id}/rotate_secret`, body), { code, detail });
    expect(fingerprint(testApp)).toEqual(before);
  });

  test("belong to their project, and need their scope", async () => {
    const { id } = await register();
    const sibling = testApp.accounts.createProject({ organizationId: testApp.organization.id, name: "b" });
    const stranger = testApp.accounts.createProject({
      ...{ organizationId: testApp.accounts.createOrganization({ name: "Second" }).id, name: "c" },
    });
    const reader = testApp.makeKey(testApp.project.id, ["transcriptions:write"]);
    const cases = [
      [testApp.makeKey(sibling.id), { code: "forbidden" }],
      [testApp.makeKey(stranger.id), { code: "not_found" }],
      [reader, { code: "forbidden", detail: "webhooks:write" }],
    ] as const;
    for (const [key, refusal] of cases) {
      const as = testApp.as(key);
      await expectRefusal(await as(`${PATH}/${id}`), refusal);
      await expectRefusal(await as(`${PATH}/${id}`, { method: "DELETE" }), refusal);
      await expectRefusal(await post(`${PATH}/${id}/enable`, undefined, as), refusal);
      await expectRefusal(await post(`${PATH}/${id}/rotate_secret`, undefined, as), refusal);
    }
    expect((await client(`${PATH}/${id}`)).status).toBe(200);
  });
});
