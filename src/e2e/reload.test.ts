import { afterAll, beforeAll, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { makeCertificates } from "../testing/kits/webhook-kit.ts";
import { type Installation, install, type RunningServer, until } from "./kit.ts";
import { sampleBytes } from "./samples.ts";

/** SIGHUP: a new certificate under load, new settings, a secret in a file, and configs with mistakes. */

const folder = mkdtempSync(join(tmpdir(), "shruti-reload-"));
const tokenFile = join(folder, "metrics-token");
let installation: Installation;
let server: RunningServer;

/** Two pairs of certificate and key, each from an authority of its own. */
const pairs = [0, 1].map(() => {
  const made = makeCertificates();
  const pair = { ...made.address, ca: readFileSync(made.caFile, "utf8") };
  made.remove();
  return pair;
});
const authorities = pairs.map(({ ca }) => ca);

beforeAll(async () => {
  placePair(0);
  writeFileSync(tokenFile, "first-secret\n");
  installation = await install({
    environment: {
      SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0",
      SHRUTI_SERVER_TLS_CERT: join(folder, "certificate.pem"),
      SHRUTI_SERVER_TLS_KEY: join(folder, "key.pem"),
      SHRUTI_METRICS_TOKEN_FILE: tokenFile,
    },
  });
  server = await installation.serve();
  await until("it is ready", async () => (await send("/readyz")).ok);
}, 300_000);
afterAll(async () => {
  await installation?.remove();
  rmSync(folder, { recursive: true });
});

function placePair(index: number): void {
  for (const [name, text] of [
    ["certificate.pem", pairs[index]?.cert],
    ["key.pem", pairs[index]?.key],
  ]) {
    writeFileSync(join(folder, `${name}.new`), text ?? "");
    renameSync(join(folder, `${name}.new`), join(folder, name ?? ""));
  }
}

function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (!headers.has("authorization")) headers.set("authorization", `Bearer ${installation.key}`);
  return fetch(`${server.baseUrl}${path}`, { ...init, headers, tls: { ca: authorities } });
}

/** Returns which of the pairs a new connection sees. */
function servedPair(): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const { port } = new URL(server.baseUrl);
  const socket = connect({ host: "127.0.0.1", port: Number(port), rejectUnauthorized: false }, () => {
    const raw = socket.getPeerCertificate().raw.toString("base64");
    resolve(pairs.findIndex(({ cert }) => cert.replaceAll(/\s/g, "").includes(raw)));
    socket.end();
  });
  socket.on("error", reject);
  return promise;
}

const reloads = () => server.log().split('"msg":"the config was reloaded"').length - 1;
const refusals = () => server.log().split('"msg":"the config was not reloaded').length - 1;
async function reload(): Promise<void> {
  const before = reloads() + refusals();
  process.kill(server.pid, "SIGHUP");
  await until("the reload is over", () => reloads() + refusals() > before, 10_000);
}

test("a certificate is replaced under load, and no request fails", async () => {
  let isOver = false;
  const counts = { requests: 0, uploads: 0 };
  const problems: string[] = [];
  const client = async (keepalive: boolean) => {
    while (!isOver) {
      try {
        const response = await send("/v1/models", { keepalive });
        await response.text();
        if (!response.ok) problems.push(`status ${response.status}`);
        counts.requests += 1;
      } catch (error) {
        problems.push(String(error));
      }
    }
  };
  // An upload whose body arrives slowly is in progress during several reloads.
  const uploader = async () => {
    const bytes = sampleBytes("02-hi");
    while (!isOver) {
      const created = await send("/v1/uploads", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ bytes: bytes.length }),
      });
      const { upload } = (await created.json()) as {
        upload: { url: string; headers: Record<string, string> };
      };
      const body = new ReadableStream({
        async start(controller) {
          for (let at = 0; at < bytes.length; at += 10_000) {
            controller.enqueue(bytes.subarray(at, at + 10_000));
            await Bun.sleep(200);
          }
          controller.close();
        },
      });
      const sent = await fetch(upload.url, {
        method: "PUT",
        headers: upload.headers,
        body,
        tls: { ca: authorities },
      });
      if (!sent.ok) problems.push(`upload: status ${sent.status}`);
      counts.uploads += 1;
    }
  };
  const all = [...Array.from({ length: 8 }, (_, index) => client(index % 2 === 0)), uploader(), uploader()];
  for (const round of [1, 0, 1, 0, 1]) {
    placePair(round);
    await reload();
    for (let count = 0; count < 5; count += 1) expect(await servedPair()).toBe(round);
    await Bun.sleep(500);
  }
  isOver = true;
  await Promise.all(all).catch((error: unknown) => void problems.push(String(error)));
  expect(problems).toEqual([]);
  expect(counts.requests).toBeGreaterThan(50);
  expect(counts.uploads).toBeGreaterThan(0);
  expect(reloads()).toBe(5);
  expect(server.log().includes('"new_certificate":true')).toBe(true);
  expect(await servedPair()).toBe(1);
  const { validTo } = new X509Certificate(pairs[1]?.cert ?? "");
  const headers = { authorization: "Bearer first-secret" };
  expect(await (await send("/metrics", { headers })).text()).toContain(
    `\nshruti_certificate_end_timestamp_seconds ${Date.parse(validTo) / 1000}\n`,
  );
}, 120_000);

