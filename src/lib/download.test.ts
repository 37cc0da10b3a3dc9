import { afterEach, beforeEach, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { download } from "./download.ts";

const CONTENT = new Uint8Array(200_000).map((_, index) => (index * 31 + (index >> 7)) % 251);
const EXPECTED = { bytes: CONTENT.length, sha256: createHash("sha256").update(CONTENT).digest("hex") };

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
  const headers = { "content-range": `bytes ${from}-${EXPECTED.bytes - 1}/${EXPECTED.bytes}` };
  return from === 0 ? new Response(content) : new Response(content, { status: 206, headers });
}

const path = () => join(folder, "ggml-x.bin");

test("a whole file is checked and gets its name", async () => {
  const url = serve((from) => part(from, CONTENT.slice(from)));
  const seen: number[] = [];
  await download({ url, expected: EXPECTED, path: path(), onProgress: (bytes) => seen.push(bytes) });
  expect(new Uint8Array(readFileSync(path()))).toEqual(CONTENT);
  expect(readdirSync(folder)).toEqual(["ggml-x.bin"]);
  expect(seen.at(-1)).toBe(EXPECTED.bytes);
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
  await download({ url, expected: EXPECTED, path: path(), stallMs: 300, retryMs: 1 });
  expect(ranges).toEqual(["bytes=50000-", "bytes=80000-"]);
  expect(new Uint8Array(readFileSync(path()))).toEqual(CONTENT);
});

test("other bytes are refused and removed", async () => {
  const wrong = CONTENT.slice();
  wrong[100_000] = 255;
  const url = serve(() => new Response(wrong));
  await expect(download({ url, expected: EXPECTED, path: path() })).rejects.toThrow("not the file");
  expect(readdirSync(folder)).toEqual([]);
});

test("a server that sends too much, cannot resume, or has no such file is given up at once", async () => {
  const long = new Uint8Array(EXPECTED.bytes + 1);
  let url = serve(() => new Response(long));
  await expect(download({ url, expected: EXPECTED, path: path() })).rejects.toThrow("more than the file has");
  await server?.stop(true);
  writeFileSync(`${path()}.part`, CONTENT.slice(0, 10));
  url = serve(() => new Response(CONTENT));
  await expect(download({ url, expected: EXPECTED, path: path() })).rejects.toThrow("cannot resume");
  await server?.stop(true);
  url = serve(() => new Response("no", { status: 404 }));
  await expect(download({ url, expected: EXPECTED, path: path() })).rejects.toThrow("404");
  expect(existsSync(path())).toBe(false);
});

test("a server that fails is asked five times", async () => {
  const url = serve(() => new Response("no", { status: 503 }));
  await expect(download({ url, expected: EXPECTED, path: path(), retryMs: 1 })).rejects.toThrow("503");
  expect(ranges).toHaveLength(5);
});

test("a redirection is followed, also when the download continues", async () => {
  writeFileSync(`${path()}.part`, CONTENT.slice(0, 50_000));
  const url = serve((from, request) =>
    request % 2 === 1
      ? new Response(null, { status: 302, headers: { location: "/elsewhere" } })
      : part(from, CONTENT.slice(from)),
  );
  expect(await download({ url, expected: { sha256: EXPECTED.sha256 }, path: path() })).toBe(EXPECTED.sha256);
  expect(ranges).toEqual(["bytes=50000-", "bytes=50000-"]);
  expect(new Uint8Array(readFileSync(path()))).toEqual(CONTENT);
});

test("a file whose size or hash is not known is received, and begins again after a break", async () => {
  const url = serve((_from, request) =>
    request === 1
      ? new Response(
          new ReadableStream({ start: (controller) => controller.enqueue(CONTENT.slice(0, 9000)) }),
          {
            headers: { "content-length": String(CONTENT.length) },
          },
        )
      : new Response(CONTENT),
  );
  writeFileSync(`${path()}.part`, "of another file");
  const sha256 = await download({ url, expected: {}, path: path(), stallMs: 300, retryMs: 1 });
  expect(sha256).toBe(EXPECTED.sha256);
  expect(ranges).toEqual([null, null]);
});

test("what is there already is not received again", async () => {
  writeFileSync(`${path()}.part`, CONTENT);
  const url = serve(() => new Response(null, { status: 416 }));
  await download({ url, expected: { sha256: EXPECTED.sha256 }, path: path() });
  await download({ url, expected: EXPECTED, path: `${path()}2` }).catch(() => {});
  expect(ranges).toEqual(["bytes=200000-", null]);
});

test("a disk without space is noticed before the first byte, and nothing is lost", async () => {
  writeFileSync(`${path()}.part`, CONTENT.slice(0, 50_000));
  const url = serve((from) => part(from, CONTENT.slice(from)));
  await expect(download({ url, expected: EXPECTED, path: path(), reserveBytes: 1e18 })).rejects.toThrow(
    "has not enough space: 1 MB are needed, 0 MB are free",
  );
  expect(ranges).toHaveLength(1);
  expect(readFileSync(`${path()}.part`)).toHaveLength(50_000);
});
