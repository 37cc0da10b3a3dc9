/**
 * Measures throughput and memory of uploads, compared with the limits of the machine: `cp`, and a bare server that streams
 * the body into a file with `Bun.write`. All are measured in one run, because only ratios of one run are meaningful.
 *
 *   bun scripts/bench/upload.ts [--mib 1024] [--rounds 3] [--slow 200]
 *
 * Every scenario gets a fresh server process; its peak resident memory is the kernel's `VmHWM`. While bytes flow,
 * `GET /alive` is requested 100 times a second. "held" is the worst delay of a 5 ms timer of the server, which
 * includes the time that other programs on the machine took. "complete" is the time from the response to the last
 * byte until the upload is complete. Nothing is decoded here, so it is the cost of the SHA-256, where one is
 * declared. "all MiB/s" is the speed with that time included.
 */
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { UploadCreated } from "../../src/http/wire/schemas.ts";
import { freeBytesOf } from "../../src/lib/disk-space.ts";
import { median } from "./median.ts";

const MIB = 1024 * 1024;
const SERVER = join(import.meta.dir, "../../src/testing/kits/upload-bench.ts");
const TUS_CHUNK = 8 * MIB;

type Child = { process: Bun.Subprocess<"ignore", "pipe", "inherit">; url: string };
type Latency = { p50: number; p99: number; max: number };
type Measured = {
  seconds: number;
  /** Time from the response to the last byte until the upload is complete. */
  completeSeconds?: number;
  peakMib?: number;
  latency?: Latency;
  heldMs?: number;
};

async function startChild(command: string[]): Promise<Child> {
  const child = Bun.spawn(command, { stdout: "pipe", stderr: "inherit" });
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  reader.releaseLock();
  return { process: child, url: new TextDecoder().decode(value).trim() };
}

async function stopChild({ process }: Child): Promise<void> {
  process.kill("SIGKILL");
  await process.exited;
}

function peakMib(pid: number): number {
  const kilobytes = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kilobytes) / 1024;
}

/** Sends a small request 100 times a second until it is stopped. */
function watchLatency(url: string): () => Promise<Latency> {
  const times: number[] = [];
  let isRunning = true;
  const running = (async () => {
    while (isRunning) {
      const startedMs = performance.now();
      await (await fetch(`${url}/alive`)).text();
      times.push(performance.now() - startedMs);
      await Bun.sleep(10);
    }
  })();
  return async () => {
    isRunning = false;
    await running;
    times.sort((a, b) => a - b);
    const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;
    return { p50: at(0.5), p99: at(0.99), max: at(1) };
  };
}

async function allocate(url: string, bytes: number, sha256?: string): Promise<UploadCreated> {
  const body = JSON.stringify({ bytes, ...(sha256 === undefined ? {} : { sha256 }) });
  return (await (await fetch(`${url}/create`, { method: "POST", body })).json()) as UploadCreated;
}

async function expectStatus(response: Response, status: number): Promise<void> {
  if (response.status !== status) throw new Error(`${response.status}: ${await response.text()}`);
  await response.text();
}

/** Completes the upload and waits until it is complete. */
async function complete(url: string, id: string): Promise<void> {
  const asked = await fetch(`${url}/complete/${id}`, { method: "POST" });
  let { state } = (await asked.json()) as { state?: string };
  while (state === "verifying") {
    await Bun.sleep(5);
    ({ state } = (await (await fetch(`${url}/upload/${id}`)).json()) as { state?: string });
  }
  if (state !== "complete") throw new Error(`the upload is ${state ?? asked.status}`);
}

async function sendByTus(created: UploadCreated, file: string, chunkBytes: number): Promise<void> {
  const { endpoint = "", headers = {} } = created.resumable_upload ?? {};
  const own = { ...headers, "tus-resumable": "1.0.0" };
  const metadata = `upload_id ${Buffer.from(created.id).toString("base64")}`;
  const creation = { ...own, "upload-length": String(created.bytes), "upload-metadata": metadata };
  await expectStatus(await fetch(endpoint, { method: "POST", headers: creation }), 201);
  for (let at = 0; at < created.bytes; at += chunkBytes) {
    const response = await fetch(`${endpoint}/${created.id}`, {
      method: "PATCH",
      headers: { ...own, "upload-offset": String(at), "content-type": "application/offset+octet-stream" },
      body: Bun.file(file).slice(at, Math.min(created.bytes, at + chunkBytes)),
    });
    await expectStatus(response, 204);
  }
}

