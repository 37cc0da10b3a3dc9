import { afterEach, expect, test } from "bun:test";
import { auditDeliveries, killAtRandom } from "../testing/kits/webhook-crash.ts";
import { startReceiver } from "../testing/kits/webhook-kit.ts";
import { type Installation, install, type RunningServer, reached, until, uploaded } from "./kit.ts";
import { concatenated, sampleBytes, utterancesIn } from "./samples.ts";
import { type Customer, createTraffic } from "./traffic.ts";

/**
 * The executable under SIGKILL at random moments. The long modes, by environment variables:
 *
 * - `SHRUTI_CRASH_ROUNDS=1000`: kills over mixed traffic, shared out over `SHRUTI_CRASH_INSTALLATIONS` at once, with
 *   `SHRUTI_CRASH_STARTS` starts of each customer in a round, which lasts up to `SHRUTI_CRASH_ROUND_MS`, and an audit
 *   of the ledger after every `SHRUTI_CRASH_AUDIT_EVERY`th kill
 * - `SHRUTI_CRASH_KILLS=50` and `SHRUTI_CRASH_MINUTES=60`: kills of one recording, and its length
 */

const setting = (name: string, otherwise: number) => Number(process.env[`SHRUTI_CRASH_${name}`] ?? otherwise);
const ROUNDS = setting("ROUNDS", 5);
const INSTALLATIONS = setting("INSTALLATIONS", 1);
const STARTS = setting("STARTS", 6);
const ROUND_MS = setting("ROUND_MS", 1_500);
const AUDIT_EVERY = setting("AUDIT_EVERY", 1);
const KILLS = setting("KILLS", Math.min(ROUNDS, 50));
const MINUTES = setting("MINUTES", KILLS * 3);
const IS_LONG = ROUNDS > 20;
const CUSTOMERS = 3;
/** `shruti transcriptions list` shows at most this many. */
const MOST_LISTED = 1000;

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
      SHRUTI_LIMITS_UNPAID_ACTS_PER_SECOND: "0",
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
      endpoints: [{ id: endpoint.body.id, secret: endpoint.body.secret }],
      receiverUrl: url,
      recordings: [
        { uploadId: await uploaded(api, sampleBytes("01-en")), language: "en", sample: "01-en" },
        { uploadId: await uploaded(api, sampleBytes("02-hi")), language: "hi", sample: "02-hi" },
      ],
    });
  }
  return customers;
}

/** Kills one installation this many times under traffic. Compares what clients, receivers and the database have at the end. */
async function killUnderTraffic(rounds: number): Promise<Record<string, number>> {
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
  const traffic = createTraffic(customers, { startsPerRush: STARTS, dataDir: installation.dataDir });
  const texts = await traffic.undisturbedTexts(server);
  await server.kill();

  let rush: Promise<void> = Promise.resolve();
  let round = 0;
  await killAtRandom({
    rounds,
    minMs: 0,
    maxMs: ROUND_MS,
    start: async () => {
      await rush;
      if (round++ % AUDIT_EVERY === 0) await audited(installation);
      server = await installation.serve();
      rush = traffic.rush(server);
      return server.process;
    },
  });
  await rush;
  await audited(installation);

  server = await (await installation.serve()).ready();
  const lost = await traffic.settleUnanswered(server);
  const ended = await traffic.untilAllEnded(server, 300_000 + rounds * 10_000);
  const notified = () => new Set(receiver.received.map(({ body }) => JSON.parse(body).data.id as string));
  await until("every end is delivered", () => ended.every(({ id }) => notified().has(id)), 120_000);

  // Nothing is lost or done twice: one transcription for each key.
  const twice: string[] = [];
  for (const customer of customers) {
    const stored = await installation.json<{ id: string; entrance: string }[]>(
      ...["transcriptions", "list", "--project", customer.projectId, "--limit", String(MOST_LISTED)],
    );
    expect(stored.length).toBeLessThan(MOST_LISTED);
    const asynchronous = stored.filter(({ entrance }) => entrance === "asynchronous").map(({ id }) => id);
    const known = ended.filter((one) => one.customer === customer).map(({ id }) => id);
    const undisturbed = traffic.undisturbedIds().filter((id) => asynchronous.includes(id));
    expect(undisturbed.length).toBe(2);
    lost.push(...known.filter((id) => !asynchronous.includes(id)));
    twice.push(...asynchronous.filter((id) => !known.includes(id) && !undisturbed.includes(id)));
    // At most one for each key: what was refused before it was accepted has none.
    const synchronous = stored.length - asynchronous.length;
    expect(synchronous).toBeLessThanOrEqual(traffic.synchronousOf(customer).length);
  }
  for (const { id, state, isCancelled, isDeleted, text, expected } of ended) {
    const allowed = isCancelled ? ["cancelled", "completed"] : ["completed"];
    expect({ id, isAllowed: allowed.includes(state), state }).toEqual({ id, isAllowed: true, state });
    if (state === "completed" && !isDeleted) expect(text).toBe(texts.get(expected) ?? "missing");
  }
  const charged = await traffic.charged(server);
  twice.push(...charged.twice);
  await until(
    "synchronous work has ended",
    async () => (await audited(installation)).open_reservations === 0,
  );
  const books = await audited(installation);
  expect(lost).toEqual([]);
  expect(twice).toEqual([]);
  expect(books).toMatchObject({ open_reservations: 0, reserved_paise: 0, charged_paise: charged.paise });

  let duplicates = 0;
  for (const { id: endpointId, secret } of customers.flatMap(({ endpoints }) => endpoints)) {
    const finished = ended.filter((one) => one.endpointId === endpointId);
    const ids = new Set(finished.map(({ id }) => id));
    const received = receiver.received.filter(({ body }) => ids.has(JSON.parse(body).data.id));
    const { duplicates: extra, ...faults } = auditDeliveries(finished, received, secret);
    expect(faults).toEqual({ missing: [], untrue: [], inconsistent: [], forged: [] });
    duplicates += extra;
  }
  expect(receiver.received.length - duplicates).toBe(ended.length);
  expect(await server.stop()).toBe(0);
  const count = (isSo: (one: (typeof ended)[number]) => boolean) => ended.filter(isSo).length;
  return {
    rounds,
    ...traffic.counts(),
    completed: count(({ state }) => state === "completed"),
    cancelled: count(({ state }) => state === "cancelled"),
    deleted: count(({ isDeleted }) => isDeleted),
    endpoints: customers.flatMap(({ endpoints }) => endpoints).length,
    deliveries: receiver.received.length,
    duplicates,
    lost: lost.length,
    "charged twice": twice.length,
    "stuck reservations": books.open_reservations,
  };
}

