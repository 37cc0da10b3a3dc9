import { afterAll, describe, expect, test } from "bun:test";
import { ERROR_CODES, type ErrorCode } from "../domain/errors.ts";
import { apiClient, audioForm } from "../testing/answers/api-client.ts";
import { expectRefusal, fingerprint } from "../testing/answers/scenarios.ts";
import { openTestApp, type TestApp, type TestAppOptions } from "../testing/kits/open-test-app.ts";
import { type Script, scriptedAudio } from "../testing/kits/scripted-engine.ts";

/** Scenarios of requests: every error code, with the answer and what is stored. */

const HINDI: Script = { seconds: 2, text: "नमस्ते" };

const WORD_TIMES: TestAppOptions = { config: { capabilities: { word_timestamps: true } } };

type Scenario = {
  code: ErrorCode;
  title: string;
  detail?: string;
  options?: TestAppOptions;
  /** Creates the situation, and returns the request that is refused in it. */
  given: (testApp: TestApp) => Promise<() => Promise<Response>> | (() => Promise<Response>);
  /** The refused request still stores something: accepted work, or a rejected upload. */
  leavesTrace?: boolean;
  /** Further checks of the response. */
  check?: (response: Response) => void;
};

const clientOf = (testApp: TestApp) => apiClient(testApp.as(testApp.key));

function post(testApp: TestApp, path: string, body?: unknown, headers: Record<string, string> = {}) {
  const json = body === undefined ? {} : { body: JSON.stringify(body) };
  const type = body === undefined ? {} : { "content-type": "application/json" };
  return testApp.as(testApp.key)(path, { method: "POST", headers: { ...type, ...headers }, ...json });
}

const start = (testApp: TestApp, uploadId: string, more: object = {}) =>
  post(testApp, "/v1/transcriptions", { audio: { upload_id: uploadId }, language: "hi", ...more });

const synchronous = (testApp: TestApp, script: Script | Uint8Array<ArrayBuffer> = HINDI, more = {}) =>
  testApp.as(testApp.key)("/v1/audio/transcriptions", {
    method: "POST",
    body: audioForm(script instanceof Uint8Array ? script : scriptedAudio(script), {
      language: "hi",
      ...more,
    }),
  });

async function uploaded(testApp: TestApp, script: Script = HINDI): Promise<string> {
  return (await clientOf(testApp).upload(scriptedAudio(script))).id;
}

/** Starts a transcription that cannot finish during the test. */
async function held(testApp: TestApp): Promise<string> {
  testApp.engine.hold();
  const { body } = await clientOf(testApp).start({
    audio: { upload_id: await uploaded(testApp) },
    language: "hi",
  });
  return body.id;
}

async function completed(testApp: TestApp): Promise<{ id: string; uploadId: string }> {
  const uploadId = await uploaded(testApp);
  const { body } = await clientOf(testApp).start({ audio: { upload_id: uploadId }, language: "hi" });
  expect((await clientOf(testApp).finished(body.id)).state).toBe("completed");
  return { id: body.id, uploadId };
}

/** Makes a client of another project of the same organization. */
function sibling(testApp: TestApp): TestApp {
  const project = testApp.accounts.createProject({ organizationId: testApp.organization.id, name: "second" });
  return { ...testApp, project, key: testApp.makeKey(project.id) };
}

/** Makes a client of another organization. */
function stranger(testApp: TestApp): TestApp {
  const organization = testApp.accounts.createOrganization({ name: "Second" });
  const project = testApp.accounts.createProject({ organizationId: organization.id, name: "main" });
  testApp.app.services.credit.grant({ organizationId: organization.id, amountPaise: 100_000 });
  return { ...testApp, organization, project, key: testApp.makeKey(project.id) };
}

const UNKNOWN_ID = "tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C";

