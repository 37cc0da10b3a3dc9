import { afterEach, expect, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Upload as TusUpload } from "tus-js-client";
import type { UploadCreated } from "../wire/schemas.ts";

const PROGRAM = join(import.meta.dir, "../../testing/upload-bench.ts");

type Child = { process: Bun.Subprocess<"ignore", "pipe", "inherit">; url: string };
const children: Child[] = [];
const folders: string[] = [];
afterEach(async () => {
  for (const { process } of children.splice(0)) {
    process.kill("SIGKILL");
    await process.exited;
  }
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

async function startServer(dataDir: string): Promise<Child> {
  const child = Bun.spawn([process.execPath, PROGRAM, dataDir], { stdout: "pipe", stderr: "inherit" });
  const reader = child.stdout.getReader();
  let text = "";
  while (!text.includes("\n")) {
    const { done, value } = await reader.read();
    if (done) throw new Error("the server did not start");
    text += new TextDecoder().decode(value);
  }
  reader.releaseLock();
  const started = { process: child, url: text.trim() };
  children.push(started);
  return started;
}

async function create(url: string, bytes: Uint8Array): Promise<UploadCreated> {
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const response = await fetch(`${url}/create`, {
    method: "POST",
    body: JSON.stringify({ bytes: bytes.length, sha256 }),
  });
  return (await response.json()) as UploadCreated;
}

function send(created: UploadCreated, url: string, bytes: Buffer, resumes: boolean): Promise<void> {
  const { headers = {}, metadata = {} } = created.resumable_upload ?? {};
  return new Promise((resolve, reject) => {
    new TusUpload(bytes, {
      endpoint: `${url}/storage/tus`,
      ...(resumes ? { uploadUrl: `${url}/storage/tus/${created.id}` } : {}),
      headers,
      metadata,
      retryDelays: null,
      onError: reject,
      onSuccess: () => resolve(),
    }).start();
  });
}

/** Waits until the file has some bytes, but not all. */
async function partWay(path: string, atLeast: number): Promise<void> {
  while (((await Bun.file(path).exists()) ? Bun.file(path).size : 0) < atLeast) await Bun.sleep(1);
}

test("kill -9 during a PATCH, three times: the resumed upload is identical to the file", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "shruti-crash-"));
  folders.push(dataDir);
  const bytes = randomBytes(48 * 1024 * 1024);
  let server = await startServer(dataDir);
  const created = await create(server.url, bytes);
  const path = join(dataDir, "uploads", created.id);
  for (const [round, atLeast] of [4e6, 16e6, 30e6].entries()) {
    const sending = send(created, server.url, bytes, round > 0).then(
      () => "whole",
      () => "broken off",
    );
    await partWay(path, atLeast);
    server.process.kill("SIGKILL");
    await server.process.exited;
    expect(await sending).toBe("broken off");
    expect(Bun.file(path).size).toBeLessThan(bytes.length);
    server = await startServer(dataDir);
  }
  await send(created, server.url, bytes, true);
  const completed = await fetch(`${server.url}/complete/${created.id}`, { method: "POST" });
  expect(completed.status).toBe(202);
  const poll = async () =>
    (await (await fetch(`${server.url}/upload/${created.id}`)).json()) as { state: string };
  while ((await poll()).state === "verifying") await Bun.sleep(10);
  expect((await poll()).state).toBe("complete");
  expect(Buffer.compare(await Bun.file(path).bytes(), bytes)).toBe(0);
}, 60_000);

test("kill -9 while a large upload is verified: the next start continues the verification", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "shruti-crash-"));
  folders.push(dataDir);
  const bytes = randomBytes(40 * 1024 * 1024);
  let server = await startServer(dataDir);
  const created = await create(server.url, bytes);
  await fetch(created.upload.url, { method: "PUT", headers: created.upload.headers, body: bytes });
  server.process.kill("SIGKILL");
  await server.process.exited;
  // The digest of the received bytes was lost with the process, so it is computed from the file.
  server = await startServer(dataDir);
  expect((await fetch(`${server.url}/complete/${created.id}`, { method: "POST" })).status).toBe(202);
  server.process.kill("SIGKILL");
  await server.process.exited;
  server = await startServer(dataDir);
  const poll = async () =>
    (await (await fetch(`${server.url}/upload/${created.id}`)).json()) as { state: string };
  while ((await poll()).state === "verifying") await Bun.sleep(10);
  expect((await poll()).state).toBe("complete");
}, 60_000);
