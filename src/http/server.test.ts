import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig } from "../config/load.ts";
import { type LogLevel, openLog } from "../lib/log.ts";
import { apiClient, audioForm } from "../testing/answers/api-client.ts";
import { expectRefusal } from "../testing/answers/scenarios.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";

const ORIGIN = "https://app.example";
const METRICS_TOKEN = "metrics-token";
let testApp: TestApp;
let lines: string[] = [];

beforeAll(async () => {
  // The lines of polls are at this level.
  const level: LogLevel = "debug";
  testApp = await openTestApp({
    listens: true,
    log: openLog(level, "json", (line) => void lines.push(line)),
    config: { server: { cors_origins: [ORIGIN] }, metrics: { token: METRICS_TOKEN } },
  });
});
afterAll(() => testApp.close());

/** Sends bytes unchanged, and returns what arrives until the connection closes or is quiet. */
async function raw(text: string): Promise<{ head: string; body: string; isClosed: boolean }> {
  const received: Uint8Array[] = [];
  const closed = Promise.withResolvers<void>();
  let isClosed = false;
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port: Number(new URL(testApp.baseUrl()).port),
    socket: {
      data: (_socket, data) => void received.push(Uint8Array.from(data)),
      close: () => {
        isClosed = true;
        closed.resolve();
      },
    },
  });
  socket.write(text);
  await Promise.race([closed.promise, Bun.sleep(250)]);
  const answer = Buffer.concat(received).toString();
  const result = {
    head: answer.split("\r\n\r\n")[0] ?? "",
    body: answer.split("\r\n\r\n")[1] ?? "",
    isClosed,
  };
  socket.end();
  return result;
}

const authorization = () => `Authorization: Bearer ${testApp.key}`;

test("a request over TLS finds its route, with path parameters and query", async () => {
  const { app, key, baseUrl } = testApp;
  const ask = (path: string) =>
    app.handle(
      new Request(`${baseUrl().replace("http:", "https:")}${path}`, {
        headers: { authorization: `Bearer ${key}` },
      }),
    );
  expect((await ask("/v1/models")).status).toBe(200);
  expect((await ask("/v1/transcriptions?limit=5")).status).toBe(200);
  const created = await apiClient(testApp.as(key)).createUpload(5);
  expect(await (await ask(`/v1/uploads/${created.id}`)).json()).toMatchObject({ id: created.id });
});

