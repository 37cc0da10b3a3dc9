import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../config/schema.ts";
import type { Resolve } from "../outbound/guarded-fetch.ts";
import { manualClock } from "../testing/kits/manual-clock.ts";
import { testConfig } from "../testing/kits/test-config.ts";
import {
  type Answer,
  BENCH_WEBHOOKS,
  isAuthentic,
  makeCertificates,
  startRawReceiver,
  startReceiver,
} from "../testing/kits/webhook-kit.ts";
import { createWebhookSender, MAX_ANSWER_BYTES } from "./sender.ts";
import { newSigningSecret } from "./signature.ts";

const secret = newSigningSecret();
const body = '{"type":"transcription.completed","data":{"id":"tr_1","state":"completed"}}';
const clock = manualClock();
const stops: (() => Promise<void>)[] = [];
let certificates: ReturnType<typeof makeCertificates>;

beforeAll(() => {
  certificates = makeCertificates();
});
afterAll(() => certificates.remove());
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

function receiver(answer?: Answer, tls?: { cert: string; key: string }) {
  const started = startReceiver(answer, tls);
  stops.push(started.stop);
  return started;
}

async function raw(onConnection: Parameters<typeof startRawReceiver>[0]) {
  const started = await startRawReceiver(onConnection);
  stops.push(started.stop);
  return started;
}

function senderWith(webhooks: Partial<Config["webhooks"]> = {}, resolve?: Resolve) {
  const config = testConfig({ webhooks: { ...BENCH_WEBHOOKS, ...webhooks } });
  return createWebhookSender({ config, clock, ...(resolve ? { resolve } : {}) });
}

async function send(url: string, webhooks?: Partial<Config["webhooks"]>, resolve?: Resolve) {
  const message = { eventId: "evt_1", url, secrets: [secret], body, attempts: 0 };
  const outcome = await senderWith(webhooks, resolve).send(message);
  if (!outcome) throw new Error("the attempt was not stopped");
  return outcome;
}

const toBench: Resolve = async () => ["127.0.0.1"];

describe("one attempt", () => {
  test("carries the exact body, the id, the time of the attempt and a signature that verifies", async () => {
    const { url, received } = receiver();
    expect(await send(`${url}?a=1`)).toMatchObject({
      status: 204,
      error: null,
      isGone: false,
      address: "127.0.0.1",
    });
    expect(received).toHaveLength(1);
    expect(received[0]).toMatchObject({ id: "evt_1", body, timestamp: Math.floor(clock.now() / 1000) });
    expect(received[0]?.url).toBe(`${url}?a=1`);
    expect(received[0] && isAuthentic(received[0], secret)).toBe(true);
    expect(received[0] && isAuthentic(received[0], newSigningSecret())).toBe(false);
  });

  test.each([200, 201, 202, 299])("%p ends it", async (status) => {
    expect((await send(receiver(() => new Response("thanks", { status })).url)).error).toBeNull();
  });

  test.each([400, 401, 404, 429, 500, 503])("%p is a failure with its reason", async (status) => {
    const outcome = await send(receiver(() => new Response("no", { status })).url);
    expect(outcome).toMatchObject({ status, isGone: false, error: expect.stringContaining(String(status)) });
  });

  test("410 says that the receiver is gone; Retry-After is read", async () => {
    expect(await send(receiver(() => new Response(null, { status: 410 })).url)).toMatchObject({
      isGone: true,
      status: 410,
    });
    const busy = receiver(() => new Response(null, { status: 503, headers: { "retry-after": "90" } }));
    expect((await send(busy.url)).retryAfterMs).toBe(90_000);
  });

  test("a redirect is not followed", async () => {
    const other = receiver();
    const { url } = receiver(() => Response.redirect(other.url, 307));
    expect(await send(url)).toMatchObject({
      status: 307,
      error: expect.stringContaining("redirects are not followed"),
    });
    expect(other.received).toEqual([]);
  });

  test("an endless response is read up to a limit", async () => {
    let bytes = 0;
    const block = new Uint8Array(16_384);
    const endless = () =>
      new ReadableStream({
        async pull(controller) {
          bytes += block.length;
          controller.enqueue(block);
          await Bun.sleep(1);
        },
      });
    const outcome = await send(receiver(() => new Response(endless())).url);
    expect(outcome).toMatchObject({ status: 200, error: null });
    expect(bytes).toBeGreaterThan(MAX_ANSWER_BYTES);
    expect(bytes).toBeLessThan(16 * 1024 * 1024);
  });

  test("a compressed response is not decompressed", async () => {
    // These bytes cannot be decompressed, so an attempt to do so would fail.
    const headers = { "content-encoding": "gzip" };
    const outcome = await send(receiver(() => new Response("no gzip at all", { headers })).url);
    expect(outcome).toMatchObject({ status: 200, error: null });
  });

  test.each([
    ["before the request", (socket: import("node:net").Socket) => socket.destroy()],
    ["after the request", (s: import("node:net").Socket) => s.once("data", () => s.destroy())],
    [
      "inside the headers",
      (s: import("node:net").Socket) => s.once("data", () => s.end("HTTP/1.1 200 OK\r\n")),
    ],
    [
      "inside the body",
      (s: import("node:net").Socket) =>
        s.once("data", () => s.end("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc")),
    ],
  ])("a connection closed %s is a failure", async (_, onConnection) => {
    const { url } = await raw((socket) => void onConnection(socket));
    expect((await send(url)).error).toContain("closed the connection");
  });

  test("endless headers are a failure at once", async () => {
    const { url } = await raw((socket) => {
      socket.once("data", () => {
        socket.write("HTTP/1.1 200 OK\r\n");
        const line = `x-filler: ${"a".repeat(60_000)}\r\n`;
        const more = () => {
          while (!socket.destroyed && socket.write(line));
        };
        socket.on("drain", more);
        more();
      });
    });
    const outcome = await send(url);
    expect(outcome.error).toContain("headers are too large");
    expect(outcome.durationMs).toBeLessThan(900);
  });
});

