import { afterEach, describe, expect, test } from "bun:test";
import { apiClient } from "../../testing/answers/api-client.ts";
import { expectRefusal, fingerprint } from "../../testing/answers/scenarios.ts";
import { manualClock } from "../../testing/kits/manual-clock.ts";
import { openTestApp, type TestApp, type TestAppOptions } from "../../testing/kits/open-test-app.ts";
import { until } from "../../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";
import type { UploadCreated } from "../wire/schemas.ts";

/** How long an upload's token is valid, and how many uploads may be open. */

const open: TestApp[] = [];
async function openApp(options: TestAppOptions = {}) {
  const testApp = await openTestApp({ clock: manualClock(), ...options });
  open.push(testApp);
  return testApp;
}
afterEach(async () => {
  for (const testApp of open.splice(0)) await testApp.close();
});

const AUDIO = scriptedAudio({ seconds: 1, channels: 1, text: "नमस्ते" });
const HALF = 30;
const TUS = { "tus-resumable": "1.0.0" };

const post = (body: unknown) => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});

/** Every way to use an upload's token, each on an upload that has received half of its bytes by tus. */
async function withToken(testApp: TestApp, created: UploadCreated): Promise<Record<string, Response>> {
  const { authorization } = created.upload.headers as { authorization: string };
  const path = `/storage/uploads/${created.id}`;
  const tusPath = `/storage/tus/${created.id}`;
  const patch = {
    ...TUS,
    authorization,
    "upload-offset": String(HALF),
    "content-type": "application/offset+octet-stream",
  };
  const metadata = `upload_id ${btoa(created.id)}`;
  const creation = {
    ...TUS,
    authorization,
    "upload-length": String(AUDIO.length),
    "upload-metadata": metadata,
  };
  return {
    "HEAD of tus": await testApp.fetch(tusPath, { method: "HEAD", headers: { ...TUS, authorization } }),
    "tus creation": await testApp.fetch("/storage/tus", { method: "POST", headers: creation }),
    PATCH: await testApp.fetch(tusPath, { method: "PATCH", headers: patch, body: AUDIO.subarray(HALF) }),
    HEAD: await testApp.fetch(path, { method: "HEAD", headers: { authorization } }),
    PUT: await testApp.fetch(path, { method: "PUT", headers: { authorization }, body: AUDIO }),
    DELETE: await testApp.fetch(path, { method: "DELETE", headers: { authorization } }),
  };
}

/** Makes the file of an upload by tus, with its first bytes. */
async function createByTus(testApp: TestApp, created: UploadCreated, body = new Uint8Array()): Promise<void> {
  const { authorization } = created.upload.headers as { authorization: string };
  const headers = {
    ...TUS,
    authorization,
    "upload-length": String(AUDIO.length),
    "upload-metadata": `upload_id ${btoa(created.id)}`,
    "content-type": "application/offset+octet-stream",
  };
  expect((await testApp.fetch("/storage/tus", { method: "POST", headers, body })).status).toBe(201);
}

async function halfSent(testApp: TestApp, key: string): Promise<UploadCreated> {
  const created = await apiClient(testApp.as(key)).createUpload(AUDIO.length);
  await createByTus(testApp, created, AUDIO.slice(0, HALF));
  return created;
}

const statuses = (responses: Record<string, Response>) =>
  Object.fromEntries(Object.entries(responses).map(([name, { status }]) => [name, status]));
const all = (responses: Record<string, Response>, status: number) =>
  Object.fromEntries(Object.keys(responses).map((name) => [name, status]));

