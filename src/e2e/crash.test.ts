import { afterEach, expect, test } from "bun:test";
import { auditDeliveries, killAtRandom } from "../testing/webhook-crash.ts";
import { startReceiver } from "../testing/webhook-kit.ts";
import { type Installation, install, type RunningServer, reached, until, uploaded } from "./kit.ts";
import { concatenated, saidIn, sampleBytes } from "./samples.ts";
import { type Customer, createTraffic } from "./traffic.ts";

/** The executable under SIGKILL at random moments. `SHRUTI_CRASH_ROUNDS=100` is the long mode. */

const ROUNDS = Number(process.env.SHRUTI_CRASH_ROUNDS ?? 5);
const IS_LONG = ROUNDS > 20;
const CUSTOMERS = 3;

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function openInstallation(environment: Record<string, string> = {}): Promise<Installation> {
  const installation = await install({
    environment: {
      ...environment,
      SHRUTI_WEBHOOKS_ALLOW_HTTP: "true",
      SHRUTI_WEBHOOKS_ALLOWED_NETWORKS: "127.0.0.0/8",
      SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0",
    },
  });
  cleanups.push(installation.remove);
  return installation;
}

type Audit = { ok: boolean; open_reservations: number; charged_paise: number; reserved_paise: number };

async function audited(installation: Installation): Promise<Audit> {
  const audit = await installation.json<Audit>("credit", "audit");
  expect(audit.ok).toBe(true);
  return audit;
}

/** Organizations with a project, a key, credit and an endpoint each. */
async function openCustomers(
  installation: Installation,
  server: RunningServer,
  url: string,
): Promise<Customer[]> {
  const customers: Customer[] = [];
  for (let index = 0; index < CUSTOMERS; index++) {
    const organization = await installation.json<{ id: string }>("orgs", "create", `customer ${index}`);
    const project = await installation.json<{ id: string }>(
      ...["projects", "create", "main", "--org", organization.id],
    );
    const { key } = await installation.json<{ key: string }>(
      ...["keys", "create", "--project", project.id, "--name", "main"],
    );
    await installation.output("credit", "grant", "--org", organization.id, "--paise", "1000000");
    const api = server.api(key);
    const endpoint = await api.call<{ id: string; secret: string }>("POST", "/v1/webhook_endpoints", { url });
    customers.push({
      key,
      projectId: project.id,
      endpointId: endpoint.body.id,
      secret: endpoint.body.secret,
      recordings: [
        { uploadId: await uploaded(api, sampleBytes("01-en")), language: "en" },
        { uploadId: await uploaded(api, sampleBytes("02-hi")), language: "hi" },
      ],
    });
  }
  return customers;
}

