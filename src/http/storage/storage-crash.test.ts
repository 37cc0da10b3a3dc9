import { afterEach, expect, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { type ClientRequest, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Upload as TusUpload } from "tus-js-client";
import type { UploadCreated } from "../wire/schemas.ts";

const PROGRAM = join(import.meta.dir, "../../testing/kits/upload-bench.ts");

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

/** Sends all that is missing, as a client that resumes does. */
function sendRest(created: UploadCreated, url: string, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    new TusUpload(bytes, {
      uploadUrl: `${url}/storage/tus/${created.id}`,
      headers: created.resumable_upload?.headers ?? {},
      retryDelays: null,
      onError: reject,
      onSuccess: () => resolve(),
    }).start();
  });
}

function tusHeaders(created: UploadCreated): Record<string, string> {
  return { ...created.resumable_upload?.headers, "Tus-Resumable": "1.0.0" };
}

async function createTusUpload(created: UploadCreated, url: string, length: number): Promise<void> {
  const metadata = Object.entries(created.resumable_upload?.metadata ?? {});
  const response = await fetch(`${url}/storage/tus`, {
    method: "POST",
    headers: {
      ...tusHeaders(created),
      "Upload-Length": String(length),
      "Upload-Metadata": metadata.map(([name, value]) => `${name} ${btoa(value)}`).join(","),
    },
  });
  expect(response.status).toBe(201);
}

/** Begins one PATCH with all that is missing, and stops in the middle of it: after the byte `end`, with the connection open. */
async function sendUntil(
  created: UploadCreated,
  url: string,
  bytes: Buffer,
  end: number,
): Promise<ClientRequest> {
  const upload = `${url}/storage/tus/${created.id}`;
  const head = await fetch(upload, { method: "HEAD", headers: tusHeaders(created) });
  const offset = Number(head.headers.get("Upload-Offset"));
  const patch = request(upload, {
    method: "PATCH",
    headers: {
      ...tusHeaders(created),
      "Upload-Offset": String(offset),
      "Content-Type": "application/offset+octet-stream",
      "Content-Length": String(bytes.length - offset),
    },
  });
  patch.write(bytes.subarray(offset, end));
  return patch;
}

/** The server may still hold what is less than this. */
const BUFFERED_BYTES = 1e6;

test("kill -9 during a PATCH, three times: the resumed upload is identical to the file", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "shruti-crash-"));
  folders.push(dataDir);
  const bytes = randomBytes(48 * 1024 * 1024);
  let server = await startServer(dataDir);
  const created = await create(server.url, bytes);
  const path = join(dataDir, "uploads", created.id);
  await createTusUpload(created, server.url, bytes.length);
  for (const end of [4e6, 16e6, 30e6]) {
    const patch = await sendUntil(created, server.url, bytes, end);
    const broken = new Promise<void>((resolve) => patch.once("error", () => resolve()));
    while (statSync(path).size < end - BUFFERED_BYTES) await Bun.sleep(1);
    server.process.kill("SIGKILL");
    await server.process.exited;
    await broken;
    expect(statSync(path).size).toBeLessThan(bytes.length);
    server = await startServer(dataDir);
  }
  await sendRest(created, server.url, bytes);
  const completed = await fetch(`${server.url}/complete/${created.id}`, { method: "POST" });
  expect(completed.status).toBe(202);
  const poll = async () =>
    (await (await fetch(`${server.url}/upload/${created.id}`)).json()) as { state: string };
  while ((await poll()).state === "verifying") await Bun.sleep(10);
  expect((await poll()).state).toBe("complete");
  expect(Buffer.compare(readFileSync(path), bytes)).toBe(0);
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