/** Starts a server that only writes bodies to files, with or without syncing them. */
async function serveBare(folder: string, syncs: boolean): Promise<void> {
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    idleTimeout: 255,
    async fetch(request) {
      if (request.method === "GET") return new Response(request.url.endsWith("/held") ? "0" : "yes");
      const path = join(folder, "bare");
      await Bun.write(path, new Response(request.body));
      if (syncs) await syncPath(path);
      return new Response("done");
    },
  });
  process.stdout.write(`http://127.0.0.1:${server.port}\n`);
}

async function syncPath(path: string): Promise<void> {
  const file = await open(path, "r+");
  await file.sync();
  await file.close();
}

type Scenario = { name: string; run: (folder: string) => Promise<Measured> };

function withServer(
  command: (folder: string) => string[],
  send: (url: string) => Promise<UploadCreated | undefined>,
): Scenario["run"] {
  return async (folder) => {
    const child = await startChild(command(folder));
    try {
      await fetch(`${child.url}/alive`);
      const stopWatch = watchLatency(child.url);
      const startedMs = performance.now();
      const created = await send(child.url);
      const sentMs = performance.now();
      if (created) await complete(child.url, created.id);
      const completeSeconds = (performance.now() - sentMs) / 1000;
      const seconds = (sentMs - startedMs) / 1000;
      const latency = await stopWatch();
      const held = Number(await (await fetch(`${child.url}/held`)).text());
      return {
        seconds,
        ...(created ? { completeSeconds } : {}),
        latency,
        peakMib: peakMib(child.process.pid),
        heldMs: held,
      };
    } finally {
      await stopChild(child);
    }
  };
}

function scenarios(file: string, bytes: number, sha256: string): Scenario[] {
  const ours = (folder: string) => [process.execPath, SERVER, folder];
  const bare = (kind: string) => (folder: string) => [
    process.execPath,
    import.meta.path,
    `--${kind}`,
    folder,
  ];
  const putBare = async (url: string) => {
    await expectStatus(await fetch(url, { method: "PUT", body: Bun.file(file) }), 200);
    return undefined;
  };
  const put = (digest?: string) => async (url: string) => {
    const created = await allocate(url, bytes, digest);
    const { headers } = created.upload;
    await expectStatus(
      await fetch(created.upload.url, { method: "PUT", headers, body: Bun.file(file) }),
      200,
    );
    return created;
  };
  const tus = (chunkBytes: number) => async (url: string) => {
    const created = await allocate(url, bytes, sha256);
    await sendByTus(created, file, chunkBytes);
    return created;
  };
  const copy = (syncs: boolean) => async (folder: string) => {
    const startedMs = performance.now();
    const target = join(folder, "copy");
    await Bun.$`cp --reflink=never ${file} ${target}`.quiet();
    if (syncs) await syncPath(target);
    return { seconds: (performance.now() - startedMs) / 1000 };
  };
  return [
    { name: "cp", run: copy(false) },
    { name: "cp + fsync", run: copy(true) },
    { name: "bare Bun.write server", run: withServer(bare("bare"), putBare) },
    { name: "bare Bun.write server + fsync", run: withServer(bare("bare-sync"), putBare) },
    { name: "PUT, fsync", run: withServer(ours, put()) },
    { name: "PUT, fsync, SHA-256", run: withServer(ours, put(sha256)) },
    { name: "tus in 8 MiB, fsync, SHA-256", run: withServer(ours, tus(TUS_CHUNK)) },
    { name: "tus in one PATCH, fsync, SHA-256", run: withServer(ours, tus(bytes)) },
  ];
}

async function makeFile(path: string, bytes: number): Promise<string> {
  const hasher = createHash("sha256");
  const block = Buffer.from(crypto.getRandomValues(new Uint8Array(65_536)));
  const file = await open(path, "w");
  for (let at = 0; at < bytes; at += block.length) {
    block.writeDoubleLE(at, 0);
    const part = block.subarray(0, Math.min(block.length, bytes - at));
    hasher.update(part);
    await file.write(part);
  }
  await file.sync();
  await file.close();
  return hasher.digest("hex");
}