describe("the limit of one attempt", () => {
  const limited = async (url: string, reason: string, resolve?: Resolve) => {
    const outcome = await send(url, {}, resolve);
    expect(outcome.error).toContain(reason);
    expect(outcome.durationMs).toBeGreaterThanOrEqual(950);
    expect(outcome.durationMs).toBeLessThan(5_000);
    return outcome;
  };

  test("covers a receiver that never answers", async () => {
    const { url } = await raw(() => {});
    expect((await limited(url, "no answer within 1 s")).status).toBeNull();
  });

  test("covers a TLS handshake that never ends", async () => {
    const { url } = await raw(() => {});
    await limited(url.replace("http:", "https:"), "no answer within 1 s");
  });

  test("covers a resolver that never answers", async () => {
    const never: Resolve = () => new Promise(() => {});
    await limited("https://receiver.test/", "not resolved within 1 s", never);
  });

  test("covers headers that come byte by byte", async () => {
    const { url } = await raw((socket) =>
      drip(socket, "", `HTTP/1.1 200 OK\r\nx: ${"y".repeat(900)}\r\n\r\n`),
    );
    await limited(url, "no answer within 1 s");
  });

  test("covers a body that arrives byte by byte after a status of 200", async () => {
    const { url } = await raw((socket) =>
      drip(socket, "HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n", "y".repeat(900)),
    );
    expect((await limited(url, "the answer was not complete within 1 s")).status).toBe(200);
  });

  test("a stop aborts the attempt, and its outcome is unknown", async () => {
    const { url } = await raw(() => {});
    const stop = new AbortController();
    const sending = senderWith().send(
      { eventId: "evt_1", url, secrets: [secret], body, attempts: 0 },
      stop.signal,
    );
    await Bun.sleep(20);
    stop.abort();
    expect(await sending).toBeUndefined();
  });
});

function drip(socket: import("node:net").Socket, head: string, slow: string): void {
  socket.once("data", () => {
    socket.write(head);
    let at = 0;
    const timer = setInterval(() => socket.write(slow[at++] ?? ""), 10);
    socket.on("close", () => clearInterval(timer));
  });
}

