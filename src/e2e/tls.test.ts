import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { apiClient } from "../testing/answers/api-client.ts";
import { makeCertificates } from "../testing/kits/webhook-kit.ts";
import { type Installation, install, reached, until } from "./kit.ts";
import { sampleBytes } from "./samples.ts";

/** Tests the executable with a certificate: the main path over TLS, and no plain HTTP. */

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
  const resumed = await api.createUpload(recording.length);
  const { endpoint, headers, metadata } = resumed.resumable_upload ?? {};
  expect(endpoint).toBe(`${baseUrl}/storage/tus`);
  const tus = (method: string, url: string, fields: Record<string, string>, body?: Uint8Array<ArrayBuffer>) =>
    fetch(url, {
      method,
      headers: { ...headers, "tus-resumable": "1.0.0", ...fields },
      tls: { ca },
      ...(body ? { body } : {}),
    });
  const made = await tus("POST", endpoint ?? "", {
    "upload-length": String(recording.length),
    "upload-metadata": `upload_id ${Buffer.from(metadata?.upload_id ?? "").toString("base64")}`,
  });
  const location = made.headers.get("location") ?? "";
  expect(location).toStartWith(`${baseUrl}/storage/tus/`);
  const half = Math.floor(recording.length / 2);
  const parts: [number, Uint8Array<ArrayBuffer>][] = [
    [0, recording.slice(0, half)],
    [half, recording.slice(half)],
  ];
  for (const [offset, part] of parts) {
    const fields = { "upload-offset": String(offset), "content-type": "application/offset+octet-stream" };
    expect((await tus("PATCH", location, fields, part)).status).toBe(204);
  }
  const completed = await api.call<{ state: string }>("POST", `/v1/uploads/${resumed.id}/complete`);
  expect(completed.body.state).toBe("complete");
  await expect(fetch(`${baseUrl.replace("https:", "http:")}/healthz`)).rejects.toThrow();
  expect(await server.stop()).toBe(0);
}, 120_000);