describe("an upload's token", () => {
  const ENDS: [name: string, end: (testApp: TestApp, keyId: string) => void, status: number][] = [
    ["is refused once its key is revoked", ({ app }, id) => void app.services.apiKeys.revokeKey(id), 401],
    ["is refused once its key has expired", ({ clock }) => clock.advance(3_600_000), 401],
    [
      "is refused while its organization is disabled",
      ({ accounts, organization }) => void accounts.disableOrganization(organization.id),
      403,
    ],
  ];
  for (const [name, end, status] of ENDS) {
    test(name, async () => {
      const testApp = await openApp();
      const { apiKeys } = testApp.app.services;
      const { id, key } = apiKeys.createKey({
        ...{ projectId: testApp.project.id, name: "short", expiresAt: testApp.clock.now() + 3_600_000 },
      });
      const created = await halfSent(testApp, key);
      end(testApp, id);
      const before = fingerprint(testApp);
      const refused = await withToken(testApp, created);
      expect(statuses(refused)).toEqual(all(refused, status));
      await expectRefusal(refused.PUT as Response, {
        code: status === 401 ? "unauthorized" : "organization_disabled",
      });
      expect(fingerprint(testApp)).toEqual(before);
      expect(await testApp.app.services.uploads.storedBytes(created.id)).toBe(HALF);
    });
  }

  test("stays valid when another key of the project is revoked, and for an upload that an older version of the program created", async () => {
    const testApp = await openApp();
    const { apiKeys } = testApp.app.services;
    const other = apiKeys.createKey({ projectId: testApp.project.id, name: "other" });
    const own = await halfSent(testApp, testApp.key);
    const older = await halfSent(testApp, other.key);
    testApp.app.database.sqlite.run("UPDATE uploads SET api_key_id = NULL WHERE id = ?", [older.id]);
    apiKeys.revokeKey(other.id);
    for (const created of [own, older]) {
      expect(statuses(await withToken(testApp, created))).toEqual({
        ...{ "HEAD of tus": 200, "tus creation": 201, PATCH: 204, HEAD: 200, PUT: 200, DELETE: 204 },
      });
    }
  });
});

describe("a key that is revoked while the file arrives", () => {
  type Sent = { path: string; method: string; headers?: Record<string, string>; parts: Uint8Array[] };
  const halves = [AUDIO.subarray(0, HALF), AUDIO.subarray(HALF)];
  const CASES: [name: string, sent: (created: UploadCreated) => Sent, status: number, storedBytes: number][] =
    [
      [
        "PUT of the whole file",
        ({ id }) => ({ path: `/storage/uploads/${id}`, method: "PUT", parts: halves }),
        200,
        AUDIO.length,
      ],
      [
        "PUT of a part of it",
        ({ id }) => ({
          ...{ path: `/storage/uploads/${id}`, method: "PUT" },
          parts: halves.map((part) => part.subarray(0, -1)),
        }),
        409,
        AUDIO.length - 2,
      ],
      [
        "tus creation with the file",
        ({ id }) => ({
          ...{ path: "/storage/tus", method: "POST", parts: halves },
          headers: {
            ...{ "upload-length": String(AUDIO.length), "upload-metadata": `upload_id ${btoa(id)}` },
            "content-type": "application/offset+octet-stream",
          },
        }),
        201,
        AUDIO.length,
      ],
      [
        "tus PATCH",
        ({ id }) => ({
          ...{ path: `/storage/tus/${id}`, method: "PATCH", parts: halves },
          headers: { "upload-offset": "0", "content-type": "application/offset+octet-stream" },
        }),
        204,
        AUDIO.length,
      ],
    ];
  test.each(CASES)("does not end it: %s", async (_name, sentFor, status, storedBytes) => {
    const testApp = await openApp();
    const { apiKeys, uploads } = testApp.app.services;
    const { id: keyId, key } = apiKeys.createKey({ projectId: testApp.project.id, name: "short" });
    const created = await apiClient(testApp.as(key)).createUpload(AUDIO.length);
    const { authorization } = created.upload.headers as { authorization: string };
    const sent = sentFor(created);
    const headers = { ...TUS, authorization, ...sent.headers };
    if (sent.method === "PATCH") await createByTus(testApp, created);
    const body = new ReadableStream<Uint8Array>({
      async start(controller) {
        controller.enqueue(sent.parts[0] as Uint8Array);
        await until("the upload is received", () => uploads.receiving() === 1);
        apiKeys.revokeKey(keyId);
        controller.enqueue(sent.parts[1] as Uint8Array);
        controller.close();
      },
    });
    const answer = await testApp.fetch(sent.path, { method: sent.method, headers, body });
    expect(answer.status).toBe(status);
    if (sent.method === "PUT" && status === 200) {
      expect(await answer.json()).toEqual({
        id: created.id,
        object: "upload",
        state: "allocated",
        bytes: AUDIO.length,
      });
    }
    expect(await uploads.storedBytes(created.id)).toBe(storedBytes);
    // The token ended with the key: the next request is refused, and another key of the project completes the upload.
    const next = await testApp.fetch(`/storage/uploads/${created.id}`, { method: "HEAD", headers });
    expect(next.status).toBe(401);
    const completed = await testApp.as(testApp.key)(`/v1/uploads/${created.id}/complete`, { method: "POST" });
    expect(completed.status).toBe(storedBytes === AUDIO.length ? 200 : 409);
  });
});

