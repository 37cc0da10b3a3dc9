import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { apiClient, audioForm } from "../testing/answers/api-client.ts";
import { expectRefusal, fingerprint, type Refusal } from "../testing/answers/scenarios.ts";
import { openTestApp, type TestApp, type TestClient } from "../testing/kits/open-test-app.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";

/** Requests with unknown fields, wrong types and wrong encodings. */

const AUDIO = scriptedAudio({ seconds: 2, text: "नमस्ते" });
let testApp: TestApp;
let send: TestClient;
let uploadId: string;
let before: ReturnType<typeof fingerprint>;

beforeAll(async () => {
  testApp = await openTestApp();
  send = testApp.as(testApp.key);
  uploadId = (await apiClient(send).upload(AUDIO)).id;
});
afterAll(() => testApp.close());
beforeEach(() => {
  before = fingerprint(testApp);
});
afterEach(() => {
  expect(fingerprint(testApp)).toEqual(before);
  expect(incomingFiles()).toEqual([]);
});

function incomingFiles(): string[] {
  try {
    return readdirSync(join(testApp.directory, "incoming"));
  } catch {
    return [];
  }
}

const unknown = (detail: string): Refusal => ({ code: "unknown_parameter", detail });
const invalid = (detail?: string): Refusal => ({ code: "invalid_request", ...(detail ? { detail } : {}) });

