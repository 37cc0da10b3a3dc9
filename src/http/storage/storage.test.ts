import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { Upload as TusUpload } from "tus-js-client";
import { forgetStatements } from "../../store/prepared.ts";
import { testConfig } from "../../testing/kits/test-config.ts";
import {
  CALLER,
  openUploadBench,
  serveUploads,
  type UploadBench,
  type UploadServer,
} from "../../testing/kits/upload-bench.ts";
import type { UploadCreated } from "../wire/schemas.ts";

let bench: UploadBench;
let server: UploadServer;
beforeAll(() => {
  bench = openUploadBench({
    config: testConfig({ storage: { reserve_bytes: 0 }, limits: { max_upload_bytes: 1e9 } }),
  });
  server = serveUploads(bench);
});
afterAll(async () => {
  await server.stop();
  await bench.close();
});

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

/** Makes bytes that repeat nowhere, so that a shift is noticed. */
function noise(bytes: number, seed = 1): Uint8Array<ArrayBuffer> {
  const block = createHash("sha512").update(String(seed)).digest();
  const out = new Uint8Array(bytes);
  for (let at = 0; at < bytes; at += 64) {
    const view = new DataView(block.buffer, block.byteOffset);
    view.setUint32(0, at);
    out.set(block.subarray(0, Math.min(64, bytes - at)), at);
  }
  return out;
}

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

async function create(bytes: number, digest?: string): Promise<UploadCreated> {
  const body = JSON.stringify({ bytes, ...(digest ? { sha256: digest } : {}) });
  return (await (await fetch(`${server.url}/create`, { method: "POST", body })).json()) as UploadCreated;
}

const put = (created: UploadCreated, body: Bun.BodyInit, headers: Record<string, string> = {}) =>
  fetch(created.upload.url, { method: "PUT", body, headers: { ...created.upload.headers, ...headers } });

const complete = (id: string) => fetch(`${server.url}/complete/${id}`, { method: "POST" });
const stored = (id: string) => Bun.file(bench.uploads.audioPath(id)).bytes();

function metadataOf(created: UploadCreated): string {
  return `upload_id ${Buffer.from(created.id).toString("base64")}`;
}

function tus(
  created: UploadCreated,
  path: string,
  method: string,
  headers: Record<string, string> = {},
  body?: Bun.BodyInit,
) {
  return fetch(`${server.url}/storage/tus${path}`, {
    method,
    headers: { ...created.resumable_upload?.headers, "tus-resumable": "1.0.0", ...headers },
    ...(body === undefined ? {} : { body }),
  });
}

const createTus = (created: UploadCreated, headers: Record<string, string> = {}) =>
  tus(created, "", "POST", {
    "upload-length": String(created.bytes),
    "upload-metadata": metadataOf(created),
    ...headers,
  });

const patch = (
  created: UploadCreated,
  offset: number,
  body: Bun.BodyInit,
  headers: Record<string, string> = {},
) =>
  tus(
    created,
    `/${created.id}`,
    "PATCH",
    {
      "content-type": "application/offset+octet-stream",
      "upload-offset": String(offset),
      ...headers,
    },
    body,
  );

async function expectError(response: Response, status: number, code: string, detail?: string): Promise<void> {
  const text = await response.text();
  expect({ status: response.status, type: response.headers.get("content-type"), text }).toMatchObject({
    status,
    type: "application/json",
  });
  const { error } = JSON.parse(text) as { error: { code: string; message: string; detail?: string } };
  expect(error.code).toBe(code);
  expect(error.message.length).toBeGreaterThan(0);
  if (detail !== undefined) expect(error.detail).toBe(detail);
}

/** Makes a body whose length is not declared. */
function chunked(...chunks: Uint8Array<ArrayBuffer>[]): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    async pull(controller) {
      const next = chunks.shift();
      if (next) controller.enqueue(next);
      else controller.close();
      await Bun.sleep(1);
    },
  });
}