const original = () => readFileSync(installation.configPath, "utf8");
function setting(name: string, value: string): void {
  writeFileSync(
    installation.configPath,
    original().replace(new RegExp(`^#?${name} = .*$`, "m"), `${name} = ${value}`),
  );
}

test("limits and prices change; what needs a restart is named", async () => {
  setting("max_upload_bytes", "1000");
  setting("price_paise_per_audio_hour", "1234");
  setting("max_in_flight", "7");
  setting("level", '"warn"');
  await reload();
  const refused = await send("/v1/uploads", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ bytes: 1001 }),
  });
  expect(refused.status).toBe(413);
  expect(
    ((await (await send("/v1/usage")).json()) as { price_paise_per_audio_hour: number })
      .price_paise_per_audio_hour,
  ).toBe(1234);
  const line = server
    .log()
    .split("\n")
    .find((each) => each.includes("change at the next restart"));
  expect(JSON.parse(line ?? "{}")).toMatchObject({ level: "warn", settings: ["webhooks.max_in_flight"] });
  // The log level is in force: requests are no longer logged.
  const before = server.log().length;
  await send("/v1/models");
  expect(server.log().slice(before).includes('"msg":"request"')).toBe(false);
}, 60_000);

test("a secret in a file is read again, and a file that is gone changes nothing", async () => {
  const askMetrics = async (token: string) =>
    (await send("/metrics", { headers: { authorization: `Bearer ${token}` } })).status;
  expect([await askMetrics("first-secret"), await askMetrics("second-secret")]).toEqual([200, 401]);
  writeFileSync(tokenFile, "second-secret\n");
  // A reload without a mistake says so at this level.
  setting("level", '"info"');
  await reload();
  expect([await askMetrics("first-secret"), await askMetrics("second-secret")]).toEqual([401, 200]);
  rmSync(tokenFile);
  await reload();
  expect(server.log()).toContain(
    `SHRUTI_METRICS_TOKEN_FILE names ${tokenFile}, and that file does not exist`,
  );
  expect(await askMetrics("second-secret")).toBe(200);
  expect(server.log()).not.toContain("second-secret");
  writeFileSync(tokenFile, "second-secret\n");
}, 60_000);

test("a config or certificate with a mistake changes nothing", async () => {
  const good = original();
  setting("max_upload_bytes", '"many"');
  setting("keep_days", "-1");
  await reload();
  const [line] = server
    .log()
    .split("\n")
    .filter((each) => each.includes("was not reloaded"))
    .slice(-1);
  expect(JSON.parse(line ?? "{}").problems).toHaveLength(2);
  writeFileSync(installation.configPath, good);
  writeFileSync(join(folder, "key.pem"), pairs[0]?.key ?? "");
  await reload();
  expect(server.log().includes("is not the key of the first certificate")).toBe(true);
  expect(await servedPair()).toBe(1);
  expect((await send("/readyz")).status).toBe(200);
  expect(refusals()).toBe(3);
  expect(await server.stop()).toBe(0);
}, 60_000);
