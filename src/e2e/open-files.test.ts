import { afterAll, beforeAll, expect, test } from "bun:test";
import { chmodSync, readdirSync, writeFileSync } from "node:fs";
import { placeBinary } from "./binary.ts";
import { type Installation, install, type RunningServer, until } from "./kit.ts";

/** A server that cannot open another file reports it, and continues as soon as it can. */

const MOST_FILES = 64;
let installation: Installation;
let server: RunningServer;
beforeAll(async () => {
  installation = await install({
    async place(path) {
      await placeBinary(`${path}.program`);
      writeFileSync(path, `#!/bin/sh\nulimit -n ${MOST_FILES}\nexec "$0.program" "$@"\n`);
      chmodSync(path, 0o755);
    },
  });
  server = await (await installation.serve()).ready();
}, 300_000);
afterAll(() => installation?.remove());

/** Opens a connection that sends one request after the other. */
async function connect() {
  const { hostname, port } = new URL(server.baseUrl);
  let text = "";
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      data: (_socket, data) => {
        text += data.toString();
      },
      error: () => undefined,
    },
  });
  return {
    close: () => socket.end(),
    async ask(head: string, body: string): Promise<string> {
      text = "";
      socket.write(`${head}\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
      await until("it is answered", () => /\r\n\r\n\{.*\}/s.test(text), 10_000);
      return text;
    },
  };
}

const openFiles = () => readdirSync(`/proc/${server.pid}/fd`).length;

test("at the limit of open files the answer is 503 with Retry-After, and later the work is done", async () => {
  const { upload } = await server.api().createUpload(5);
  const { pathname } = new URL(upload.url);
  const head = `PUT ${pathname} HTTP/1.1\r\nAuthorization: ${upload.headers.authorization}`;
  const client = await connect();
  expect(await client.ask(head, "abcd")).toStartWith("HTTP/1.1 409");
  const others: Awaited<ReturnType<typeof connect>>[] = [];
  let refused = "";
  await until("no file can be opened", async () => {
    others.push(await connect());
    refused = await client.ask(head, "abcd");
    return !refused.startsWith("HTTP/1.1 409");
  });
  expect(refused).toStartWith("HTTP/1.1 503");
  expect(refused).toContain('"code":"capacity_unavailable"');
  expect(refused.toLowerCase()).toContain("\r\nretry-after: ");
  for (const other of others) other.close();
  await until("files are given back", () => openFiles() < MOST_FILES - 20);
  expect(await client.ask(head, "abcde")).toStartWith("HTTP/1.1 200");
  client.close();
}, 60_000);