/** Sends the head of a request by hand, so that its body can be sent at any speed or not at all. */
async function rawRequest(
  created: UploadCreated,
  head: string[],
): Promise<{ socket: Socket; answer: Promise<string> }> {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  sockets.push(socket);
  await new Promise<void>((resolve) => socket.once("connect", resolve));
  let text = "";
  const answer = new Promise<string>((resolve) => {
    socket.on("data", (data) => {
      text += data.toString();
      if (text.includes("\r\n\r\n")) resolve(text);
    });
    socket.on("close", () => resolve(text));
    socket.on("error", () => resolve(text));
  });
  const authorization = `authorization: ${created.upload.headers.authorization}`;
  socket.write(`${[...head, "host: test", authorization].join("\r\n")}\r\n\r\n`);
  return { socket, answer };
}

describe("PUT", () => {
  test("writes the file, answers with the upload, and complete verifies it", async () => {
    const bytes = noise(3_000_000);
    const created = await create(bytes.length, sha256(bytes));
    const response = await put(created, bytes);
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({
      id: created.id,
      object: "upload",
      state: "allocated",
      bytes: bytes.length,
    });
    expect(sha256(await stored(created.id))).toBe(sha256(bytes));
    expect((await complete(created.id)).status).toBe(200);
    await expectError(await put(created, bytes), 409, "conflict");
  });

  test("a repeated PUT starts again at the beginning, also with a chunked body", async () => {
    const created = await create(1000);
    expect((await put(created, noise(1000, 1))).status).toBe(200);
    expect((await put(created, chunked(noise(500, 2), noise(500, 3)))).status).toBe(200);
    expect(await stored(created.id)).toEqual(new Uint8Array([...noise(500, 2), ...noise(500, 3)]));
  });

  test("a short body gets an error that says so, and can be sent again", async () => {
    const created = await create(1000);
    await expectError(await put(created, noise(999)), 409, "upload_incomplete");
    await expectError(await complete(created.id), 409, "upload_incomplete");
    expect((await put(created, noise(1000))).status).toBe(200);
  });

  test("a body that is declared too long is refused before it is sent", async () => {
    const created = await create(1000);
    const { answer } = await rawRequest(created, [
      `PUT /storage/uploads/${created.id} HTTP/1.1`,
      "content-length: 1001",
    ]);
    const text = await answer;
    expect(text).toStartWith("HTTP/1.1 413");
    expect(text).toContain("audio_too_large");
  });

  test("a chunked body is refused at the first byte too many, and none of its bytes is stored", async () => {
    const created = await create(1000);
    const { socket, answer } = await rawRequest(created, [
      `PUT /storage/uploads/${created.id} HTTP/1.1`,
      "transfer-encoding: chunked",
    ]);
    socket.write(`3e8\r\n${"x".repeat(1000)}\r\n1\r\ny\r\n`);
    expect(await answer).toStartWith("HTTP/1.1 413");
    expect((await stored(created.id)).length).toBe(0);
  });

  test("a wrong, missing or foreign token and an unknown upload get the same answer", async () => {
    const created = await create(10);
    const other = await create(10);
    for (const authorization of ["", "Bearer wrong", "Basic abc", other.upload.headers.authorization ?? ""]) {
      const response = await fetch(created.upload.url, {
        method: "PUT",
        body: "0123456789",
        headers: { authorization },
      });
      expect(response.headers.get("www-authenticate")).toStartWith("Bearer");
      await expectError(response, 401, "unauthorized");
    }
    const unknown = created.upload.url.replace(/[^/]+$/, "up_01KAJ5KZQ8D3F5G7H9J1K3M5N7");
    await expectError(
      await fetch(unknown, { method: "PUT", body: "x", headers: created.upload.headers }),
      401,
      "unauthorized",
    );
    expect(await Bun.file(bench.uploads.audioPath(created.id)).exists()).toBe(false);
  });

  test("forms, encodings, ranges and query parameters are refused", async () => {
    const created = await create(10);
    await expectError(
      await put(created, "0123456789", { "content-type": "multipart/form-data; boundary=x" }),
      422,
      "invalid_request",
      "content-type",
    );
    await expectError(
      await put(created, "0123456789", { "content-encoding": "gzip" }),
      422,
      "invalid_request",
      "content-encoding",
    );
    await expectError(
      await put(created, "0123456789", { "content-range": "bytes 0-9/10" }),
      422,
      "invalid_request",
      "content-range",
    );
    const response = await fetch(`${created.upload.url}?part=1`, {
      method: "PUT",
      body: "x",
      headers: created.upload.headers,
    });
    await expectError(response, 422, "unknown_parameter", "part");
  });

  test("HEAD, OPTIONS and DELETE are answered, other methods are refused", async () => {
    const created = await create(1000);
    const { url, headers } = created.upload;
    const head = () => fetch(url, { method: "HEAD", headers });
    expect((await head()).headers.get("upload-offset")).toBe("0");
    await put(created, noise(1000));
    const filled = await head();
    expect(filled.status).toBe(200);
    expect(filled.headers.get("upload-offset")).toBe("1000");
    expect(filled.headers.get("upload-length")).toBe("1000");
    expect(filled.headers.get("accept-ranges")).toBe("none");
    expect((await fetch(url, { method: "HEAD" })).status).toBe(401);
    const options = await fetch(url, { method: "OPTIONS", headers: { origin: "https://elsewhere.example" } });
    expect(options.status).toBe(204);
    expect(options.headers.get("allow")).toBe("PUT, HEAD, DELETE, OPTIONS");
    expect([...options.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
    expect((await fetch(url, { method: "DELETE", headers })).status).toBe(204);
    expect((await head()).headers.get("upload-offset")).toBe("0");
    const get = await fetch(url, { headers });
    expect(get.headers.get("allow")).toBe("PUT, HEAD, DELETE, OPTIONS");
    await expectError(get, 405, "method_not_allowed");
    for (const path of [
      "/storage/uploads/",
      "/storage/uploads/nonsense",
      "/storage/",
      "/storage/uploads/../x",
    ]) {
      await expectError(
        await fetch(`${server.url}${path}`, { method: "PUT", body: "x", headers }),
        404,
        "not_found",
      );
    }
  });

  test("a client that sends 1 kB/s is not cut off, although the server's idle time is shorter", async () => {
    const slow = serveUploads(bench, { idleTimeoutSeconds: 2 });
    try {
      const bytes = noise(17_000);
      const created = await create(bytes.length, sha256(bytes));
      const { hostname, port } = new URL(slow.url);
      const socket = connect(Number(port), hostname);
      sockets.push(socket);
      let text = "";
      socket.on("data", (data) => {
        text += data.toString();
      });
      socket.write(
        `PUT /storage/uploads/${created.id} HTTP/1.1\r\nhost: test\r\ncontent-length: ${bytes.length}\r\n` +
          `authorization: ${created.upload.headers.authorization}\r\n\r\n`,
      );
      for (let at = 0; at < bytes.length; at += 1000) {
        socket.write(bytes.subarray(at, at + 1000));
        await Bun.sleep(at < 4000 ? 2500 : 400);
      }
      while (text === "" && !socket.closed) await Bun.sleep(10);
      expect(text).toStartWith("HTTP/1.1 200");
      expect((await complete(created.id)).status).toBe(200);
    } finally {
      await slow.stop();
    }
  }, 30_000);
});

describe("tus", () => {
  test("OPTIONS lists the supported extensions, and no others", async () => {
    const response = await fetch(`${server.url}/storage/tus`, { method: "OPTIONS" });
    expect(response.status).toBe(204);
    expect(response.headers.get("tus-version")).toBe("1.0.0");
    expect(response.headers.get("tus-max-size")).toBe("1000000000");
    expect(response.headers.get("tus-extension")).toBe(
      "creation,creation-with-upload,termination,expiration,checksum",
    );
    expect([...response.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
  });

  test("an upload is created, sent in pieces with HEAD in between, and completed", async () => {
    const bytes = noise(1_000_000);
    const created = await create(bytes.length, sha256(bytes));
    const first = await createTus(created);
    expect(first.status).toBe(201);
    expect(first.headers.get("location")).toBe(`${server.url}/storage/tus/${created.id}`);
    expect(first.headers.get("tus-resumable")).toBe("1.0.0");
    expect(Date.parse(first.headers.get("upload-expires") ?? "")).toBeGreaterThan(Date.now());
    for (const at of [0, 400_000, 800_000]) {
      const head = await tus(created, `/${created.id}`, "HEAD");
      expect(head.headers.get("upload-offset")).toBe(String(at));
      expect(head.headers.get("upload-length")).toBe("1000000");
      expect(head.headers.get("upload-metadata")).toBe(metadataOf(created));
      expect(head.headers.get("cache-control")).toBe("no-store");
      expect([...head.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
      const end = Math.min(bytes.length, at + 400_000);
      const response = await patch(created, at, bytes.subarray(at, end));
      expect(response.status).toBe(204);
      expect(response.headers.get("upload-offset")).toBe(String(end));
      expect(response.headers.has("upload-expires")).toBe(end < bytes.length);
    }
    expect((await complete(created.id)).status).toBe(200);
    expect(sha256(await stored(created.id))).toBe(sha256(bytes));
    await expectError(await patch(created, bytes.length, ""), 409, "conflict");
  });

  test("a repeated creation returns the same address and leaves the bytes unchanged", async () => {
    const bytes = noise(1000);
    const created = await create(bytes.length);
    const first = await createTus(created);
    await patch(created, 0, bytes.subarray(0, 600));
    const again = await createTus(created);
    expect(again.status).toBe(201);
    expect(again.headers.get("location")).toBe(first.headers.get("location"));
    expect(await stored(created.id)).toEqual(bytes.subarray(0, 600));
    const together = await Promise.all([createTus(created), createTus(created), createTus(created)]);
    expect(together.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect((await patch(created, 600, bytes.subarray(600))).status).toBe(204);
    expect(await stored(created.id)).toEqual(bytes);
    expect((await createTus(created)).status).toBe(201);
    await complete(created.id);
    expect((await createTus(created)).status).toBe(201);
    expect(await stored(created.id)).toEqual(bytes);
  });

  test("the first bytes may come with the creation, and the rest by PUT or PATCH", async () => {
    const bytes = noise(1000);
    const created = await create(bytes.length);
    const headers = {
      "upload-length": "1000",
      "upload-metadata": metadataOf(created),
      "content-type": "application/offset+octet-stream",
    };
    const response = await tus(created, "", "POST", headers, bytes.subarray(0, 300));
    expect(response.status).toBe(201);
    expect(response.headers.get("upload-offset")).toBe("300");
    const repeated = await tus(created, "", "POST", headers, bytes.subarray(0, 300));
    expect(repeated.headers.get("upload-offset")).toBe("300");
    expect(await stored(created.id)).toEqual(bytes.subarray(0, 300));
    expect((await patch(created, 300, bytes.subarray(300))).status).toBe(204);
    expect(await stored(created.id)).toEqual(bytes);
  });

  test("deferred length, concatenation and another length are refused", async () => {
    const created = await create(1000);
    const metadata = { "upload-metadata": metadataOf(created) };
    await expectError(
      await tus(created, "", "POST", { ...metadata, "upload-defer-length": "1" }),
      501,
      "capability_unavailable",
    );
    await expectError(
      await createTus(created, { "upload-concat": "partial" }),
      501,
      "capability_unavailable",
      "tus.concatenation",
    );
    await expectError(
      await createTus(created, { "upload-length": "999" }),
      422,
      "invalid_request",
      "upload-length",
    );
    await expectError(
      await createTus(created, { "upload-length": "1001" }),
      422,
      "invalid_request",
      "upload-length",
    );
    expect(await Bun.file(bench.uploads.audioPath(created.id)).exists()).toBe(false);
  });

  test("every refusal is JSON in the form of the interface, with the tus version", async () => {
    const created = await create(1000);
    const other = await create(1000);
    const noVersion = await createTus(created, { "tus-resumable": "0.2.2" });
    expect(noVersion.headers.get("tus-version")).toBe("1.0.0");
    await expectError(noVersion, 412, "invalid_request", "tus-resumable");
    await expectError(await createTus(created, { authorization: "" }), 401, "unauthorized");
    await expectError(
      await createTus(other, { "upload-metadata": metadataOf(created) }),
      401,
      "unauthorized",
    );
    await expectError(
      await createTus(created, { "upload-metadata": "" }),
      422,
      "invalid_request",
      "metadata.upload_id",
    );
    await expectError(
      await createTus(created, { "upload-metadata": "a b c, d" }),
      422,
      "invalid_request",
      "metadata.upload_id",
    );
    await expectError(await tus(created, `/${created.id}`, "HEAD").then(asGetError), 404, "not_found");
    await expectError(await patch(created, 0, "x"), 404, "not_found");
    await createTus(created);
    await expectError(await patch(created, 5, "x"), 409, "conflict", "upload-offset");
    await expectError(
      await patch(created, 0, "x", { "content-type": "text/plain" }),
      415,
      "invalid_request",
      "content-type",
    );
    for (const offset of ["-1", "", "0x1", "1.5", "9".repeat(30)]) {
      const refused = await patch(created, 0, "x", { "upload-offset": offset });
      await expectError(refused, 422, "invalid_request", "upload-offset");
    }
    await expectError(await patch(created, 0, "x", { authorization: "Bearer no" }), 401, "unauthorized");
    await expectError(await tus(created, "", "GET"), 405, "method_not_allowed");
    await expectError(await tus(created, `/${created.id}`, "GET"), 405, "method_not_allowed");
    await expectError(await tus(created, "/nonsense", "PATCH"), 404, "not_found");
    const response = await patch(created, 0, "x", { "tus-resumable": "" });
    expect(response.headers.get("tus-resumable")).toBe("1.0.0");
    await expectError(response, 412, "invalid_request");
  });

  test("a wrong token is refused before any other fault of a request", async () => {
    const created = await create(1000);
    await createTus(created);
    const wrong = { authorization: "Bearer no" };
    const faults: Record<string, string>[] = [
      { "tus-resumable": "0.2.2" },
      { "content-type": "text/plain" },
      { "upload-offset": "x" },
      { "upload-metadata": "a b c, d" },
    ];
    for (const fault of faults) {
      await expectError(await patch(created, 0, "x", { ...fault, ...wrong }), 401, "unauthorized");
    }
    await expectError(
      await createTus(created, { authorization: "", "upload-length": "x" }),
      401,
      "unauthorized",
    );
    const faultsOfCreation: Record<string, string>[] = [
      { "tus-resumable": "0.2.2" },
      { "upload-length": "x" },
      { "upload-length": "" },
      { "upload-concat": "partial" },
      { "content-encoding": "gzip" },
    ];
    for (const fault of faultsOfCreation) {
      await expectError(await createTus(created, { ...fault, ...wrong }), 401, "unauthorized");
    }
  });

  test("an address that ends with a question mark names the same upload", async () => {
    const created = await create(1000);
    await createTus(created);
    // `fetch` would leave the question mark out.
    const { answer } = await rawRequest(created, [
      `HEAD /storage/tus/${created.id}? HTTP/1.1`,
      "tus-resumable: 1.0.0",
    ]);
    expect(await answer).toMatch(/^HTTP\/1.1 200 [\s\S]*upload-offset: 0/i);
  });

  test("compressed bytes are refused, with the creation as later", async () => {
    const created = await create(1000);
    const body = { "content-type": "application/offset+octet-stream", "content-encoding": "gzip" };
    await expectError(await createTus(created, body), 422, "invalid_request", "content-encoding");
    await createTus(created);
    await expectError(await patch(created, 0, "x", body), 422, "invalid_request", "content-encoding");
  });

  test("the file of a new upload is for the server's user alone, whatever the umask", async () => {
    const created = await create(1000);
    const before = process.umask(0);
    try {
      await createTus(created);
    } finally {
      process.umask(before);
    }
    expect(statSync(bench.uploads.audioPath(created.id)).mode & 0o777).toBe(0o600);
  });

  test("a list of protocols, as chained proxies send it, is accepted", async () => {
    const created = await create(1000);
    const proxied = { "x-forwarded-proto": "https, http" };
    const response = await createTus(created, proxied);
    expect(response.status).toBe(201);
    expect(response.headers.get("location")).toBe(`${server.url}/storage/tus/${created.id}`);
    expect((await patch(created, 0, noise(1000), proxied)).status).toBe(204);
  });

  test("more bytes than declared are refused, and the offset does not change", async () => {
    const created = await create(1000);
    await createTus(created);
    await patch(created, 0, noise(600));
    await expectError(await patch(created, 600, noise(401)), 413, "audio_too_large");
    await expectError(await patch(created, 600, chunked(noise(400), noise(1))), 413, "audio_too_large");
    expect((await stored(created.id)).length).toBe(600);
    expect((await tus(created, `/${created.id}`, "HEAD")).headers.get("upload-offset")).toBe("600");
    expect((await patch(created, 600, chunked(noise(200), noise(200)))).status).toBe(204);
  });

  test("Upload-Checksum is checked, and bytes with a wrong checksum are not kept", async () => {
    const bytes = noise(1000);
    const created = await create(bytes.length);
    await createTus(created);
    const sum = (algorithm: string, part: Uint8Array) =>
      `${algorithm} ${createHash(algorithm).update(part).digest("base64")}`;
    const first = bytes.subarray(0, 500);
    await expectError(
      await patch(created, 0, first, { "upload-checksum": sum("sha1", bytes) }),
      460,
      "invalid_request",
    );
    expect((await stored(created.id)).length).toBe(0);
    await expectError(
      await patch(created, 0, first, { "upload-checksum": "crc32 AAAA" }),
      400,
      "invalid_request",
    );
    expect((await patch(created, 0, first, { "upload-checksum": sum("sha256", first) })).status).toBe(204);
    const rest = bytes.subarray(500);
    expect((await patch(created, 500, rest, { "upload-checksum": sum("md5", rest) })).status).toBe(204);
    expect(await stored(created.id)).toEqual(bytes);
  });

  test("termination deletes the bytes, and the upload can be created again", async () => {
    const created = await create(1000);
    await expectError(await tus(created, `/${created.id}`, "DELETE"), 404, "not_found");
    await createTus(created);
    await patch(created, 0, noise(600));
    expect((await tus(created, `/${created.id}`, "DELETE")).status).toBe(204);
    expect((await tus(created, `/${created.id}`, "HEAD")).status).toBe(404);
    await createTus(created);
    const viaPost = await tus(
      created,
      `/${created.id}`,
      "POST",
      {
        "x-http-method-override": "PATCH",
        "content-type": "application/offset+octet-stream",
        "upload-offset": "0",
      },
      noise(1000),
    );
    expect(viaPost.status).toBe(204);
    await complete(created.id);
    await expectError(await tus(created, `/${created.id}`, "DELETE"), 409, "conflict");
    expect((await stored(created.id)).length).toBe(1000);
  });

  test("a stalled request gives way at once to the request that resumes, and its bytes are kept", async () => {
    const bytes = noise(1000);
    const created = await create(bytes.length);
    await createTus(created);
    const { socket, answer } = await rawRequest(created, [
      `PATCH /storage/tus/${created.id} HTTP/1.1`,
      "tus-resumable: 1.0.0",
      "upload-offset: 0",
      "content-type: application/offset+octet-stream",
      "content-length: 1000",
    ]);
    socket.write(bytes.subarray(0, 700));
    while ((await bench.uploads.storedBytes(created.id)) !== 700) await Bun.sleep(1);
    const startedMs = performance.now();
    const head = await tus(created, `/${created.id}`, "HEAD");
    expect(head.headers.get("upload-offset")).toBe("700");
    expect(performance.now() - startedMs).toBeLessThan(5_000);
    expect(await answer).toStartWith("HTTP/1.1 409");
    expect((await patch(created, 700, bytes.subarray(700))).status).toBe(204);
    expect(await stored(created.id)).toEqual(bytes);
  });

  test("tus-js-client: uploads whole files, aborts and resumes; parallel parts are refused", async () => {
    const bytes = noise(5_000_000);
    const created = await create(bytes.length, sha256(bytes));
    await new Promise<void>((resolve, reject) => {
      const upload: TusUpload = new TusUpload(Buffer.from(bytes), {
        ...clientOptions(created),
        chunkSize: 1_000_000,
        onError: reject,
        onChunkComplete(_size, accepted) {
          if (accepted >= 2_000_000) void upload.abort().then(() => resolve());
        },
      });
      upload.start();
    });
    const before = (await stored(created.id)).length;
    expect(before).toBeGreaterThanOrEqual(2_000_000);
    expect(before).toBeLessThan(bytes.length);
    await sendByTus(created, bytes, { uploadUrl: `${server.url}/storage/tus/${created.id}` });
    expect((await complete(created.id)).status).toBe(200);
    expect(sha256(await stored(created.id))).toBe(sha256(bytes));

    const parallel = await create(bytes.length);
    await expect(sendByTus(parallel, bytes, { parallelUploads: 2 })).rejects.toThrow("501");
  });

  test("expired uploads are rejected", async () => {
    const created = await create(1000);
    await createTus(created);
    bench.database.sqlite.run("UPDATE uploads SET expires_at = 1 WHERE id = ?", [created.id]);
    await expectError(await patch(created, 0, "x"), 410, "upload_rejected");
    await expectError(await createTus(created), 410, "upload_rejected");
    await expectError(await put(created, "x"), 422, "upload_rejected");
    expect(bench.uploads.get(CALLER, created.id)).toMatchObject({ state: "rejected" });
  });
});

/** Gives a HEAD response, which has no body, the same status and a body in the usual form, to share the assertion. */
async function asGetError(response: Response): Promise<Response> {
  expect(await response.text()).toBe("");
  return Response.json(
    { error: { code: "not_found", message: "x" } },
    { status: response.status, headers: { "content-type": "application/json" } },
  );
}

function clientOptions(created: UploadCreated) {
  const { endpoint = "", headers = {}, metadata = {} } = created.resumable_upload ?? {};
  return { endpoint, headers, metadata, retryDelays: [0, 50, 100, 200] };
}

function sendByTus(created: UploadCreated, bytes: Uint8Array, extra: object = {}): Promise<void> {
  return new Promise((resolve, reject) => {
    new TusUpload(Buffer.from(bytes), {
      ...clientOptions(created),
      onError: reject,
      onSuccess: () => resolve(),
      ...extra,
    }).start();
  });
}

describe("the upload's row", () => {
  /** Counts the statements that read the row of an upload, while some work is done. */
  async function readsDuring(own: UploadBench, work: () => Promise<Response>): Promise<[number, number]> {
    const { sqlite } = own.database;
    const original = sqlite.prepare;
    let reads = 0;
    // Statements that are used again are counted, too: drizzle runs them by `values`.
    const counted = (text: string, statement: ReturnType<typeof original>) => {
      const { values } = statement;
      statement.values = (...parameters) => {
        if (/^select .* from "uploads" .*where "uploads"."id" = \?/.test(text)) reads++;
        return values.call(statement, ...parameters);
      };
      return statement;
    };
    Object.assign(sqlite, {
      prepare: (text: string) => counted(text, original.call(sqlite, text)),
    });
    forgetStatements(own.database.store);
    try {
      const { status } = await work();
      return [status, reads];
    } finally {
      Object.assign(sqlite, { prepare: original });
      forgetStatements(own.database.store);
    }
  }

  test("is read once when the token is checked, and once when the file is locked", async () => {
    const bytes = noise(1000);
    const whole = await create(bytes.length);
    const resumed = await create(bytes.length);
    const { headers, url } = whole.upload;
    const steps: [name: string, work: () => Promise<Response>, status: number, reads: number][] = [
      ["PUT", () => put(whole, bytes), 200, 2],
      ["PUT of a part", () => put(whole, bytes.subarray(1)), 409, 2],
      ["PUT that names a format", () => put(whole, bytes, { "content-type": "audio/basic" }), 200, 2],
      ["HEAD", () => fetch(url, { method: "HEAD", headers }), 200, 1],
      ["DELETE", () => fetch(url, { method: "DELETE", headers }), 204, 2],
      ["tus creation", () => createTus(resumed), 201, 2],
      ["tus creation again", () => createTus(resumed), 201, 1],
      ["tus PATCH", () => patch(resumed, 0, bytes), 204, 2],
      ["tus HEAD", () => tus(resumed, `/${resumed.id}`, "HEAD"), 200, 1],
      ["tus DELETE", () => tus(resumed, `/${resumed.id}`, "DELETE"), 204, 2],
    ];
    const measured: unknown[] = [];
    for (const [name, work] of steps) measured.push([name, ...(await readsDuring(bench, work))]);
    expect(measured).toEqual(steps.map(([name, , status, reads]) => [name, status, reads]));
  });
});