describe("open uploads of an organization", () => {
  test("are limited: 429 with Retry-After, nothing stored, other organizations not affected", async () => {
    const testApp = await openApp({ config: { limits: { max_open_uploads: 3 } } });
    const send = testApp.as(testApp.key);
    const client = apiClient(send);
    const sibling = testApp.accounts.createProject({ organizationId: testApp.organization.id, name: "two" });
    const first = await client.createUpload(AUDIO.length);
    for (let count = 1; count < 3; count++) await client.createUpload(AUDIO.length);
    const keys = [testApp.key, testApp.makeKey(sibling.id)];
    const before = fingerprint(testApp);
    for (const key of keys) {
      const refused = await testApp.as(key)("/v1/uploads", post({ bytes: 5 }));
      expect(refused.headers.get("retry-after")).toBe("60");
      await expectRefusal(refused, { code: "rate_limited" });
    }
    expect({ ...fingerprint(testApp), api_keys: "" }).toEqual({ ...before, api_keys: "" });

    const stranger = testApp.accounts.createOrganization({ name: "Second" });
    const project = testApp.accounts.createProject({ organizationId: stranger.id, name: "main" });
    expect((await testApp.as(testApp.makeKey(project.id))("/v1/uploads", post({ bytes: 5 }))).status).toBe(
      201,
    );

    // A complete upload leaves its place to another one.
    await testApp.fetch(`/storage/uploads/${first.id}`, { ...first.upload, body: AUDIO });
    await client.call("POST", `/v1/uploads/${first.id}/complete`);
    await client.createUpload(5);
    await expectRefusal(await send("/v1/uploads", post({ bytes: 5 })), { code: "rate_limited" });
  });

  test("do not count once they have expired, and the refusal names the time until the next one expires", async () => {
    const limits = { max_open_uploads: 1, upload_expiry_seconds: 90 };
    const testApp = await openApp({ config: { limits } });
    const send = testApp.as(testApp.key);
    await apiClient(send).createUpload(5);
    for (const [waitMs, retryAfter] of [
      [0, "60"],
      [60_000, "30"],
      [29_500, "1"],
    ] as const) {
      testApp.clock.advance(waitMs);
      const refused = await send("/v1/uploads", post({ bytes: 5 }));
      expect(refused.headers.get("retry-after")).toBe(retryAfter);
    }
    testApp.clock.advance(500);
    await apiClient(send).createUpload(5);
  });

  test("are unlimited with 0, and of simultaneous requests exactly as many as fit are accepted", async () => {
    const free = await openApp({ config: { limits: { max_open_uploads: 0 } } });
    const bounded = await openApp({ config: { limits: { max_open_uploads: 7 } } });
    for (const [testApp, taken] of [
      [free, 30],
      [bounded, 7],
    ] as const) {
      const send = testApp.as(testApp.key);
      const answers = await Promise.all(
        Array.from({ length: 30 }, () => send("/v1/uploads", post({ bytes: 5 }))),
      );
      expect(answers.filter(({ status }) => status === 201)).toHaveLength(taken);
      expect(answers.filter(({ status }) => status === 429)).toHaveLength(30 - taken);
    }
  });
});