/** `UPLOAD` is replaced by the id of a complete upload of the project. */
const JSON_BODIES: [title: string, body: string, refusal: Refusal][] = [
  ["an empty body", "", invalid()],
  ["white space only", "  \n", invalid()],
  ["broken JSON", '{"language":', invalid()],
  ["a trailing comma", '{"language":"hi",}', invalid()],
  ["two values", "{} {}", invalid()],
  ["a comment", '{"language":"hi"} // x', invalid()],
  ["a byte order mark", "\uFEFF{}", invalid()],
  ["null", "null", invalid()],
  ["a list", "[]", invalid()],
  ["a text", '"hi"', invalid()],
  ["a number", "1", invalid()],
  ["NaN", '{"language":NaN}', invalid()],
  ["an empty object", "{}", invalid("audio")],
  ["no language", '{"audio":{"upload_id":"UPLOAD"}}', invalid("language")],
  ["no audio", '{"language":"hi"}', invalid("audio")],
  ["audio null", '{"audio":null,"language":"hi"}', invalid("audio")],
  ["audio that is a text", '{"audio":"UPLOAD","language":"hi"}', invalid("audio")],
  ["audio that is a list", '{"audio":[],"language":"hi"}', invalid("audio")],
  ["audio without upload_id", '{"audio":{},"language":"hi"}', invalid("audio.upload_id")],
  ["upload_id that is a number", '{"audio":{"upload_id":5},"language":"hi"}', invalid("audio.upload_id")],
  ["upload_id null", '{"audio":{"upload_id":null},"language":"hi"}', invalid("audio.upload_id")],
  ["upload_id empty", '{"audio":{"upload_id":""},"language":"hi"}', invalid("audio.upload_id")],
  ["language null", '{"audio":{"upload_id":"UPLOAD"},"language":null}', invalid("language")],
  ["language that is a number", '{"audio":{"upload_id":"UPLOAD"},"language":7}', invalid("language")],
  ["language empty", '{"audio":{"upload_id":"UPLOAD"},"language":""}', invalid("language")],
  ["language that is a list", '{"audio":{"upload_id":"UPLOAD"},"language":["hi"]}', invalid("language")],
  ["mode unknown", '{"audio":{"upload_id":"UPLOAD"},"language":"hi","mode":"latin"}', invalid("mode")],
  ["mode in capitals", '{"audio":{"upload_id":"UPLOAD"},"language":"hi","mode":"Native"}', invalid("mode")],
  ["mode null", '{"audio":{"upload_id":"UPLOAD"},"language":"hi","mode":null}', invalid("mode")],
  [
    "timestamps unknown",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","timestamps":"char"}',
    invalid("timestamps"),
  ],
  [
    "timestamps true",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","timestamps":true}',
    invalid("timestamps"),
  ],
  [
    "diarization that is a text",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","diarization":"true"}',
    invalid("diarization"),
  ],
  [
    "diarization that is a number",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","diarization":2}',
    invalid("diarization"),
  ],
  [
    "diarization null",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","diarization":null}',
    invalid("diarization"),
  ],
  [
    "diarization empty",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","diarization":{}}',
    invalid("diarization"),
  ],
  [
    "speakers 0",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","diarization":{"speakers":0}}',
    invalid("diarization.speakers"),
  ],
  [
    "speakers 21",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","diarization":{"speakers":21}}',
    invalid("diarization.speakers"),
  ],
  [
    "speakers 1.5",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","diarization":{"speakers":1.5}}',
    invalid("diarization.speakers"),
  ],
  [
    "only one of the two bounds",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","diarization":{"min_speakers":2}}',
    invalid("diarization.max_speakers"),
  ],
  [
    "a lower bound above the upper one",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","diarization":{"min_speakers":3,"max_speakers":2}}',
    invalid("diarization.min_speakers"),
  ],
  [
    "both forms of diarization at once",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","diarization":{"speakers":2,"min_speakers":1,"max_speakers":2}}',
    invalid("diarization"),
  ],
  [
    "channel_mode unknown",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","channel_mode":"stereo"}',
    invalid("channel_mode"),
  ],
  [
    "webhook_endpoint_id that is a number",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","webhook_endpoint_id":1}',
    invalid("webhook_endpoint_id"),
  ],
  ["model that is a number", '{"audio":{"upload_id":"UPLOAD"},"language":"hi","model":1}', invalid("model")],
  ["model empty", '{"audio":{"upload_id":"UPLOAD"},"language":"hi","model":""}', invalid("model")],
  ["model unknown", '{"audio":{"upload_id":"UPLOAD"},"language":"hi","model":"whisper-9"}', invalid("model")],
  [
    "an unknown field",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","langauge":"hi"}',
    unknown("langauge"),
  ],
  [
    "an unknown field inside audio",
    '{"audio":{"upload_id":"UPLOAD","url":"x"},"language":"hi"}',
    unknown("audio.url"),
  ],
  [
    "an unknown field inside diarization",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","diarization":{"count":2}}',
    unknown("diarization.count"),
  ],
  ["an unknown field beside a missing one", '{"x":1}', unknown("x")],
  ["an unknown field beside a wrong type", '{"audio":5,"language":"hi","x":null}', unknown("x")],
  ["an unknown field beside a repeated one", '{"language":"hi","language":"hi","x":1}', unknown("x")],
  [
    "an unknown field beside an unavailable capability",
    '{"audio":{"upload_id":"UPLOAD"},"language":"auto","x":1}',
    unknown("x"),
  ],
  [
    "__proto__",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","__proto__":{"mode":"x"}}',
    unknown("__proto__"),
  ],
  [
    "__proto__ below",
    '{"audio":{"upload_id":"UPLOAD","__proto__":{}},"language":"hi"}',
    unknown("audio.__proto__"),
  ],
  ["constructor", '{"audio":{"upload_id":"UPLOAD"},"language":"hi","constructor":1}', unknown("constructor")],
  ["toString", '{"audio":{"upload_id":"UPLOAD"},"language":"hi","toString":1}', unknown("toString")],
  ["an empty name", '{"audio":{"upload_id":"UPLOAD"},"language":"hi","":1}', unknown("(empty)")],
  [
    "a repeated name",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","language":"hi"}',
    invalid("language"),
  ],
  [
    "a repeated name, escaped",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","l\\u0061nguage":"hi"}',
    invalid("language"),
  ],
  [
    "a repeated name inside an object",
    '{"audio":{"upload_id":"UPLOAD","upload_id":"UPLOAD"},"language":"hi"}',
    invalid("audio.upload_id"),
  ],
  [
    "language auto",
    '{"audio":{"upload_id":"UPLOAD"},"language":"auto"}',
    { code: "capability_unavailable", detail: "language.auto" },
  ],
  [
    "timestamps word",
    '{"audio":{"upload_id":"UPLOAD"},"language":"hi","timestamps":"word"}',
    { code: "capability_unavailable", detail: "timestamps.word" },
  ],
  [
    "a language the model lacks",
    '{"audio":{"upload_id":"UPLOAD"},"language":"ta"}',
    { code: "unsupported_language", detail: "language" },
  ],
  [
    "a mode the language lacks",
    '{"audio":{"upload_id":"UPLOAD"},"language":"en","mode":"codemix"}',
    { code: "unsupported_mode", detail: "mode" },
  ],
];