test(
  "mixed traffic: after kills at any moment the ledger is sound, all accepted work is there, and every final state is delivered",
  async () => {
    const shares = Array.from({ length: INSTALLATIONS }, (_, index) =>
      Math.floor((ROUNDS + index) / INSTALLATIONS),
    );
    const counts = await Promise.all(shares.map(killUnderTraffic));
    for (const one of counts) console.log(`mixed traffic under SIGKILL: ${JSON.stringify(one)}`);
  },
  180_000 + ROUNDS * 20_000,
);

test(
  "one long recording, killed again and again, gives exactly the transcript of an undisturbed run",
  async () => {
    // Without disturbance, recognizing an hour of speech takes minutes.
    const timeoutMs = 600_000 + MINUTES * 30_000;
    // Sums of floating-point numbers depend on how many threads share them: a confidence may differ in its third
    // decimal between a chunk that had the machine to itself and one that had not.
    const installation = await openInstallation({ SHRUTI_ENGINE_THREADS_PER_WORKER: "1" });
    let server = await (await installation.serve()).ready();
    const uploadId = await uploaded(server.api(), concatenated(["12-en-long"], MINUTES));
    const start = async () =>
      (await server.api().start({ audio: { upload_id: uploadId }, language: "en" })).body.id;
    const undisturbed = await start();
    await reached(server.api(), undisturbed, ["completed"], timeoutMs);

    const disturbed = await start();
    let hits = 0;
    await until("the work has begun", async () => ((await server.api().get(disturbed)).progress ?? 0) > 0);
    for (let kill = 0; kill < KILLS; kill++) {
      await Bun.sleep(Math.random() * 800);
      const { state } = await server.api().get(disturbed);
      await server.kill();
      if (state !== "completed") hits++;
      await audited(installation);
      server = await installation.serve();
    }
    await server.ready();
    await reached(server.api(), disturbed, ["completed"], timeoutMs);
    const { id: _, ...expected } = await server.api().result(undisturbed);
    const { id: __, ...actual } = await server.api().result(disturbed);
    expect(actual).toEqual(expected);
    expect(expected.segments.length).toBeGreaterThan((MINUTES * utterancesIn("12-en-long").length * 2) / 3);
    expect(hits).toBe(KILLS);
    const usage = await server.api().usage();
    expect(usage.data.map(({ transcription_id }) => transcription_id).sort()).toEqual([
      undisturbed,
      disturbed,
    ]);
    expect(await audited(installation)).toMatchObject({ open_reservations: 0 });
    expect(await server.stop()).toBe(0);
    console.log(
      `one recording of ${MINUTES} min, killed ${hits} times: ${actual.segments.length} equal segments`,
    );
  },
  120_000 + KILLS * 30_000 + MINUTES * 60_000,
);