describe("stored bytes", () => {
  const DETAIL = "stored_bytes";
  const form = (fields: Record<string, string>) => {
    const body = new FormData();
    for (const [name, value] of Object.entries(fields)) body.set(name, value);
    body.set("file", new Blob([AUDIO]), "a.wav");
    return { method: "POST", body };
  };

  test.each(["insufficient_credits", "rate_limited"] as const)(
    "each way to store more ends with %s, and stores nothing",
    async (code) => {
      const isPaying = code === "rate_limited";
      const bound = Math.ceil(1.5 * AUDIO.length);
      const testApp = await openApp({
        creditPaise: isPaying ? 1000 : 0,
        config: {
          limits: isPaying ? { stored_bytes: bound } : { stored_bytes_without_credit: bound },
          openai: { enabled: true, model_aliases: ["whisper-1"] },
        },
      });
      const send = testApp.as(testApp.key);
      const client = apiClient(send);
      const announced = await client.createUpload(AUDIO.length);
      const { id } = await client.upload(AUDIO).catch(() => ({ id: "" }));
      // Its first bytes took the space, so there is none for another file.
      expect(id).toBe("");
      const { headers } = announced.upload;
      const sent = await testApp.fetch(`/storage/uploads/${announced.id}`, {
        method: "PUT",
        headers,
        body: AUDIO,
      });
      expect(sent.status).toBe(200);
      await client.call("POST", `/v1/uploads/${announced.id}/complete`);
      await Bun.sleep(10);
      const before = fingerprint(testApp);
      await expectRefusal(await send("/v1/uploads", post({ bytes: AUDIO.length })), { code, detail: DETAIL });
      const sync = await send("/v1/audio/transcriptions", form({ language: "hi" }));
      await expectRefusal(sync, { code, detail: DETAIL });
      const openai = await send(
        "/openai/v1/audio/transcriptions",
        form({ language: "hi", model: "whisper-1" }),
      );
      // By this status OpenAI's clients know both.
      expect(openai.status).toBe(429);
      expect({ ...fingerprint(testApp), api_keys: "" }).toEqual({ ...before, api_keys: "" });
      // An admin's number gives space, with and without credit.
      testApp.accounts.setOrganization(testApp.organization.id, { maxStoredBytes: 10 * AUDIO.length });
      await client.upload(AUDIO);
    },
  );

  test("an upload of the highest size can be announced without credit; PUT and tus stop at the bound", async () => {
    const testApp = await openApp({
      creditPaise: 0,
      // A real connection says how long a body is.
      listens: true,
      config: { limits: { stored_bytes_without_credit: 9_000_000 } },
    });
    const client = apiClient(testApp.as(testApp.key));
    const created = await client.createUpload(testApp.config.limits.max_upload_bytes);
    const { authorization = "" } = created.upload.headers;
    const large = new Uint8Array(9_000_001);
    const refusal = { code: "insufficient_credits", detail: DETAIL } as const;
    const path = `/storage/uploads/${created.id}`;
    await expectRefusal(
      await testApp.fetch(path, { method: "PUT", headers: { authorization }, body: large }),
      refusal,
    );
    const tus = { ...TUS, authorization };
    const creation = {
      "upload-length": String(testApp.config.limits.max_upload_bytes),
      "upload-metadata": `upload_id ${btoa(created.id)}`,
    };
    await testApp.fetch("/storage/tus", { method: "POST", headers: { ...tus, ...creation } });
    const patch = (offset: number, body: Uint8Array<ArrayBuffer>) =>
      testApp.fetch(`/storage/tus/${created.id}`, {
        method: "PATCH",
        headers: {
          ...tus,
          "upload-offset": String(offset),
          "content-type": "application/offset+octet-stream",
        },
        body,
      });
    expect((await patch(0, large.subarray(0, 8_000_000))).status).toBe(204);
    await expectRefusal(await patch(8_000_000, large.subarray(0, 1_000_001)), refusal);
  });
});