describe("POST /v1/transcriptions refuses", () => {
  test.each(JSON_BODIES)("%s", async (_title, body, refusal) => {
    const response = await send("/v1/transcriptions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: body.replaceAll("UPLOAD", uploadId),
    });
    await expectRefusal(response, refusal);
  });

  const good = () => JSON.stringify({ audio: { upload_id: uploadId }, language: "hi" });
  const CONTENT_TYPES = [
    "text/plain",
    "application/json; charset=utf-16",
    "application/json; charset=iso-8859-1",
    "application/x-www-form-urlencoded",
    "application/json; version=2",
    "application/jsonl",
    "text/json",
  ];
  test.each(CONTENT_TYPES)("content type %s", async (type) => {
    const response = await send("/v1/transcriptions", {
      method: "POST",
      headers: { "content-type": type },
      body: good(),
    });
    await expectRefusal(response, invalid("content-type"));
  });

  test("no content type", async () => {
    const response = await send("/v1/transcriptions", {
      method: "POST",
      body: new TextEncoder().encode(good()),
    });
    await expectRefusal(response, invalid("content-type"));
  });

  const BYTES: [string, number[]][] = [
    ["a lone continuation byte", [0x7b, 0x22, 0x80, 0x22, 0x3a, 0x31, 0x7d]],
    ["an overlong form", [0x7b, 0x22, 0xc0, 0xaf, 0x22, 0x3a, 0x31, 0x7d]],
    ["a surrogate", [0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x3a, 0x31, 0x7d]],
    ["UTF-16", [0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00]],
  ];
  test.each(BYTES)("%s", async (_title, bytes) => {
    const response = await send("/v1/transcriptions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: new Uint8Array(bytes),
    });
    await expectRefusal(response, invalid());
  });

  test("a compressed body", async () => {
    const response = await send("/v1/transcriptions", {
      method: "POST",
      headers: { "content-type": "application/json", "content-encoding": "gzip" },
      body: Bun.gzipSync(new TextEncoder().encode(good())),
    });
    await expectRefusal(response, invalid("content-encoding"));
  });

  test("more than 64 KiB", async () => {
    const body = JSON.stringify({ audio: { upload_id: uploadId }, language: "h".repeat(70_000) });
    const response = await send("/v1/transcriptions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    await expectRefusal(response, invalid());
  });

  test("more than 64 KiB that arrive in pieces, and the client can send its last piece", async () => {
    let pulled = 0;
    const body = new ReadableStream({
      pull(controller) {
        pulled++;
        controller.enqueue(new Uint8Array(16 * 1024).fill(0x20));
        if (pulled === 1000) controller.close();
      },
    });
    const response = await send("/v1/transcriptions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    await expectRefusal(response, invalid());
    expect(response.headers.get("connection")).toBeNull();
    expect(pulled).toBe(1000);
  });

  test.each([33, 1000, 30_000])("nesting %d deep", async (depth) => {
    const response = await send("/v1/transcriptions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "[".repeat(depth) + "]".repeat(depth),
    });
    await expectRefusal(response, invalid());
  });

  const KEYS: [string, string][] = [
    ["an empty key", ""],
    ["256 characters", "k".repeat(256)],
    ["a tab", "a\tb"],
    ["characters beyond ASCII", "schl\u00fcssel"],
  ];
  test.each(KEYS)("Idempotency-Key: %s", async (_title, key) => {
    const response = await send("/v1/transcriptions", {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": key },
      body: good(),
    });
    await expectRefusal(response, invalid("Idempotency-Key"));
  });

  test("a query", async () => {
    const response = await send("/v1/transcriptions?dry_run=1", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: good(),
    });
    await expectRefusal(response, unknown("dry_run"));
  });
});