describe("over the wire", () => {
  test.each(["HTTP/1.0", "HTTP/1.0\r\nHost: x"])(
    "GET %s, as load balancers send it, is answered",
    async (version) => {
      for (const path of ["/healthz", "/v1/models", "/v1/usage?limit=1"]) {
        const { head } = await raw(`GET ${path} ${version}\r\n${authorization()}\r\n\r\n`);
        expect(head).toMatch(/^HTTP\/1\.[01] 200/);
      }
      const storage = await raw(`OPTIONS /storage/tus ${version}\r\n\r\n`);
      expect(storage.head).toMatch(/^HTTP\/1\.[01] 204/);
    },
  );

  test.each(["x", "h", "evil.example", "a b/c?d=/v1/models"])(
    "the Host field %s changes nothing",
    async (host) => {
      const wrong = await raw(`GET /zzz/v1/models HTTP/1.1\r\nHost: ${host}\r\n${authorization()}\r\n\r\n`);
      expect(wrong.head).toStartWith("HTTP/1.1 404");
    },
  );

  test("HEAD is answered like GET, without a body", async () => {
    const head = await raw(`HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\n${authorization()}\r\n\r\n`);
    expect(head.head).toStartWith("HTTP/1.1 200");
    expect(head.head).toMatch(/content-length: [1-9]/i);
    expect(head.body).toBe("");
    const missing = await raw(`HEAD /v1/nothing HTTP/1.1\r\nHost: localhost\r\n${authorization()}\r\n\r\n`);
    expect(missing.head).toStartWith("HTTP/1.1 404");
    expect(missing.body).toBe("");
  });

  test("the response to a request with `connection: close` has that field as well", async () => {
    const ask = (options: string) =>
      raw(`GET /v1/models HTTP/1.1\r\nHost: localhost\r\n${authorization()}\r\n${options}\r\n`);
    for (const options of ["Connection: close\r\n", "Connection: TE, Close\r\n"]) {
      const { head, isClosed } = await ask(options);
      expect(head).toMatch(/^HTTP\/1\.1 200[\s\S]*\r\nconnection: close/i);
      expect(isClosed).toBe(true);
    }
    const kept = await ask("");
    expect([kept.head.toLowerCase().includes("connection:"), kept.isClosed]).toEqual([false, false]);
  });

  test("a GET with a body is refused", async () => {
    const { head } = await raw(
      `GET /v1/models HTTP/1.1\r\nHost: localhost\r\n${authorization()}\r\nContent-Length: 7\r\n\r\n{"a":1}`,
    );
    expect(head).toStartWith("HTTP/1.1 422");
  });

  test("two Authorization fields count as no key", async () => {
    const { head } = await raw(
      `GET /v1/models HTTP/1.1\r\nHost: localhost\r\n${authorization()}\r\n${authorization()}\r\n\r\n`,
    );
    expect(head).toStartWith("HTTP/1.1 401");
  });

  test("a chunked form without a length is read", async () => {
    const form = new Response(audioForm(scriptedAudio({ seconds: 1, text: "नमस्ते" }), { language: "hi" }));
    const type = form.headers.get("content-type") ?? "";
    const bytes = await form.bytes();
    let at = 0;
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        controller.enqueue(bytes.subarray(at, at + 7));
        at += 7;
        if (at >= bytes.byteLength) controller.close();
      },
    });
    const response = await testApp.as(testApp.key)("/v1/audio/transcriptions", {
      method: "POST",
      headers: { "content-type": type },
      body,
    });
    expect(response.status).toBe(200);
    expect(await response.json()).toHaveProperty("text", "नमस्ते");
  });

  test("a client that stops in the middle of its body leaves nothing behind", async () => {
    const before = await apiClient(testApp.as(testApp.key)).list();
    await raw(
      `POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\n${authorization()}\r\n` +
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 5000\r\n\r\n" +
        '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf',
    );
    const incoming = `${testApp.directory}/incoming`;
    const files = () => [...new Bun.Glob("*").scanSync(incoming)];
    for (let n = 0; n < 100 && files().length > 0; n++) await Bun.sleep(10);
    expect(files()).toEqual([]);
    expect(await apiClient(testApp.as(testApp.key)).list()).toEqual(before);
  });
});