describe("addresses and certificates", () => {
  const named = (port: number) => `https://receiver.test:${port}/hook`;

  test("a certificate of the configured authority is accepted for its name, and the Host field has that name", async () => {
    const { port, received } = receiver(undefined, certificates.receiver);
    expect((await send(named(port), { ca_file: certificates.caFile }, toBench)).error).toBeNull();
    expect(received[0]?.host).toBe(`receiver.test:${port}`);
    expect(received[0]?.url).toBe(named(port));
  });

  test("without the configured authority it is refused, with advice", async () => {
    const { port, received } = receiver(undefined, certificates.receiver);
    expect((await send(named(port), {}, toBench)).error).toContain("authority is unknown");
    expect(received).toEqual([]);
  });

  test("a certificate for another name is refused, also after a request with the right name", async () => {
    const { port, received } = receiver(undefined, certificates.receiver);
    const sender = senderWith({ ca_file: certificates.caFile }, toBench);
    const to = (url: string) => sender.send({ eventId: "evt_1", url, secrets: [secret], body, attempts: 0 });
    expect((await to(named(port)))?.error).toBeNull();
    expect((await to(`https://other.test:${port}/`))?.error).toContain("another host name");
    expect(received).toHaveLength(1);
  });

  test("a self-signed certificate is refused unless the file of authorities contains it", async () => {
    const { port } = receiver(undefined, certificates.selfSigned);
    const outcome = await send(named(port), { ca_file: certificates.caFile }, toBench);
    expect(outcome.error).toContain("self-signed");
    const own = join(certificates.caFile, "..", "self.pem");
    expect((await send(named(port), { ca_file: own }, toBench)).error).toBeNull();
  });

  test("for an address in the URL, the certificate must contain that address", async () => {
    const good = receiver(undefined, certificates.address);
    expect((await send(good.url, { ca_file: certificates.caFile })).error).toBeNull();
    const bad = receiver(undefined, certificates.receiver);
    expect((await send(bad.url, { ca_file: certificates.caFile })).error).toContain("another host name");
  });

  test("a name that later resolves to a refused address is not called (DNS rebinding)", async () => {
    const { port, received } = receiver(undefined, certificates.receiver);
    const answers = [["127.0.0.1"], ["169.254.169.254"], ["127.0.0.1", "127.66.0.1", "10.0.0.1", "::1"]];
    let asked = 0;
    const rebinding: Resolve = async () => answers[asked++] ?? [];
    const sender = senderWith({ ca_file: certificates.caFile }, rebinding);
    const attempt = () =>
      sender.send({ eventId: "evt_1", url: named(port), secrets: [secret], body, attempts: 0 });
    expect((await attempt())?.error).toBeNull();
    // The name was resolved once, so the checked address is the called one.
    expect(asked).toBe(1);
    expect((await attempt())?.error).toContain("169.254.169.254 is a link-local address");
    expect((await attempt())?.error).toContain("::1 is a loopback address");
    expect((await attempt())?.error).toContain("no address");
    expect(asked).toBe(4);
    expect(received).toHaveLength(1);
  });

  test("several addresses are used in turn", async () => {
    const { port } = receiver();
    const resolve: Resolve = async () => ["127.0.0.1", "127.0.0.2"];
    const sender = senderWith({}, resolve);
    const url = `http://receiver.test:${port}/`;
    const called = [];
    for (const attempts of [0, 1, 2]) {
      called.push((await sender.send({ eventId: "evt_1", url, secrets: [secret], body, attempts }))?.address);
    }
    expect(called).toEqual(["127.0.0.1", "127.0.0.2", "127.0.0.1"]);
  });

  test("an http endpoint, allowed when it was registered, is refused once the setting is off", async () => {
    const { url, received } = receiver();
    expect((await send(url, { allow_http: false })).error).toContain("https://");
    expect(received).toEqual([]);
  });

  test("names are resolved by the operating system", async () => {
    const { port } = receiver();
    expect((await send(`http://localhost:${port}/`)).error).toBeNull();
    const refused = await send(`http://localhost:${port}/`, { allowed_networks: ["10.0.0.0/8"] });
    expect(refused.error).toContain("loopback");
    // RFC 6761: a name under .invalid never exists. A machine without a name server gets no answer at all.
    expect((await send("https://receiver.invalid/", { timeout_seconds: 10 })).error).toMatch(
      /name server|resolved/,
    );
  }, 15_000);

  test("a file of authorities that cannot be used prevents the start", () => {
    const empty = join(certificates.caFile, "..", "empty.pem");
    writeFileSync(empty, "nothing");
    expect(() => senderWith({ ca_file: empty })).toThrow("webhooks.ca_file");
    expect(() => senderWith({ ca_file: "/does/not/exist.pem" })).toThrow("webhooks.ca_file");
  });
});

test("proxies in environment variables are ignored", async () => {
  const proxy = receiver(() => new Response("I am a proxy", { status: 502 }));
  const target = receiver();
  const script = `
    import { createWebhookSender } from ${JSON.stringify(join(import.meta.dir, "sender.ts"))};
    import { testConfig } from ${JSON.stringify(join(import.meta.dir, "../testing/kits/test-config.ts"))};
    const config = testConfig({ webhooks: ${JSON.stringify(BENCH_WEBHOOKS)} });
    const sender = createWebhookSender({ config, clock: { now: () => 0 } });
    const outcome = await sender.send({ eventId: "evt_1", url: ${JSON.stringify(target.url)}, secrets: ["whsec_AAAA"], body: "{}", attempts: 0 });
    console.log(JSON.stringify(outcome));`;
  const origin = proxy.url.replace("/hook", "");
  const names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
  const proxies = Object.fromEntries(names.map((name) => [name, origin]));
  const child = Bun.spawn([process.execPath, "-e", script], {
    env: { ...process.env, ...proxies, NO_PROXY: "", no_proxy: "" },
    stdout: "pipe",
    stderr: "inherit",
  });
  const outcome = JSON.parse(await new Response(child.stdout).text());
  expect(await child.exited).toBe(0);
  expect(outcome).toMatchObject({ status: 204, error: null });
  expect(proxy.received).toEqual([]);
  expect(target.received).toHaveLength(1);
});