const FORMS: [title: string, fields: Record<string, string>, refusal: Refusal][] = [
  ["no language", {}, invalid("language")],
  ["language empty", { language: "" }, invalid("language")],
  ["language too long", { language: "h".repeat(36) }, invalid("language")],
  ["mode unknown", { language: "hi", mode: "latin" }, invalid("mode")],
  ["mode empty", { language: "hi", mode: "" }, invalid("mode")],
  ["timestamps unknown", { language: "hi", timestamps: "char" }, invalid("timestamps")],
  ["diarization 1", { language: "hi", diarization: "1" }, invalid("diarization")],
  ["diarization True", { language: "hi", diarization: "True" }, invalid("diarization")],
  ["diarization with a space", { language: "hi", diarization: " true" }, invalid("diarization")],
  ["diarization that is a list", { language: "hi", diarization: "[2]" }, invalid("diarization")],
  ["diarization cut off", { language: "hi", diarization: '{"speakers":2' }, invalid("diarization")],
  [
    "diarization with 21 speakers",
    { language: "hi", diarization: '{"speakers":21}' },
    invalid("diarization.speakers"),
  ],
  [
    "diarization with bounds in the wrong order",
    { language: "hi", diarization: '{"min_speakers":3,"max_speakers":2}' },
    invalid("diarization.min_speakers"),
  ],
  [
    "diarization with a repeated name",
    { language: "hi", diarization: '{"speakers":2,"speakers":3}' },
    invalid("diarization.speakers"),
  ],
  [
    "an unknown field inside diarization",
    { language: "hi", diarization: '{"count":2}' },
    unknown("diarization.count"),
  ],
  ["channel_mode unknown", { language: "hi", channel_mode: "left" }, invalid("channel_mode")],
  ["model unknown", { language: "hi", model: "whisper-9" }, invalid("model")],
  ["model empty", { language: "hi", model: "" }, invalid("model")],
  ["a field of 2 KiB", { language: "hi", model: "m".repeat(2048) }, invalid("model")],
  ["an unknown field", { language: "hi", prompt: "x" }, unknown("prompt")],
  ["an unknown field beside a missing one", { prompt: "x" }, unknown("prompt")],
  ["response_format", { language: "hi", response_format: "text" }, unknown("response_format")],
  ["webhook_endpoint_id", { language: "hi", webhook_endpoint_id: "whe_1" }, unknown("webhook_endpoint_id")],
  ["__proto__", { language: "hi", ["__proto__"]: "x" }, unknown("__proto__")],
  ["constructor", { language: "hi", constructor: "x" } as Record<string, string>, unknown("constructor")],
  ["language auto", { language: "auto" }, { code: "capability_unavailable", detail: "language.auto" }],
  [
    "timestamps word",
    { language: "hi", timestamps: "word" },
    { code: "capability_unavailable", detail: "timestamps.word" },
  ],
  ["a language the model lacks", { language: "ta" }, { code: "unsupported_language", detail: "language" }],
  [
    "a mode the language lacks",
    { language: "en", mode: "codemix" },
    { code: "unsupported_mode", detail: "mode" },
  ],
];

