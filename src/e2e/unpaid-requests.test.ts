import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { type ApiClient, ApiError, audioForm } from "../testing/answers/api-client.ts";
import { changingFlac, changingMp3, denseFlac, hugeIndexMp4 } from "../testing/makers/bombs.ts";
import { type Installation, install, type RunningServer, uploaded } from "./kit.ts";
import { argumentsOf, cpuMsOf, descendantsOf } from "./processes.ts";
import { sampleBytes } from "./samples.ts";

/**
 * An organization without credit sends the most expensive requests, in a loop and over many connections. Meanwhile, a
 * small upload and a synchronous request of another organization take hardly longer.
 */

const SLOW_SECONDS = 3;
const TIMEOUT_SECONDS = 20;
/** Time that one decoding may add: the one that has just begun on the same processor. */
const DECODING_MS = 3_000;
/** More clients than there are receiving places. */
const CLIENTS = 20;
/** Decoder places. */
let places = 0;
/** Time until an attack has begun. */
const LEAD_MS = 1_000;

let installation: Installation;
let server: RunningServer;
let attackerKey: string;
const alone = { upload: 0, synchronous: 0 };

beforeAll(async () => {
  installation = await install({
    environment: {
      SHRUTI_LIMITS_SLOW_RECEIVE_SECONDS: String(SLOW_SECONDS),
      SHRUTI_LIMITS_SYNCHRONOUS_TIMEOUT_SECONDS: String(TIMEOUT_SECONDS),
    },
  });
  const organization = await installation.json<{ id: string }>("orgs", "create", "attacker");
  const project = await installation.json<{ id: string }>(
    "projects",
    "create",
    "main",
    "--org",
    organization.id,
  );
  const key = await installation.json<{ key: string }>(
    "keys",
    "create",
    "--project",
    project.id,
    "--name",
    "main",
  );
  attackerKey = key.key;
  server = await (await installation.serve()).ready();
  await victimsWork();
  const runs = [await victimsWork(), await victimsWork(), await victimsWork()];
  alone.upload = median(runs.map(({ upload }) => upload));
  alone.synchronous = median(runs.map(({ synchronous }) => synchronous));
  const metrics = await (await fetch(`${server.baseUrl}/metrics`)).text();
  places = Number(/^shruti_decoders (\d+)$/m.exec(metrics)?.[1]);
}, 300_000);

afterAll(async () => {
  await server?.stop();
  await installation?.remove();
});

const median = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begunMs = performance.now();
  await work();
  return performance.now() - begunMs;
}

/** Measures how long a small upload and a synchronous request of the other organization take. */
async function victimsWork(): Promise<{ upload: number; synchronous: number }> {
  const api = server.api();
  const bytes = sampleBytes("02-hi");
  const upload = await timed(() => uploaded(api, bytes));
  const synchronous = await timed(() => api.transcribe(bytes, { language: "hi" }));
  return { upload, synchronous };
}

/** One client of the attacker, called repeatedly until the signal is aborted. */
type Client = (api: ApiClient, signal: AbortSignal) => Promise<string>;

const uploads =
  (bytes: Uint8Array<ArrayBuffer>): Client =>
  (api, signal) =>
    Promise.race([api.upload(bytes).then(({ state }) => state), aborted(signal)]);

const forms =
  (bytes: Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}): Client =>
  (api, signal) =>
    api
      .send("/v1/audio/transcriptions", {
        method: "POST",
        headers,
        body: audioForm(bytes, { language: "hi" }),
        signal,
      })
      .then(({ status }) => String(status));

/** Sends the head of a request and then one byte a second, without end. */
const trickle =
  (head: (api: ApiClient) => Promise<string[]> | string[]): Client =>
  async (api, signal) => {
    const { hostname, port } = new URL(server.baseUrl);
    const lines = await head(api);
    const socket = connect(Number(port), hostname);
    socket.on("error", () => {});
    socket.on("data", () => socket.destroy());
    socket.write(`${[...lines, "host: test"].join("\r\n")}\r\n\r\n`);
    const timer = setInterval(() => socket.write("x"), 1_000);
    await Promise.race([new Promise((resolve) => socket.once("close", resolve)), aborted(signal)]);
    clearInterval(timer);
    socket.destroy();
    return "closed";
  };

const aborted = (signal: AbortSignal) =>
  new Promise<string>((resolve) => {
    signal.addEventListener("abort", () => resolve("broken off"), { once: true });
  });

const slowForm = () => [
  "POST /v1/audio/transcriptions HTTP/1.1",
  `authorization: Bearer ${attackerKey}`,
  "content-type: multipart/form-data; boundary=b",
  "content-length: 100000",
];

async function slowUpload(api: ApiClient): Promise<string[]> {
  const { upload } = await api.createUpload(1_000_000);
  return [
    `PUT ${new URL(upload.url).pathname} HTTP/1.1`,
    `authorization: ${upload.headers.authorization}`,
    "content-length: 1000000",
  ];
}

/** Sends a complete form of which the parser skips a large part. */
const skippedPart: Client = (api, signal) =>
  api
    .send("/v1/audio/transcriptions", {
      method: "POST",
      headers: { "content-type": "multipart/form-data; boundary=b" },
      body: `--b\r\nX-Other: value\r\n\r\n${"x".repeat(84_000)}\r\n--b--\r\n`,
      signal,
    })
    .then(({ status }) => String(status));

/** Makes an attack with valid audio of an organization without credit. */
const unpaid = () => sampleBytes("02-hi");