test(
  "mixed traffic: whenever the program is killed, the books hold, nothing accepted is lost, every end is told",
  async () => {
    const installation = await openInstallation();
    const failing = new Set<string>();
    // In long mode one event in ten is refused at first, and comes again after five seconds.
    const receiver = startReceiver(({ id }) => {
      const isRefused = IS_LONG && !failing.has(id) && Math.random() < 0.1;
      failing.add(id);
      return new Response(null, { status: isRefused ? 500 : 204 });
    });
    cleanups.push(receiver.stop);
    let server = await (await installation.serve()).ready();
    const customers = await openCustomers(installation, server, receiver.url);
    const traffic = createTraffic(customers);
    const texts = await traffic.undisturbedTexts(server);
    await server.kill();

    let rush: Promise<void> = Promise.resolve();
    await killAtRandom({
      rounds: ROUNDS,
      minMs: 0,
      maxMs: 1_500,
      start: async () => {
        await rush;
        await audited(installation);
        server = await installation.serve();
        rush = traffic.rush(server);
        return server.process;
      },
    });
    await rush;
    await audited(installation);

    server = await (await installation.serve()).ready();
    await traffic.settleUnanswered(server);
    const ended = await traffic.untilAllEnded(server);
    const told = () => new Set(receiver.received.map(({ body }) => JSON.parse(body).data.id as string));
    await until("every end is told", () => ended.every(({ id }) => told().has(id)), 30_000);

    // Nothing is lost or done twice: one transcription for each key.
    for (const { endpointId, projectId } of customers) {
      const stored = await installation.json<{ id: string; entrance: string }[]>(
        ...["transcriptions", "list", "--project", projectId, "--limit", "1000"],
      );
      const asynchronous = stored.filter(({ entrance }) => entrance === "asynchronous").map(({ id }) => id);
      const known = ended.filter((one) => one.endpointId === endpointId).map(({ id }) => id);
      const undisturbed = traffic.undisturbedIds().filter((id) => asynchronous.includes(id));
      expect(undisturbed.length).toBe(2);
      expect(asynchronous.sort()).toEqual([...known, ...undisturbed].sort());
    }
    for (const { id, state, isCancelled, text, expected } of ended) {
      const allowed = isCancelled ? ["cancelled", "completed"] : ["completed"];
      expect({ id, isAllowed: allowed.includes(state), state }).toEqual({ id, isAllowed: true, state });
      if (state === "completed") expect(text).toBe(texts.get(expected) ?? "missing");
    }
    const charged = await traffic.chargedPaise(server);
    const books = await audited(installation);
    expect(books).toMatchObject({ open_reservations: 0, reserved_paise: 0, charged_paise: charged });

    let duplicates = 0;
    for (const { endpointId, secret } of customers) {
      const finished = ended.filter((one) => one.endpointId === endpointId);
      const ids = new Set(finished.map(({ id }) => id));
      const received = receiver.received.filter(({ body }) => ids.has(JSON.parse(body).data.id));
      const { duplicates: extra, ...faults } = auditDeliveries(finished, received, secret);
      expect(faults).toEqual({ missing: [], untrue: [], inconsistent: [], forged: [] });
      duplicates += extra;
    }
    expect(receiver.received.length - duplicates).toBe(ended.length);
    expect(await server.stop()).toBe(0);
    const counts = { rounds: ROUNDS, ended: ended.length, deliveries: receiver.received.length, duplicates };
    console.log(`mixed traffic under SIGKILL: ${JSON.stringify(counts)}`);
  },
  60_000 + ROUNDS * 20_000,
);

test(
  "one long recording, killed again and again, gives exactly the transcript of an undisturbed run",
  async () => {
    const kills = Math.min(ROUNDS, 50);
    const minutes = Math.ceil(kills * 0.6);
    // Sums of floating-point numbers depend on how many threads share them: a confidence may differ in its third
    // decimal between a chunk that had the machine to itself and one that had not.
    const installation = await openInstallation({ SHRUTI_ENGINE_THREADS_PER_WORKER: "1" });
    let server = await (await installation.serve()).ready();
    const uploadId = await uploaded(server.api(), concatenated(["12-en-long"], minutes));
    const start = async () =>
      (await server.api().start({ audio: { upload_id: uploadId }, language: "en" })).body.id;
    const undisturbed = await start();
    await reached(server.api(), undisturbed, ["completed"], 600_000);

    const disturbed = await start();
    let hits = 0;
    await until("the work has begun", async () => ((await server.api().get(disturbed)).progress ?? 0) > 0);
    for (let kill = 0; kill < kills; kill++) {
      await Bun.sleep(Math.random() * 800);
      const { state } = await server.api().get(disturbed);
      await server.kill();
      if (state !== "completed") hits++;
      await audited(installation);
      server = await installation.serve();
    }
    await server.ready();
    await reached(server.api(), disturbed, ["completed"], 600_000);
    const { id: _, ...expected } = await server.api().result(undisturbed);
    const { id: __, ...actual } = await server.api().result(disturbed);
    expect(actual).toEqual(expected);
    expect(expected.segments.length).toBeGreaterThan((minutes * saidIn("12-en-long").length * 2) / 3);
    expect(hits).toBe(kills);
    const usage = await server.api().usage();
    expect(usage.data.map(({ transcription_id }) => transcription_id).sort()).toEqual([
      undisturbed,
      disturbed,
    ]);
    expect(await audited(installation)).toMatchObject({ open_reservations: 0 });
    expect(await server.stop()).toBe(0);
    console.log(
      `one recording of ${minutes} min, killed ${hits} times: ${actual.segments.length} equal segments`,
    );
  },
  120_000 + ROUNDS * 30_000,
);
