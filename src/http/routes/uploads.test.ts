import { afterEach, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { apiClient } from "../../testing/answers/api-client.ts";
import { expectRefusal } from "../../testing/answers/scenarios.ts";
import { openTestApp, type TestApp, type TestAppOptions } from "../../testing/kits/open-test-app.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";
import type { Upload, UploadCreated } from "../wire/schemas.ts";

const open: TestApp[] = [];
async function openApp(options: TestAppOptions = {}) {
  const testApp = await openTestApp(options);
  open.push(testApp);
  return { testApp, send: testApp.as(testApp.key), client: apiClient(testApp.as(testApp.key)) };
}
afterEach(async () => {
  for (const testApp of open.splice(0)) await testApp.close();
});

const AUDIO = scriptedAudio({ seconds: 2.5, channels: 2, text: "नमस्ते" });
const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
const post = (body: unknown) => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});

describe("uploads", () => {
  test("creation responds with both ways to send the file", async () => {
    const { send } = await openApp({ config: { server: { base_url: "https://speech.example/api" } } });
    const response = await send("/v1/uploads", post({ bytes: 12 }));
    expect(response.status).toBe(201);
    expect(response.headers.get("x-request-id")).toStartWith("req_");
    const body = (await response.json()) as UploadCreated;
    const authorization = body.upload.headers.authorization;
    expect(body as unknown).toEqual({
      id: expect.stringMatching(/^up_[0-9A-HJKMNP-TV-Z]{26}$/),
      object: "upload",
      state: "allocated",
      bytes: 12,
      expires_in: 86_400,
      upload: {
        method: "PUT",
        url: `https://speech.example/api/storage/uploads/${body.id}`,
        headers: {
          authorization: expect.stringMatching(/^Bearer upt_/),
          "content-type": "application/octet-stream",
        },
      },
      resumable_upload: {
        protocol: "tus",
        endpoint: "https://speech.example/api/storage/tus",
        chunk_size: 8_388_608,
        headers: { authorization },
        metadata: { upload_id: body.id },
      },
    });
  });

  test("sent without a project key, completed and read with one", async () => {
    const { testApp, client } = await openApp();
    const created = await client.createUpload(AUDIO.length, sha256(AUDIO));
    const { headers } = created.upload;
    const path = `/storage/uploads/${created.id}`;
    const sent = await testApp.fetch(path, { method: "PUT", headers, body: AUDIO });
    expect(sent.status).toBe(200);
    expect(sent.headers.get("x-request-id")).toStartWith("req_");
    const done = await client.call<Upload>("POST", `/v1/uploads/${created.id}/complete`);
    expect(done.status).toBe(200);
    const expected = {
      id: created.id,
      object: "upload",
      state: "complete",
      bytes: AUDIO.length,
      duration_seconds: 2.5,
      channels: 2,
    };
    expect(done.body).toEqual(expected as Upload);
    expect((await client.call<Upload>("GET", `/v1/uploads/${created.id}`)).body).toEqual(expected as Upload);
    await expectRefusal(
      await testApp.fetch(path, {
        method: "PUT",
        headers: { authorization: `Bearer ${testApp.key}` },
        body: AUDIO,
      }),
      { code: "unauthorized" },
    );
  });

  test("a file that is not audio: 415 now and on repetition, and the upload has the reason", async () => {
    const { testApp, client, send } = await openApp();
    const created = await client.createUpload(4);
    await testApp.fetch(`/storage/uploads/${created.id}`, { ...created.upload, body: "text" });
    const complete = () => send(`/v1/uploads/${created.id}/complete`, { method: "POST" });
    await expectRefusal(await complete(), { code: "audio_decode_failed" });
    await expectRefusal(await complete(), { code: "audio_decode_failed" });
    expect((await client.call<Upload>("GET", `/v1/uploads/${created.id}`)).body).toMatchObject({
      state: "rejected",
      deleted: true,
      error: { code: "audio_decode_failed" },
    });
  });

  test("too large, a full disk, a body on complete, another project", async () => {
    const { testApp, send, client } = await openApp({ config: { limits: { max_upload_bytes: 100 } } });
    await expectRefusal(await send("/v1/uploads", post({ bytes: 101 })), {
      code: "audio_too_large",
      detail: "bytes",
    });
    await expectRefusal(await send("/v1/uploads", post({ bytes: 5, sha256: "A".repeat(64) })), {
      code: "invalid_request",
      detail: "sha256",
    });
    const { id } = await client.createUpload(100);
    await expectRefusal(await send(`/v1/uploads/${id}/complete`, post({ x: 1 })), {
      code: "unknown_parameter",
      detail: "x",
    });
    await expectRefusal(await send(`/v1/uploads/${id}/complete`, { method: "POST" }), {
      code: "upload_incomplete",
    });
    const sibling = testApp.accounts.createProject({
      organizationId: testApp.organization.id,
      name: "second",
    });
    await expectRefusal(await testApp.as(testApp.makeKey(sibling.id))(`/v1/uploads/${id}`), {
      code: "forbidden",
    });
    const reader = testApp.as(testApp.makeKey(testApp.project.id, ["transcriptions:read"]));
    await expectRefusal(await reader("/v1/uploads", post({ bytes: 5 })), {
      code: "forbidden",
      detail: "uploads:write",
    });

    const full = await openApp({ config: { storage: { reserve_bytes: Number.MAX_SAFE_INTEGER } } });
    const refused = await full.send("/v1/uploads", post({ bytes: 5 }));
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(1);
    await expectRefusal(refused, { code: "capacity_unavailable" });
  });

  test("deleting a transcription deletes its upload's audio, and the upload says so", async () => {
    const { client, send } = await openApp();
    const upload = await client.upload(AUDIO);
    const { body } = await client.start({ audio: { upload_id: upload.id }, language: "hi" });
    await client.finished(body.id);
    await client.remove(body.id);
    expect((await client.call<Upload>("GET", `/v1/uploads/${upload.id}`)).body).toMatchObject({
      state: "complete",
      deleted: true,
    });
    const again = await send("/v1/transcriptions", post({ audio: { upload_id: upload.id }, language: "hi" }));
    await expectRefusal(again, { code: "content_deleted", detail: "audio.upload_id" });
  });

  test("browsers may use the storage addresses from configured origins only", async () => {
    const origin = "https://app.example";
    const preflight = { method: "OPTIONS", headers: { origin, "access-control-request-method": "PATCH" } };
    const off = await openApp();
    const path = "/storage/tus/up_01KAJ5KZQ8D3F5G7H9J1K3M5N7";
    const silent = await off.testApp.fetch(path, preflight);
    expect([...silent.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
    const on = await openApp({ config: { server: { cors_origins: [origin] } } });
    const allowed = await on.testApp.fetch(path, preflight);
    expect(allowed.headers.get("access-control-allow-origin")).toBe(origin);
    expect(allowed.headers.get("access-control-allow-methods")).toContain("PATCH");
    const other = await on.testApp.fetch(path, {
      ...preflight,
      headers: { ...preflight.headers, origin: "https://b.example" },
    });
    expect(other.headers.get("access-control-allow-origin")).toBeNull();
  });
});
