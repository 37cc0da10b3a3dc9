import { afterEach, beforeEach, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fetchModel, PUBLISHED_MODELS } from "./fetch-model.ts";

const CONTENT = new Uint8Array(200_000).map((_, index) => (index * 31 + (index >> 7)) % 251);
const MODEL = { bytes: CONTENT.length, sha256: createHash("sha256").update(CONTENT).digest("hex") };

let folder: string;
let server: ReturnType<typeof Bun.serve> | undefined;
let ranges: (string | null)[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "shruti-fetch-"));
  ranges = [];
});
afterEach(async () => {
  await server?.stop(true);
  rmSync(folder, { recursive: true });
});

type Answer = (from: number, request: number) => Response;

function serve(answer: Answer): string {
  server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      const range = request.headers.get("range");
      ranges.push(range);
      return answer(Number(/^bytes=(\d+)-$/.exec(range ?? "")?.[1] ?? 0), ranges.length);
    },
  });
  return `http://127.0.0.1:${server.port}/ggml-x.bin`;
}

function part(from: number, content: Uint8Array<ArrayBuffer> | ReadableStream): Response {
  const headers = { "content-range": `bytes ${from}-${MODEL.bytes - 1}/${MODEL.bytes}` };
  return from === 0 ? new Response(content) : new Response(content, { status: 206, headers });
}

const path = () => join(folder, "ggml-x.bin");

test("a complete file is verified and gets its name", async () => {
  const url = serve((from) => part(from, CONTENT.slice(from)));
  const seen: number[] = [];
  await fetchModel({ url, model: MODEL, path: path(), onProgress: (bytes) => seen.push(bytes) });
  expect(new Uint8Array(readFileSync(path()))).toEqual(CONTENT);
  expect(readdirSync(folder)).toEqual(["ggml-x.bin"]);
  expect(seen.at(-1)).toBe(MODEL.bytes);
});

test("continues where an earlier run stopped, and after stalled connections", async () => {
  writeFileSync(`${path()}.part`, CONTENT.slice(0, 50_000));
  const url = serve((from, request) => {
    if (request > 1) return part(from, CONTENT.slice(from));
    // Sends some bytes and then nothing.
    const stream = new ReadableStream({
      start: (controller) => controller.enqueue(CONTENT.slice(from, from + 30_000)),
    });
    return part(from, stream);
  });
  await fetchModel({ url, model: MODEL, path: path(), stallMs: 300, retryMs: 1 });
  expect(ranges).toEqual(["bytes=50000-", "bytes=80000-"]);
  expect(new Uint8Array(readFileSync(path()))).toEqual(CONTENT);
});

test("a file with other bytes is refused and removed", async () => {
  const wrong = CONTENT.slice();
  wrong[100_000] = 255;
  const url = serve(() => new Response(wrong));
  await expect(fetchModel({ url, model: MODEL, path: path() })).rejects.toThrow("not the file");
  expect(readdirSync(folder)).toEqual([]);
});

test("when a server sends too much, cannot resume, or does not have the file, the download fails at once", async () => {
  const long = new Uint8Array(MODEL.bytes + 1);
  let url = serve(() => new Response(long));
  await expect(fetchModel({ url, model: MODEL, path: path() })).rejects.toThrow("more than the file has");
  await server?.stop(true);
  writeFileSync(`${path()}.part`, CONTENT.slice(0, 10));
  url = serve(() => new Response(CONTENT));
  await expect(fetchModel({ url, model: MODEL, path: path() })).rejects.toThrow("cannot resume");
  await server?.stop(true);
  url = serve(() => new Response("no", { status: 404 }));
  await expect(fetchModel({ url, model: MODEL, path: path() })).rejects.toThrow("404");
  expect(existsSync(path())).toBe(false);
});

test("when a server fails, the request is repeated up to five times", async () => {
  const url = serve(() => new Response("no", { status: 503 }));
  await expect(fetchModel({ url, model: MODEL, path: path(), retryMs: 1 })).rejects.toThrow("503");
  expect(ranges).toHaveLength(5);
});

test("every published model has its size and SHA-256", () => {
  const hashes = Object.values(PUBLISHED_MODELS).map(({ sha256 }) => sha256);
  expect(new Set(hashes).size).toBe(hashes.length);
  for (const { bytes, sha256 } of Object.values(PUBLISHED_MODELS)) {
    expect(sha256).toMatch(/^[0-9a-f]{64}$/);
    expect(bytes).toBeGreaterThan(30_000_000);
  }
});