describe("every response", () => {
  test("has its own request id, and so has its log line", async () => {
    lines = [];
    const ids = new Set<string | null>();
    for (const path of [
      "/v1/models",
      "/v1/nothing",
      "/healthz",
      "/docs",
      "/storage/nothing",
      "/openapi.json",
    ]) {
      ids.add((await testApp.as(testApp.key)(path)).headers.get("x-request-id"));
    }
    expect(ids.size).toBe(6);
    const logged = lines.map((line) => (JSON.parse(line) as { request_id: string }).request_id);
    expect(new Set(logged)).toEqual(ids as Set<string>);
  });

  test("has a log line without key, query, body or token", async () => {
    lines = [];
    const client = apiClient(testApp.as(testApp.key));
    const created = await client.createUpload(4);
    const token = created.upload.headers.authorization?.slice("Bearer ".length) ?? "none";
    await testApp.fetch(new URL(created.upload.url).pathname, {
      method: "PUT",
      headers: created.upload.headers,
      body: "abcd",
    });
    await testApp.as(testApp.key)("/v1/transcriptions?after=secret-query");
    const misplaced = [`/${testApp.key}`, `/v1/uploads/${testApp.key}`, `/storage/tus/${token}/x`];
    for (const path of [...misplaced, `/x${testApp.key.replaceAll("_", "%5F")}`]) await testApp.fetch(path);
    await client.transcribe(scriptedAudio({ seconds: 1, text: "गुप्त शब्द" }), { language: "hi" });
    const text = lines.join("");
    expect(lines.length).toBeGreaterThanOrEqual(8);
    const partOfKey = testApp.key.slice(-20);
    for (const secret of [testApp.key, partOfKey, token, "secret-query", "गुप्त", 'abcd"'])
      expect(text).not.toContain(secret);
    expect(text).toContain('"path":"/v1/uploads/shr_…"');
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({
      level: "info",
      method: "POST",
      path: "/v1/uploads",
      status: 201,
      project_id: testApp.project.id,
      duration_ms: expect.any(Number),
    });
  });

  test("to a flood without a key is as usual, and leaves few log lines", async () => {
    const lines: { msg: string; status?: number; count?: number }[] = [];
    const flooded = await openTestApp({
      log: openLog("info", "json", (line) => void lines.push(JSON.parse(line))),
    });
    try {
      const ask = (key: string) => flooded.as(key)("/v1/models");
      for (let n = 0; n < 200; n++)
        await expectRefusal(await ask(n % 2 ? "shr_wrong" : flooded.key.slice(0, -1)), {
          code: "unauthorized",
        });
      expect((await ask(flooded.key)).status).toBe(200);
    } finally {
      await flooded.close();
    }
    const requests = lines.filter(({ msg }) => msg === "request").map(({ status }) => status);
    expect(requests).toEqual([401, 401, 401, 401, 401, 200]);
    expect(lines.find(({ msg }) => msg === "more requests without a valid key")?.count).toBe(195);
  });

  test("may be read by pages of the configured origins only", async () => {
    const ask = (origin: string, init: RequestInit = {}) =>
      testApp.as(testApp.key)("/v1/models", { ...init, headers: { ...(init.headers as object), origin } });
    const allowed = await ask(ORIGIN);
    expect(allowed.headers.get("access-control-allow-origin")).toBe(ORIGIN);
    const exposed = allowed.headers.get("access-control-expose-headers")?.split(", ");
    // Players read the ranges of a recording, OpenAI's SDK whether to try again.
    expect(exposed).toEqual(
      expect.arrayContaining(["x-request-id", "content-range", "etag", "x-should-retry"]),
    );
    const refused = await ask("https://evil.example");
    expect(refused.headers.get("access-control-allow-origin")).toBeNull();
    const question = { method: "OPTIONS", headers: { "access-control-request-method": "GET" } };
    const preflight = await testApp.fetch("/v1/models", {
      ...question,
      headers: { ...question.headers, origin: ORIGIN },
    });
    expect([preflight.status, preflight.headers.get("access-control-allow-methods")]).toEqual([
      204,
      "GET, HEAD",
    ]);
    await expectRefusal(await ask("https://evil.example", question), { code: "method_not_allowed" });
  });
});