const ATTACKS: [title: string, client: Client][] = [
  ["synchronous requests with an MP3 whose rate changes with each frame", forms(changingMp3(1_000_000))],
  ["synchronous requests with a FLAC whose rate changes with each frame", forms(changingFlac(60_000))],
  ["synchronous requests with an MP4 that claims millions of samples", forms(hugeIndexMp4(30_000_000))],
  ["synchronous requests with a FLAC that decodes to much sound", forms(denseFlac(20_000))],
  ["many such requests with one idempotency key", forms(denseFlac(20_000), { "idempotency-key": "k" })],
  ["synchronous requests that it cannot pay for", forms(unpaid())],
  ["forms that arrive at one byte a second", trickle(slowForm)],
  ["uploads that arrive at one byte a second", trickle(slowUpload)],
  ["complete forms with a large part that the parser skips", skippedPart],
  // These uploads are verified during the rest of the test.
  ["uploads of that MP3", uploads(changingMp3(1_000_000))],
  ["uploads of that FLAC", uploads(changingFlac(60_000))],
  ["uploads of that MP4", uploads(hugeIndexMp4(30_000_000))],
  ["uploads of the FLAC that decodes to much sound", uploads(denseFlac(20_000))],
];

/** Runs an attack until the work is done. Returns the statuses of its requests, and how the others ended. */
async function underAttack<T>(
  client: Client,
  work: () => Promise<T>,
): Promise<{ done: T; ends: Set<string> }> {
  const stop = new AbortController();
  const api = server.api(attackerKey);
  const ends = new Set<string>();
  const loop = async () => {
    while (!stop.signal.aborted) {
      ends.add(await client(api, stop.signal).catch(endOf));
      // Without a pause, refusals alone would use up the client's rate.
      await Bun.sleep(20);
    }
  };
  const loops = Array.from({ length: CLIENTS }, loop);
  try {
    await Bun.sleep(LEAD_MS);
    return { done: await work(), ends };
  } finally {
    stop.abort();
    await Promise.all(loops);
  }
}

/** Matches errors of requests whose connections end early because the server refuses the body or the attack ends. */
const endOf = (error: unknown) => (error instanceof ApiError ? String(error.status) : "broken off");

/** Returns the most decoders that ran at once during other work. */
async function mostDecoders(work: Promise<unknown>): Promise<number> {
  let most = 0;
  let isDone = false;
  const done = work.finally(() => {
    isDone = true;
  });
  // If the work fails, its error is thrown after the last count.
  done.catch(() => {});
  while (!isDone) {
    const running = descendantsOf(server.pid).filter((pid) => !argumentsOf(pid).includes("engine-worker"));
    most = Math.max(most, running.length);
    await Bun.sleep(50);
  }
  await done;
  return most;
}

describe("an organization without credit sends, in a loop,", () => {
  test.each(ATTACKS)(
    "%s",
    async (_title, client) => {
      const { done, ends } = await underAttack(client, async () => {
        const work = victimsWork();
        return { most: await mostDecoders(work), ...(await work) };
      });
      // No request of the attack was refused for its key, scope or path, so each one caused its work.
      for (const status of ["401", "403", "404"]) expect(ends).not.toContain(status);
      expect(done.upload).toBeLessThanOrEqual(2 * alone.upload + DECODING_MS);
      expect(done.synchronous).toBeLessThanOrEqual(2 * alone.synchronous + DECODING_MS);
      expect(done.most).toBeLessThanOrEqual(places);
    },
    60_000,
  );

  test("uploads that are still verified after a restart, which does not delay others", async () => {
    await server.kill();
    server = await (await installation.serve()).ready();
    const done = await victimsWork();
    expect(done.upload).toBeLessThanOrEqual(2 * alone.upload + DECODING_MS);
    expect(done.synchronous).toBeLessThanOrEqual(2 * alone.synchronous + DECODING_MS);
  }, 60_000);
});

test("forms of boundaries take hardly any processor time, while another organization is served", async () => {
  const headers = {
    authorization: `Bearer ${attackerKey}`,
    "content-type": "multipart/form-data; boundary=B",
  };
  const body = "--B\r\n\r\n\r\n".repeat(2_900_000);
  const beforeMs = cpuMsOf([server.pid]);
  let isOver = false;
  const forms = Promise.all(
    Array.from({ length: 12 }, async () => {
      const init = { method: "POST", headers, body };
      const response = await fetch(`${server.baseUrl}/v1/audio/transcriptions`, init);
      await response.arrayBuffer();
      return response.status;
    }),
  ).finally(() => {
    isOver = true;
  });
  while (!isOver) expect((await server.api().call("GET", "/v1/models")).status).toBe(200);
  expect(await forms).toEqual(Array.from({ length: 12 }, () => 422));
  // To receive 300 MB takes some of it. To understand all of them took 22 s.
  expect(cpuMsOf([server.pid]) - beforeMs).toBeLessThan(6_000);
}, 60_000);

test("an honest client at 2 kB/s is not refused as too slow", async () => {
  const bytes = sampleBytes("02-hi").slice(0, 2 * SLOW_SECONDS * 2_000);
  const { upload } = await server.api().createUpload(bytes.length);
  const { hostname, port } = new URL(server.baseUrl);
  const socket = connect(Number(port), hostname);
  const answer = new Promise<string>((resolve) => socket.once("data", (data) => resolve(data.toString())));
  const head = [
    `PUT ${new URL(upload.url).pathname} HTTP/1.1`,
    "host: test",
    `authorization: ${upload.headers.authorization}`,
    `content-length: ${bytes.length}`,
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n`);
  for (let at = 0; at < bytes.length; at += 2_000) {
    socket.write(bytes.subarray(at, at + 2_000));
    await Bun.sleep(1_000);
  }
  expect(await answer).toStartWith("HTTP/1.1 200");
  socket.destroy();
}, 60_000);
