import { afterAll, beforeAll, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import type { ApiClient } from "../testing/answers/api-client.ts";
import { type Installation, install, reached, until } from "./kit.ts";
import { sampleBytes, wavFile } from "./samples.ts";

/** SIGKILL while a large upload is hashed and decoded: the next start verifies the upload again and reports the result. */

let installation: Installation;
beforeAll(async () => {
  installation = await install();
}, 300_000);
afterAll(() => installation?.remove());

type UploadState = { state: string; error?: { code: string } };

/** Sends a file whose verification continues in the background. */
async function begin(api: ApiClient, bytes: Uint8Array<ArrayBuffer>, sha256: string): Promise<string> {
  const { id, upload } = await api.createUpload(bytes.length, sha256);
  expect(
    (await fetch(upload.url, { method: upload.method, headers: upload.headers, body: bytes })).status,
  ).toBe(200);
  expect((await api.call("POST", `/v1/uploads/${id}/complete`)).status).toBe(202);
  return id;
}

async function verified(api: ApiClient, id: string): Promise<UploadState> {
  let latest: UploadState = { state: "verifying" };
  await until("it is verified", async () => {
    latest = (await api.call<UploadState>("GET", `/v1/uploads/${id}`)).body;
    return latest.state !== "verifying";
  });
  return latest;
}

test("an interrupted verification ends after the next start, and a transcription of that upload is charged once", async () => {
  const speech = sampleBytes("01-en").slice(44);
  const silence = new Uint8Array(120_000_000);
  const recording = wavFile([speech, silence], { rateHz: 48_000, channels: 2 });
  const sha256 = createHash("sha256").update(recording).digest("hex");
  let server = await (await installation.serve()).ready();
  const right = await begin(server.api(), recording, sha256);
  const wrong = await begin(server.api(), recording, "0".repeat(64));
  await server.kill();
  server = await (await installation.serve()).ready();
  const api = server.api();
  expect(await verified(api, right)).toMatchObject({ state: "complete" });
  expect(await verified(api, wrong)).toMatchObject({ state: "rejected", error: { code: "upload_rejected" } });

  const start = () => api.start({ audio: { upload_id: right }, language: "en" }, "once");
  const [first, second] = await Promise.all([start(), start()]);
  expect(second.body.id).toBe(first.body.id);
  expect((await reached(api, first.body.id)).state).toBe("completed");
  const usage = await api.usage();
  expect(usage.data).toHaveLength(1);
  expect(usage.credit.balance_paise).toBe(1_000_000 - (usage.data[0]?.amount_paise ?? 0));
  expect(await server.stop()).toBe(0);
}, 240_000);