const SCENARIOS: Scenario[] = [
  // —— authentication ——
  { code: "unauthorized", title: "no key", given: (t) => () => t.fetch("/v1/models") },
  {
    code: "unauthorized",
    title: "a key with a typo",
    given: (t) => () => t.as(`${t.key.slice(0, -1)}!`)("/v1/models"),
  },
  {
    code: "unauthorized",
    title: "another scheme",
    given: (t) => () => t.fetch("/v1/models", { headers: { authorization: `Basic ${t.key}` } }),
  },
  { code: "unauthorized", title: "an unknown path without a key", given: (t) => () => t.fetch("/v2/x") },
  {
    code: "unauthorized",
    title: "a revoked key",
    given: (t) => {
      const { id, key } = t.app.services.apiKeys.createKey({ projectId: t.project.id, name: "old" });
      t.app.services.apiKeys.revokeKey(id);
      return () => t.as(key)("/v1/models");
    },
  },
  {
    code: "organization_disabled",
    title: "a disabled organization, even on an unknown path",
    given: (t) => {
      t.accounts.disableOrganization(t.organization.id);
      return () => t.as(t.key)("/v2/x");
    },
  },
  {
    code: "rate_limited",
    title: "more requests than the key may send",
    options: { config: { limits: { requests_per_second: 1, request_burst: 1 } } },
    given: async (t) => {
      await t.as(t.key)("/v1/models");
      return () => t.as(t.key)("/v1/models");
    },
    check: (response) => {
      expect(response.headers.get("retry-after")).toBe("1");
      expect(response.headers.get("ratelimit")).toBe('"default";r=0;t=1');
      expect(response.headers.get("ratelimit-policy")).toBe('"default";q=1;w=1');
    },
  },
  { code: "not_found", title: "an unknown path", given: (t) => () => t.as(t.key)("/v1/nothing") },
  { code: "not_found", title: "a slash at the end", given: (t) => () => t.as(t.key)("/v1/models/") },
  {
    code: "not_found",
    title: "a path with broken encoding",
    given: (t) => () => t.as(t.key)("/v1/transcriptions/%zz"),
  },
  {
    code: "not_found",
    title: "an identifier that is percent-encoded, of an upload that there is",
    given: async (t) => {
      const { id } = await clientOf(t).createUpload(5);
      return () => t.as(t.key)(`/v1/uploads/%75p${id.slice(2)}`);
    },
  },
  {
    code: "method_not_allowed",
    title: "another method",
    given: (t) => () => t.as(t.key)("/v1/transcriptions", { method: "PUT" }),
    check: (response) =>
      expect(response.headers.get("allow")?.split(", ").sort()).toEqual(["GET", "HEAD", "POST"]),
  },
  {
    code: "method_not_allowed",
    title: "another method on one transcription",
    given: (t) => () => t.as(t.key)(`/v1/transcriptions/${UNKNOWN_ID}`, { method: "PATCH" }),
    check: (response) =>
      expect(response.headers.get("allow")?.split(", ").sort()).toEqual(["DELETE", "GET", "HEAD"]),
  },
  {
    code: "forbidden",
    title: "a key without the scope",
    detail: "usage:read",
    given: (t) => {
      const key = t.makeKey(t.project.id, ["models:read"]);
      return () => t.as(key)("/v1/usage");
    },
  },
  {
    code: "forbidden",
    title: "a key without the scope, before the body is looked at",
    detail: "transcriptions:write",
    given: (t) => {
      const key = t.makeKey(t.project.id, ["models:read"]);
      return () => t.as(key)("/v1/transcriptions", { method: "POST", body: "{" });
    },
  },
  // —— ownership ——
  {
    code: "not_found",
    title: "an unknown transcription",
    given: (t) => () => t.as(t.key)(`/v1/transcriptions/${UNKNOWN_ID}`),
  },
  {
    code: "not_found",
    title: "another organization's transcription",
    given: async (t) => {
      const { id } = await completed(t);
      const other = stranger(t);
      return () => t.as(other.key)(`/v1/transcriptions/${id}/result`);
    },
  },
  {
    code: "forbidden",
    title: "another project's transcription",
    given: async (t) => {
      const { id } = await completed(t);
      const other = sibling(t);
      return () => t.as(other.key)(`/v1/transcriptions/${id}`, { method: "DELETE" });
    },
  },
  {
    code: "forbidden",
    title: "another project's upload",
    detail: "audio.upload_id",
    given: async (t) => {
      const uploadId = await uploaded(t);
      const other = sibling(t);
      return () => start(other, uploadId);
    },
  },
  {
    code: "not_found",
    title: "another organization's upload",
    detail: "audio.upload_id",
    given: async (t) => {
      const uploadId = await uploaded(t);
      const other = stranger(t);
      return () => start(other, uploadId);
    },
  },
  {
    code: "not_found",
    title: "an unknown webhook endpoint",
    detail: "webhook_endpoint_id",
    given: async (t) => {
      const uploadId = await uploaded(t);
      return () => start(t, uploadId, { webhook_endpoint_id: "whe_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C" });
    },
  },
  // —— requests ——
  {
    code: "invalid_request",
    title: "a body that is no JSON",
    given: (t) => () =>
      t.as(t.key)("/v1/uploads", {
        method: "POST",
        body: "{",
        headers: { "content-type": "application/json" },
      }),
  },
  {
    code: "invalid_request",
    title: "an upload of 0 bytes",
    detail: "bytes",
    given: (t) => () => post(t, "/v1/uploads", { bytes: 0 }),
  },
  {
    code: "invalid_request",
    title: "a body where none is wanted",
    detail: "content-type",
    given: (t) => () => t.as(t.key)(`/v1/transcriptions/${UNKNOWN_ID}/cancel`, { method: "POST", body: "x" }),
  },
  {
    code: "unknown_parameter",
    title: "a field where none is wanted",
    detail: "reason",
    given: (t) => () => post(t, `/v1/transcriptions/${UNKNOWN_ID}/cancel`, { reason: "x" }),
  },
  {
    code: "unknown_parameter",
    title: "a parameter where none is wanted",
    detail: "force",
    given: (t) => () => t.as(t.key)(`/v1/transcriptions/${UNKNOWN_ID}?force=1`, { method: "DELETE" }),
  },
  {
    code: "unknown_parameter",
    title: "an unknown field of an upload",
    detail: "name",
    given: (t) => () => post(t, "/v1/uploads", { bytes: 1, name: "a.wav" }),
  },
  {
    code: "unknown_parameter",
    title: "an unknown field of a webhook endpoint",
    detail: "event_types",
    given: (t) => () => post(t, "/v1/webhook_endpoints", { url: "https://hooks.example", event_types: [] }),
  },
  {
    code: "invalid_request",
    title: "a webhook endpoint without TLS",
    detail: "url",
    given: (t) => () => post(t, "/v1/webhook_endpoints", { url: "http://hooks.example" }),
  },
  {
    code: "capability_unavailable",
    title: "language auto",
    detail: "language.auto",
    given: (t) => () => synchronous(t, HINDI, { language: "auto" }),
  },
  {
    code: "capability_unavailable",
    title: "timestamps word before an unknown upload",
    detail: "timestamps.word",
    given: (t) => () => start(t, "up_x", { timestamps: "word" }),
  },
  {
    code: "capability_unavailable",
    title: "timestamps word from a model that cannot time words",
    detail: "timestamps.word",
    options: { ...WORD_TIMES, canTimeWords: false },
    given: (t) => () => synchronous(t, HINDI, { timestamps: "word" }),
  },
  {
    code: "invalid_request",
    title: "timestamps word from an unknown model, with word times switched on",
    detail: "model",
    options: WORD_TIMES,
    given: (t) => () => start(t, "up_x", { timestamps: "word", model: "nothing" }),
  },
  {
    code: "capability_unavailable",
    title: "timestamps word from an unknown model",
    detail: "timestamps.word",
    given: (t) => () => start(t, "up_x", { timestamps: "word", model: "nothing" }),
  },
  {
    code: "not_found",
    title: "an unknown upload, with timestamps word that the model has",
    detail: "audio.upload_id",
    options: { ...WORD_TIMES, canTimeWords: true },
    given: (t) => () => start(t, "up_x", { timestamps: "word" }),
  },
  {
    code: "unsupported_language",
    title: "a language the model lacks",
    detail: "language",
    given: (t) => () => start(t, "up_x", { language: "ta" }),
  },
  {
    code: "unsupported_mode",
    title: "a mode the language lacks",
    detail: "mode",
    given: (t) => () => start(t, "up_x", { language: "en", mode: "codemix" }),
  },
  // —— idempotency ——
  {
    code: "idempotency_conflict",
    title: "another request under a key",
    detail: "Idempotency-Key",
    given: async (t) => {
      const uploadId = await uploaded(t);
      const body = { audio: { upload_id: uploadId }, language: "hi" };
      await post(t, "/v1/transcriptions", body, { "idempotency-key": "k" });
      return () => post(t, "/v1/transcriptions", { ...body, mode: "verbatim" }, { "idempotency-key": "k" });
    },
  },
  {
    code: "idempotency_conflict",
    title: "another file under a key",
    detail: "Idempotency-Key",
    given: async (t) => {
      const send = (script: Script) =>
        t.as(t.key)("/v1/audio/transcriptions", {
          method: "POST",
          headers: { "idempotency-key": "k" },
          body: audioForm(scriptedAudio(script), { language: "hi" }),
        });
      expect((await send(HINDI)).status).toBe(200);
      return () => send({ ...HINDI, seconds: 3 });
    },
  },
  // —— audio ——
  {
    code: "upload_incomplete",
    title: "a transcription of an upload without bytes",
    detail: "audio.upload_id",
    given: async (t) => {
      const { id } = await clientOf(t).createUpload(10);
      return () => start(t, id);
    },
  },
  {
    code: "upload_incomplete",
    title: "complete before the bytes are there",
    given: async (t) => {
      const { id } = await clientOf(t).createUpload(10);
      return () => post(t, `/v1/uploads/${id}/complete`);
    },
  },
  {
    code: "upload_rejected",
    title: "other bytes than announced",
    leavesTrace: true,
    given: async (t) => {
      const { id, upload } = await clientOf(t).createUpload(4, "0".repeat(64));
      await t.fetch(new URL(upload.url).pathname, {
        method: upload.method,
        headers: upload.headers,
        body: "abcd",
      });
      return () => post(t, `/v1/uploads/${id}/complete`);
    },
  },
  {
    code: "audio_decode_failed",
    title: "an upload that is not audio",
    leavesTrace: true,
    given: async (t) => {
      const { id, upload } = await clientOf(t).createUpload(4);
      await t.fetch(new URL(upload.url).pathname, {
        method: upload.method,
        headers: upload.headers,
        body: "abcd",
      });
      return () => post(t, `/v1/uploads/${id}/complete`);
    },
  },
  {
    code: "audio_decode_failed",
    title: "a synchronous file that is not audio",
    detail: "file",
    given: (t) => () => synchronous(t, new TextEncoder().encode("not audio")),
  },
  {
    code: "audio_decode_failed",
    title: "an empty synchronous file",
    detail: "file",
    given: (t) => () => synchronous(t, new Uint8Array(0)),
  },
  {
    code: "audio_decode_failed",
    title: "a synchronous file of less than a millisecond",
    detail: "file",
    given: (t) => () => synchronous(t, { ...HINDI, seconds: 0.0001 }),
  },
  {
    code: "audio_too_large",
    title: "an upload over the limit",
    detail: "bytes",
    options: { config: { limits: { max_upload_bytes: 100 } } },
    given: (t) => () => post(t, "/v1/uploads", { bytes: 101 }),
  },
  {
    code: "audio_too_large",
    title: "a synchronous file a little over the limit",
    detail: "file",
    options: { config: { limits: { synchronous_max_bytes: 100 } } },
    given: (t) => () => synchronous(t, new Uint8Array(101)),
  },
  {
    code: "audio_too_large",
    title: "a synchronous file far over the limit",
    detail: "file",
    options: { config: { limits: { synchronous_max_bytes: 100 } } },
    given: (t) => () => synchronous(t, new Uint8Array(3_000_000)),
  },
  {
    code: "unsupported_language",
    title: "a file over the limit in a language the model lacks",
    detail: "language",
    options: { config: { limits: { synchronous_max_bytes: 100 } } },
    given: (t) => () => synchronous(t, new Uint8Array(101), { language: "ta" }),
  },
  {
    code: "audio_too_long",
    title: "a recording over the limit",
    detail: "audio.upload_id",
    options: { config: { limits: { max_duration_seconds: 1 } } },
    given: async (t) => {
      const uploadId = await uploaded(t);
      return () => start(t, uploadId);
    },
  },
  {
    code: "audio_too_long",
    title: "a synchronous file over the limit",
    detail: "file",
    given: (t) => () => synchronous(t, { seconds: 61, text: "x" }),
  },
  {
    code: "too_many_channels",
    title: "three channels",
    detail: "audio.upload_id",
    given: async (t) => {
      const uploadId = await uploaded(t, { ...HINDI, channels: 3 });
      return () => start(t, uploadId);
    },
  },
  {
    code: "too_many_channels",
    title: "three channels at once",
    detail: "file",
    given: (t) => () => synchronous(t, { ...HINDI, channels: 3 }),
  },
  // —— limits and money ——
  {
    code: "too_many_queued",
    title: "a full queue",
    options: { config: { limits: { max_queued: 1 } } },
    given: async (t) => {
      const uploadId = await uploaded(t);
      t.engine.hold();
      for (let n = 0; n < 50; n++) if ((await start(t, uploadId)).status === 429) break;
      return () => start(t, uploadId);
    },
  },
  {
    code: "spend_limit_reached",
    title: "the day's limit",
    options: { config: { billing: { daily_spend_limit_paise: 1 } } },
    given: async (t) => {
      const uploadId = await uploaded(t);
      return () => start(t, uploadId);
    },
    // 04:05:06.789Z is 09:35:06.789 in Kolkata; midnight is 14 h 24 min 54 s away, rounded up.
    check: (response) => expect(response.headers.get("retry-after")).toBe("51894"),
  },
  {
    code: "insufficient_credits",
    title: "an empty account",
    options: { creditPaise: 0 },
    given: async (t) => {
      const uploadId = await uploaded(t);
      return () => start(t, uploadId);
    },
  },
  {
    code: "insufficient_credits",
    title: "an empty account at once",
    options: { creditPaise: 0 },
    given: (t) => () => synchronous(t),
  },
  // —— outcomes ——
  {
    code: "result_not_ready",
    title: "the result of unfinished work",
    given: async (t) => {
      const id = await held(t);
      return () => t.as(t.key)(`/v1/transcriptions/${id}/result`);
    },
  },
  {
    code: "conflict",
    title: "deleting unfinished work",
    given: async (t) => {
      const id = await held(t);
      return () => t.as(t.key)(`/v1/transcriptions/${id}`, { method: "DELETE" });
    },
  },
  {
    code: "conflict",
    title: "the result of cancelled work",
    given: async (t) => {
      const id = await held(t);
      expect((await clientOf(t).cancel(id)).state).toBe("cancelled");
      return () => t.as(t.key)(`/v1/transcriptions/${id}/result`);
    },
  },
  {
    code: "content_deleted",
    title: "the result after DELETE",
    given: async (t) => {
      const { id } = await completed(t);
      await clientOf(t).remove(id);
      return () => t.as(t.key)(`/v1/transcriptions/${id}/result`);
    },
  },
  {
    code: "content_deleted",
    title: "a transcription of deleted audio",
    detail: "audio.upload_id",
    given: async (t) => {
      const { id, uploadId } = await completed(t);
      await clientOf(t).remove(id);
      return () => start(t, uploadId);
    },
  },
  {
    code: "capacity_unavailable",
    title: "no place for synchronous work",
    options: { config: { engine: { synchronous_workers: 0 } } },
    given: (t) => () => synchronous(t),
  },
  {
    code: "capacity_unavailable",
    title: "the only place is taken",
    given: async (t) => {
      const release = t.engine.hold();
      const first = synchronous(t);
      while (t.engine.chunks() === 0) await Bun.sleep(1);
      return async () => {
        const second = await synchronous(t);
        release();
        expect((await first).status).toBe(200);
        return second;
      };
    },
    leavesTrace: true,
  },
  {
    code: "timeout",
    title: "synchronous work that takes too long",
    options: { config: { limits: { synchronous_timeout_seconds: 1 } } },
    leavesTrace: true,
    given: (t) => {
      t.engine.hold();
      return async () => {
        const response = await synchronous(t);
        const { credit, data } = await clientOf(t).usage();
        expect(credit).toEqual({ balance_paise: 1_000_000, reserved_paise: 0, available_paise: 1_000_000 });
        expect(data).toMatchObject([{ state: "cancelled", amount_paise: 0 }]);
        return response;
      };
    },
  },
  {
    code: "timeout",
    title: "a synchronous body that does not arrive",
    options: { config: { limits: { synchronous_timeout_seconds: 1 } } },
    given: (t) => () =>
      t.as(t.key)("/v1/audio/transcriptions", {
        method: "POST",
        headers: { "content-type": "multipart/form-data; boundary=b" },
        body: new ReadableStream({
          start: (controller) =>
            controller.enqueue(
              Buffer.from(
                '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf of it',
              ),
            ),
        }),
      }),
  },
  {
    code: "transcription_failed",
    title: "synchronous work that nothing could be made of",
    leavesTrace: true,
    given: (t) => () => synchronous(t, { ...HINDI, trouble: "crash" }),
  },
  {
    code: "internal_error",
    title: "a fault of the program's own",
    given: (t) => {
      return async () => {
        t.app.database.sqlite.run("ALTER TABLE usage_events RENAME TO lost");
        const response = await t.as(t.key)("/v1/usage");
        t.app.database.sqlite.run("ALTER TABLE lost RENAME TO usage_events");
        return response;
      };
    },
  },
];

describe("every code", () => {
  const provoked = new Set<ErrorCode>();
  test.each(SCENARIOS.map((scenario) => [scenario.code, scenario.title, scenario] as const))(
    "%s: %s",
    async (code, _title, scenario) => {
      const testApp = await openTestApp(scenario.options);
      try {
        const ask = await scenario.given(testApp);
        const before = fingerprint(testApp);
        const response = await ask();
        scenario.check?.(response);
        await expectRefusal(response, { code, ...(scenario.detail ? { detail: scenario.detail } : {}) });
        if (!scenario.leavesTrace) expect(fingerprint(testApp)).toEqual(before);
        provoked.add(code);
      } finally {
        await testApp.close();
      }
    },
  );
  afterAll(() => expect([...provoked].sort()).toEqual([...ERROR_CODES].sort()));
});
