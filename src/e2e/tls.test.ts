import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { apiClient } from "../testing/api-client.ts";
import { makeCertificates } from "../testing/webhook-kit.ts";
import { type Installation, install, reached, until } from "./kit.ts";
import { sampleBytes } from "./samples.ts";

/** The executable with a certificate of its own: the whole way of a recording over TLS, and nothing without it. */

let installation: Installation;
let folder: string;
let ca: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-certificate-"));
  const certificates = makeCertificates();
  const file = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  ca = readFileSync(certificates.caFile, "utf8");
  const environment = {
    SHRUTI_SERVER_TLS_CERT: file("certificate.pem", certificates.address.cert),
    SHRUTI_SERVER_TLS_KEY: file("key.pem", certificates.address.key),
  };
  certificates.remove();
  installation = await install({ environment });
}, 300_000);
afterAll(async () => {
  await installation?.remove();
  rmSync(folder, { recursive: true });
});

test("every address answers over TLS", async () => {
  const server = await installation.serve();
  const { baseUrl } = server;
  expect(baseUrl).toStartWith("https://127.0.0.1:");
  const send = (path: string, init: RequestInit = {}) => fetch(`${baseUrl}${path}`, { ...init, tls: { ca } });
  await until("it is ready", async () => (await send("/readyz")).status === 200);
  for (const path of ["/healthz", "/metrics", "/openapi.json", "/docs"]) {
    expect((await send(path)).status).toBe(200);
  }
  const api = apiClient((path, init = {}) => {
    const headers = new Headers(init.headers);
    if (!headers.has("authorization")) headers.set("authorization", `Bearer ${installation.key}`);
    return send(path, { ...init, headers });
  });
  const recording = sampleBytes("01-en");
  const created = await api.createUpload(recording.length);
  expect(created.upload.url).toStartWith(`${baseUrl}/storage/uploads/`);
  const { id } = await api.upload(recording);
  const started = await api.start({ audio: { upload_id: id }, language: "en" });
  expect((await reached(api, started.body.id)).result_url).toStartWith(baseUrl);
  const { text } = await api.result(started.body.id);
  expect(await api.transcribe(recording, { language: "en" })).toMatchObject({ status: "completed", text });
  expect((await api.list("?limit=1&state=completed")).data).toHaveLength(1);
  await expect(fetch(`${baseUrl.replace("https:", "http:")}/healthz`)).rejects.toThrow();
  expect(await server.stop()).toBe(0);
}, 120_000);