describe("operations", () => {
  test("/healthz and /readyz need no key, and /readyz gives the reasons", async () => {
    expect((await testApp.fetch("/healthz")).status).toBe(200);
    expect((await testApp.fetch("/readyz")).status).toBe(200);
    await expectRefusal(await testApp.fetch("/healthz", { method: "POST" }), { code: "method_not_allowed" });
    const draining = await openTestApp();
    draining.app.startDraining();
    const response = await draining.fetch("/readyz");
    expect(response.status).toBe(503);
    expect(await response.json()).toEqual({ status: "not_ready", reasons: ["the server is stopping"] });
    await draining.close();
  });

  test("/metrics counts requests by route, and needs its token", async () => {
    await expectRefusal(await testApp.fetch("/metrics"), { code: "unauthorized" });
    await expectRefusal(await testApp.as(testApp.key)("/metrics"), { code: "unauthorized" });
    await testApp.as(testApp.key)("/v1/transcriptions/tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C");
    await testApp.fetch("/v1/usage");
    await testApp.as(testApp.key)("/v1/usage", { method: "PUT" });
    await testApp.as(testApp.key)("/v1/usage/nothing");
    const response = await testApp.as(METRICS_TOKEN)("/metrics");
    expect(response.status).toBe(200);
    const text = await response.text();
    expect(text).toMatch(
      /shruti_http_requests_total\{method="GET",route="\/v1\/transcriptions\/:transcription_id",status="404"\} \d/,
    );
    const refused = [
      'method="GET",route="/v1/usage",status="401"',
      'method="PUT",route="/v1/usage",status="405"',
      'method="GET",route="(none)",status="404"',
    ];
    for (const labels of refused) expect(text).toContain(`shruti_http_requests_total{${labels}}`);
    expect(text).toContain("shruti_http_request_duration_seconds_bucket");
    expect(text).not.toContain("tr_01KAJ5");
  });

  test("a start removes files that a killed program was receiving", async () => {
    const directory = mkdtempSync(join(tmpdir(), "shruti-killed-"));
    mkdirSync(join(directory, "incoming"));
    writeFileSync(join(directory, "incoming", "half.part"), "half");
    const restarted = await openTestApp({ directory });
    expect(existsSync(join(directory, "incoming", "half.part"))).toBe(false);
    await restarted.close();
    rmSync(directory, { recursive: true });
  });

  test("a stop answers clients that wait for a synchronous result, and cancels their work", async () => {
    const stopping = await openTestApp({ config: { server: { drain_seconds: 0 } } });
    stopping.engine.hold();
    const ended: string[] = [];
    stopping.app.services.transcriptions.listen({ finished: ({ state }) => void ended.push(state) });
    const asked = stopping.as(stopping.key)("/v1/audio/transcriptions", {
      method: "POST",
      body: audioForm(scriptedAudio({ seconds: 1, text: "नमस्ते" }), { language: "hi" }),
    });
    while (stopping.engine.chunks() === 0) await Bun.sleep(1);
    const closed = stopping.close();
    await expectRefusal(await asked, { code: "capacity_unavailable" });
    await closed;
    expect(ended).toEqual(["cancelled"]);
  });
});

test("no route answers without a key, except those that are public by design", async () => {
  const PUBLIC = ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"];
  const described = await testApp.app.handle(new Request(`${testApp.baseUrl()}/openapi.json`));
  const { paths } = (await described.json()) as { paths: Record<string, Record<string, unknown>> };
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => ({ path, method: method.toUpperCase() })),
  );
  expect(routes.length).toBeGreaterThan(15);
  const open: string[] = [];
  for (const { path, method } of routes) {
    const url = `${testApp.baseUrl()}${path.replace(/\{\w+\}/g, "tr_01ARZ3NDEKTSV4RRFFQ69G5FAV")}`;
    const { status } = await testApp.app.handle(new Request(url, { method }));
    // The storage routes ask for an upload's token, and check the header fields of the protocol before it.
    const isRefused = path.startsWith("/storage/") ? status >= 400 || method === "OPTIONS" : status === 401;
    if (!isRefused) open.push(`${method} ${path} ${status}`);
  }
  const byDesign = (route: string) => PUBLIC.some((path) => route.split(" ")[1]?.startsWith(path));
  expect(open.filter((route) => !byDesign(route))).toEqual([]);
});

test.each([
  "app://obsidian.md",
  "chrome-extension://abcdefghijklmnop",
  "moz-extension://0f-1",
  "capacitor://localhost",
])("%s may be an origin of server.cors_origins", async (origin) => {
  const config = loadConfig(undefined, { SHRUTI_SERVER_CORS_ORIGINS: origin });
  const app = await openTestApp({ config: { server: { cors_origins: config.server.cors_origins } } });
  try {
    const response = await app.as(app.key)("/v1/models", { headers: { origin } });
    expect(response.headers.get("access-control-allow-origin")).toBe(origin);
  } finally {
    await app.close();
  }
});