/** Measures how many clients at 1 kB/s slow down other requests. */
async function benchSlowClients(folder: string, count: number): Promise<void> {
  const child = await startChild([process.execPath, SERVER, folder]);
  const sockets: Socket[] = [];
  try {
    for (let warm = 0; warm < 500; warm += 1) await (await fetch(`${child.url}/alive`)).text();
    const measure = async () => {
      const stopWatch = watchLatency(child.url);
      await Bun.sleep(10_000);
      return stopWatch();
    };
    const before = await measure();
    const { port } = new URL(child.url);
    for (let index = 0; index < count; index += 1) {
      const created = await allocate(child.url, 1_000_000);
      const socket = connect(Number(port), "127.0.0.1");
      socket.on("error", () => undefined);
      sockets.push(socket);
      socket.write(
        `PUT /storage/uploads/${created.id} HTTP/1.1\r\nhost: bench\r\ncontent-length: 1000000\r\n` +
          `authorization: ${created.upload.headers.authorization}\r\n\r\n`,
      );
    }
    const timers = sockets.map((socket) => setInterval(() => socket.write(Buffer.alloc(1000)), 1000));
    const during = await measure();
    for (const timer of timers) clearInterval(timer);
    const ratio = (during.p99 / before.p99).toFixed(2);
    console.log(
      `\n${count} uploads at 1 kB/s: GET p50 ${during.p50.toFixed(2)} ms, p99 ${during.p99.toFixed(2)} ms ` +
        `(idle ${before.p50.toFixed(2)} and ${before.p99.toFixed(2)}; ratio of p99 ${ratio}), ` +
        `peak ${peakMib(child.process.pid).toFixed(0)} MiB`,
    );
  } finally {
    for (const socket of sockets) socket.destroy();
    await stopChild(child);
  }
}

function report(results: Map<string, Measured[]>, bytes: number): void {
  const speed = (name: string) =>
    bytes / MIB / median((results.get(name) ?? []).map(({ seconds }) => seconds));
  console.log(
    "scenario                             MiB/s   of cp  of bare  of bare+fsync  complete s  all MiB/s  peak MiB" +
      "  GET p99/max ms  held ms",
  );
  for (const [name, runs] of results) {
    const share = (of: string) => (speed(name) / speed(of)).toFixed(2);
    const peak = Math.max(...runs.map((run) => run.peakMib ?? 0));
    const p99 = Math.max(...runs.map(({ latency }) => latency?.p99 ?? 0));
    const isCompleted = runs.every(({ completeSeconds }) => completeSeconds !== undefined);
    const completeSeconds = median(runs.map((run) => run.completeSeconds ?? 0));
    const allSeconds = median(runs.map((run) => run.seconds + (run.completeSeconds ?? 0)));
    const held = Math.max(...runs.map((run) => run.heldMs ?? 0));
    const max = Math.max(...runs.map(({ latency }) => latency?.max ?? 0));
    console.log(
      [
        name.padEnd(34),
        speed(name).toFixed(0).padStart(8),
        share("cp").padStart(7),
        share("bare Bun.write server").padStart(8),
        share("bare Bun.write server + fsync").padStart(14),
        (isCompleted ? completeSeconds.toFixed(2) : "-").padStart(11),
        (isCompleted ? (bytes / MIB / allSeconds).toFixed(0) : "-").padStart(10),
        (peak === 0 ? "-" : peak.toFixed(0)).padStart(9),
        (max === 0 ? "-" : `${p99.toFixed(1)} / ${max.toFixed(1)}`).padStart(15),
        (held > 0 ? held.toFixed(1) : "-").padStart(8),
      ].join(" "),
    );
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      mib: { type: "string", default: "1024" },
      rounds: { type: "string", default: "3" },
      slow: { type: "string", default: "200" },
      only: { type: "string", default: "" },
      bare: { type: "string" },
      "bare-sync": { type: "string" },
    },
  });
  const bareFolder = values.bare ?? values["bare-sync"];
  if (bareFolder !== undefined) return serveBare(bareFolder, values["bare-sync"] !== undefined);
  const bytes = Number(values.mib) * MIB;
  const folder = mkdtempSync(join(tmpdir(), "shruti-bench-"));
  try {
    if (freeBytesOf(folder) < bytes * 3)
      throw new Error("the disk has no space for three files of that size");
    const file = join(folder, "source");
    const sha256 = await makeFile(file, bytes);
    const results = new Map<string, Measured[]>();
    for (let round = 0; round < Number(values.rounds); round += 1) {
      for (const { name, run } of scenarios(file, bytes, sha256)) {
        if (!name.includes(values.only)) continue;
        const work = mkdtempSync(join(folder, "work-"));
        results.set(name, [...(results.get(name) ?? []), await run(work)]);
        rmSync(work, { recursive: true });
      }
    }
    console.log(`${values.mib} MiB, median of ${values.rounds} rounds\n`);
    report(results, bytes);
    if (Number(values.slow) > 0) await benchSlowClients(folder, Number(values.slow));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

await main();