describe("POST /v1/audio/transcriptions refuses", () => {
  const post = (body: FormData | Uint8Array<ArrayBuffer> | string, headers: Record<string, string> = {}) =>
    send("/v1/audio/transcriptions", { method: "POST", headers, body });

  test.each(FORMS)("%s", async (_title, fields, refusal) => {
    await expectRefusal(await post(audioForm(AUDIO, fields)), refusal);
  });

  test("no file", async () => {
    await expectRefusal(await post(audioForm(undefined, { language: "hi" })), invalid("file"));
  });
  test("the file as text", async () => {
    await expectRefusal(await post(audioForm(undefined, { language: "hi", file: "abc" })), invalid("file"));
  });
  test("two files", async () => {
    const form = audioForm(AUDIO, { language: "hi" });
    form.append("file", new File([AUDIO], "b.wav"));
    await expectRefusal(await post(form), invalid("file"));
  });
  test("a field twice", async () => {
    const form = audioForm(AUDIO, { language: "hi" });
    form.append("language", "hi");
    await expectRefusal(await post(form), invalid("language"));
  });
  test("a field that is a file", async () => {
    const form = audioForm(AUDIO, {});
    form.append("language", new File(["hi"], "language.txt"));
    await expectRefusal(await post(form), invalid("language"));
  });
  test("an unknown file", async () => {
    const form = audioForm(AUDIO, { language: "hi" });
    form.append("extra", new File(["x"], "x.txt"));
    await expectRefusal(await post(form), unknown("extra"));
  });
  test("a field that is not UTF-8", async () => {
    const form = Buffer.concat([
      Buffer.from('--b\r\nContent-Disposition: form-data; name="language"\r\n\r\n'),
      Buffer.from([0xff, 0xfe]),
      Buffer.from("\r\n--b--\r\n"),
    ]);
    const response = await post(form, { "content-type": "multipart/form-data; boundary=b" });
    await expectRefusal(response, invalid("language"));
  });
  test("a part without a name", async () => {
    const form = "--b\r\nContent-Disposition: form-data\r\n\r\nhi\r\n--b--\r\n";
    const response = await post(form, { "content-type": "multipart/form-data; boundary=b" });
    await expectRefusal(response, unknown("(empty)"));
  });
  test("more parts than a form may have", async () => {
    const form = audioForm(AUDIO, { language: "hi" });
    for (let n = 0; n < 200; n++) form.append("language", "hi");
    await expectRefusal(await post(form), invalid("language"));
  });

  const BODIES: [string, string, string, string | undefined][] = [
    ["JSON", "application/json", "{}", "content-type"],
    ["no boundary", "multipart/form-data", "--b--", "content-type"],
    ["another multipart", "multipart/mixed; boundary=b", "--b--\r\n", "content-type"],
    ["url-encoded", "application/x-www-form-urlencoded", "language=hi", "content-type"],
    ["an empty body", "multipart/form-data; boundary=b", "", undefined],
    [
      "no end",
      "multipart/form-data; boundary=b",
      '--b\r\nContent-Disposition: form-data; name="language"\r\n\r\nhi',
      undefined,
    ],
    ["another boundary", "multipart/form-data; boundary=b", "--c\r\n\r\n--c--\r\n", undefined],
  ];
  test.each(BODIES)("%s", async (_title, type, body, detail) => {
    await expectRefusal(await post(body, { "content-type": type }), invalid(detail));
  });

  test("a query", async () => {
    const response = await send("/v1/audio/transcriptions?language=hi", {
      method: "POST",
      body: audioForm(AUDIO, { language: "hi" }),
    });
    await expectRefusal(response, unknown("language"));
  });
  test("an invalid Idempotency-Key", async () => {
    const response = await post(audioForm(AUDIO, { language: "hi" }), { "idempotency-key": "k".repeat(256) });
    await expectRefusal(response, invalid("Idempotency-Key"));
  });
});

const QUERIES: [path: string, refusal: Refusal][] = [
  ["/v1/transcriptions?limit=0", invalid("limit")],
  ["/v1/transcriptions?limit=101", invalid("limit")],
  ["/v1/transcriptions?limit=-1", invalid("limit")],
  ["/v1/transcriptions?limit=1.5", invalid("limit")],
  ["/v1/transcriptions?limit=1e1", invalid("limit")],
  ["/v1/transcriptions?limit=010", invalid("limit")],
  ["/v1/transcriptions?limit=+5", invalid("limit")],
  ["/v1/transcriptions?limit=", invalid("limit")],
  ["/v1/transcriptions?limit", invalid("limit")],
  ["/v1/transcriptions?limit=ten", invalid("limit")],
  ["/v1/transcriptions?limit=5&limit=5", invalid("limit")],
  ["/v1/transcriptions?limit=5&l%69mit=5", invalid("limit")],
  ["/v1/transcriptions?after=", invalid("after")],
  ["/v1/transcriptions?after=tr_nothing", invalid("after")],
  ["/v1/transcriptions?after=%zz", invalid("after")],
  ["/v1/transcriptions?after=%ff", invalid("after")],
  ["/v1/transcriptions?state=", invalid("state")],
  ["/v1/transcriptions?state=done", invalid("state")],
  ["/v1/transcriptions?state=queued,", invalid("state")],
  ["/v1/transcriptions?state=queued,Completed", invalid("state")],
  ["/v1/transcriptions?page=2", unknown("page")],
  ["/v1/transcriptions?limit=0&page=2", unknown("page")],
  ["/v1/transcriptions?__proto__=1", unknown("__proto__")],
  ["/v1/transcriptions?filter[state]=queued", unknown("filter[state]")],
  ["/v1/usage?limit=0", invalid("limit")],
  ["/v1/usage?limit=101", invalid("limit")],
  ["/v1/usage?after=ue_nothing", invalid("after")],
  ["/v1/usage?state=queued", unknown("state")],
  ["/v1/models?limit=5", unknown("limit")],
  [`/v1/transcriptions?after=${"a".repeat(5000)}`, invalid()],
];

describe("queries are refused", () => {
  test.each(QUERIES)("%s", async (path, refusal) => {
    await expectRefusal(await send(path), refusal);
  });
});
