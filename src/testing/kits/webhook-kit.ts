import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import type { Config } from "../../config/schema.ts";
import type { Owner } from "../../domain/ownership.ts";
import { newId } from "../../lib/ids.ts";
import { openDatabase, transaction } from "../../store/database.ts";
import { insertOrganization } from "../../store/organizations.ts";
import { insertProject } from "../../store/projects.ts";
import { type FinishedTranscription, insertEvent } from "../../webhooks/event-rows.ts";
import { createWebhookService } from "../../webhooks/webhooks.ts";
import { manualClock } from "./manual-clock.ts";
import { testConfig } from "./test-config.ts";

/** A delivery as its receiver got it. */
export type Received = {
  id: string;
  timestamp: number;
  signature: string;
  body: string;
  url: string;
  host: string;
};
export type Answer = (received: Received, request: Request) => Response | Promise<Response>;
export type Receiver = { url: string; port: number; received: Received[]; stop(): Promise<void> };

/** Starts a receiver on a free port of 127.0.0.1, with TLS where a certificate is given. */
export function startReceiver(
  answer: Answer = () => new Response(null, { status: 204 }),
  tls?: { cert: string; key: string },
): Receiver {
  const received: Received[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    ...(tls ? { tls } : {}),
    async fetch(request) {
      const header = (name: string) => request.headers.get(name) ?? "";
      const one: Received = {
        id: header("webhook-id"),
        timestamp: Number(header("webhook-timestamp")),
        signature: header("webhook-signature"),
        body: await request.text(),
        url: request.url,
        host: header("host"),
      };
      received.push(one);
      return await answer(one, request);
    },
  });
  const port = server.port ?? 0;
  const scheme = tls ? "https" : "http";
  return { url: `${scheme}://127.0.0.1:${port}/hook`, port, received, stop: () => server.stop(true) };
}

/** Starts a receiver that writes its responses byte by byte. */
export async function startRawReceiver(onConnection: (socket: Socket) => void) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    onConnection(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const stop = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${port}/hook`, port, stop };
}

/** Reports whether a Standard Webhooks library would accept the delivery at the time of the attempt. */
export function isAuthentic(received: Received, secret: string): boolean {
  const headers = {
    "webhook-id": received.id,
    "webhook-timestamp": String(received.timestamp),
    "webhook-signature": received.signature,
  };
  // The library compares with the machine's clock. The time of the attempt is that of the test's clock.
  const realNow = Date.now;
  Date.now = () => received.timestamp * 1000;
  try {
    new Webhook(secret).verify(received.body, headers);
    return true;
  } catch {
    return false;
  } finally {
    Date.now = realNow;
  }
}

/** Makes a certificate authority and two certificates in a new folder. */
export function makeCertificates() {
  const folder = mkdtempSync(join(tmpdir(), "shruti-tls-"));
  const path = (name: string) => join(folder, name);
  const run = (...args: string[]) => {
    const { exitCode, stderr } = Bun.spawnSync(["openssl", ...args], { cwd: folder });
    if (exitCode !== 0) throw new Error(`openssl ${args[0]}: ${stderr.toString()}`);
  };
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const issue = (name: string, names: string) => {
    writeFileSync(path(`${name}.ext`), `subjectAltName=${names}`);
    run("req", ...newKey, "-keyout", `${name}.key`, "-out", `${name}.csr`, "-subj", `/CN=${name}`);
    const authority = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"];
    run(
      "x509",
      "-req",
      "-in",
      `${name}.csr`,
      ...authority,
      "-days",
      "2",
      "-extfile",
      `${name}.ext`,
      "-out",
      `${name}.pem`,
    );
  };
  run(
    "req",
    "-x509",
    ...newKey,
    "-keyout",
    "ca.key",
    "-out",
    "ca.pem",
    "-days",
    "2",
    "-subj",
    "/CN=Shruti test CA",
  );
  issue("receiver", "DNS:receiver.test");
  issue("address", "IP:127.0.0.1");
  const names = ["-subj", "/CN=receiver.test", "-addext", "subjectAltName=DNS:receiver.test"];
  run("req", "-x509", ...newKey, "-keyout", "self.key", "-out", "self.pem", "-days", "2", ...names);
  const pair = (name: string) => ({
    cert: readFileSync(path(`${name}.pem`), "utf8"),
    key: readFileSync(path(`${name}.key`), "utf8"),
  });
  return {
    caFile: path("ca.pem"),
    receiver: pair("receiver"),
    address: pair("address"),
    selfSigned: pair("self"),
    remove: () => rmSync(folder, { recursive: true }),
  };
}

/** Settings that allow receivers on this machine. */
export const BENCH_WEBHOOKS = {
  allow_http: true,
  allowed_networks: ["127.0.0.0/8"],
  timeout_seconds: 1,
} as const;

/** Opens a database with one project, a clock that a test advances, and the services of webhooks. */
export function openWebhookKit(webhooks: Partial<Config["webhooks"]> = {}, path = ":memory:") {
  const database = openDatabase(path);
  const clock = manualClock();
  const config = testConfig({ webhooks: { ...BENCH_WEBHOOKS, ...webhooks } });
  const caller: Owner = {
    organizationId: newId("organization", clock.now()),
    projectId: newId("project", clock.now()),
  };
  insertOrganization(database.store, { id: caller.organizationId, name: "bench", createdAt: clock.now() });
  const project = { ...caller, id: caller.projectId, name: "bench", createdAt: clock.now() };
  insertProject(database.store, project);
  const service = createWebhookService({ database, clock, config });

  return {
    database,
    clock,
    config,
    caller,
    service,
    /** Finishes transcriptions and stores their events in one transaction. Returns the ids. */
    finish(endpointId: string, count = 1, facts: Partial<FinishedTranscription> = {}): string[] {
      const nowMs = clock.now();
      return transaction(database.store, (tx) =>
        Array.from({ length: count }, () => {
          const transcription = { id: newId("transcription", nowMs), state: "completed" as const, ...facts };
          return insertEvent(tx, { transcription, endpointId, nowMs });
        }),
      );
    },
    close: () => database.close(),
  };
}
