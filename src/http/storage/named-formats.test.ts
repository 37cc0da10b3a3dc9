import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { RawFormat } from "../../domain/raw-formats.ts";
import { findUpload } from "../../store/uploads.ts";
import {
  openUploadBench,
  serveUploads,
  type UploadBench,
  type UploadServer,
} from "../../testing/kits/upload-bench.ts";
import type { UploadCreated } from "../wire/schemas.ts";

/** What a sender says of a file without a header reaches verification, and is kept as verification has found it. */

let bench: UploadBench;
let server: UploadServer;
/** What verification was asked for last. */
let asked: unknown;
/** Whether verification finds a signature. */
let hasSignature = false;

beforeAll(() => {
  bench = openUploadBench({
    verifyAudio: async ({ reading }) => {
      asked = reading;
      const found = hasSignature ? {} : (reading ?? {});
      return { durationMs: 1000, channels: 1, sampleRateHz: 8000, truncated: false, reading: found };
    },
  });
  server = serveUploads(bench);
});
afterAll(async () => {
  await server.stop();
  await bench.close();
});

const BYTES = new Uint8Array(1000);
const MULAW: RawFormat = { demuxer: "mulaw", rateHz: 8000, channels: 1 };

async function create(): Promise<UploadCreated> {
  const body = JSON.stringify({ bytes: BYTES.length });
  return (await (await fetch(`${server.url}/create`, { method: "POST", body })).json()) as UploadCreated;
}

/** Marks an upload complete, and returns how its file was read. */
async function readingOf({ id }: UploadCreated) {
  expect((await fetch(`${server.url}/complete/${id}`, { method: "POST" })).status).toBe(200);
  return { asked, kept: findUpload(bench.database.store, id)?.reading };
}

async function put({ upload }: UploadCreated, headers: Record<string, string>): Promise<void> {
  const response = await fetch(upload.url, {
    method: "PUT",
    headers: { ...upload.headers, ...headers },
    body: BYTES,
  });
  expect(response.status).toBe(200);
}

async function sendByTus(created: UploadCreated, metadata: Record<string, string>): Promise<void> {
  const tus = created.resumable_upload;
  const pairs = Object.entries({ ...tus?.metadata, ...metadata });
  const headers = { ...tus?.headers, "tus-resumable": "1.0.0" };
  const response = await fetch(tus?.endpoint ?? "", {
    method: "POST",
    headers: {
      ...headers,
      "upload-length": String(BYTES.length),
      "upload-metadata": pairs
        .map(([name, value]) => `${name} ${Buffer.from(value).toString("base64")}`)
        .join(","),
    },
  });
  expect(response.status).toBe(201);
  const sent = await fetch(response.headers.get("location") ?? "", {
    method: "PATCH",
    headers: { ...headers, "upload-offset": "0", "content-type": "application/offset+octet-stream" },
    body: BYTES,
  });
  expect(sent.status).toBe(204);
}

describe("a file without a header", () => {
  test.each([
    [{ "content-type": "audio/PCMU" }],
    [{ "content-type": "audio/basic;foo" }],
    [{ "content-disposition": "attachment; filename=call.ulaw" }],
    [{ "content-disposition": 'attachment; filename="my call.UL"' }],
  ])("PUT with %o", async (headers) => {
    const created = await create();
    await put(created, headers);
    expect(await readingOf(created)).toEqual({ asked: { format: MULAW }, kept: { format: MULAW } });
  });

  test.each([
    [{ filename: "call.ulaw" }],
    [{ name: "कॉल.ulaw" }],
    [{ filename: "blob", filetype: "audio/PCMU" }],
    [{ type: "audio/x-mulaw" }],
  ])("tus with %o", async (metadata) => {
    const created = await create();
    await sendByTus(created, metadata);
    expect(await readingOf(created)).toEqual({ asked: { format: MULAW }, kept: { format: MULAW } });
  });

  test("a later request names it otherwise; one without a name leaves it", async () => {
    const created = await create();
    await put(created, { "content-type": "audio/G722" });
    await put(created, { "content-type": "audio/PCMU" });
    await put(created, {});
    expect((await readingOf(created)).asked).toEqual({ format: MULAW });
  });

  test("where nothing names it, and where the file has a signature, nothing is kept", async () => {
    const plain = await create();
    await put(plain, { "content-disposition": "attachment; filename=call.wav" });
    expect(await readingOf(plain)).toEqual({ asked: undefined, kept: {} });
    hasSignature = true;
    const wav = await create();
    await put(wav, { "content-type": "audio/PCMU" });
    expect(await readingOf(wav)).toEqual({ asked: { format: MULAW }, kept: {} });
    hasSignature = false;
  });

  test("no format is kept for an upload that takes no more bytes", async () => {
    const created = await create();
    await put(created, {});
    await readingOf(created);
    const response = await fetch(created.upload.url, {
      ...{ method: "PUT", body: BYTES },
      headers: { ...created.upload.headers, "content-type": "audio/PCMU" },
    });
    expect(response.status).toBe(409);
    expect(findUpload(bench.database.store, created.id)?.reading).toEqual({});
  });
});
