import { Database as SqliteDatabase } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { isAuthentic, type Receiver, startReceiver } from "../testing/kits/webhook-kit.ts";
import { type Installation, install, type RunningServer, reached, until, uploaded } from "./kit.ts";
import { sampleBytes } from "./samples.ts";

/** The event `credit.low` of the compiled executable, with `kill -9` between the debit and its delivery. */

let installation: Installation;
let receiver: Receiver;
let server: RunningServer;
/** While it is true, the receiver does not answer. */
let isSilent = true;
beforeAll(async () => {
  receiver = startReceiver(async (_, request) => {
    if (!isSilent) return new Response(null, { status: 204 });
    await new Promise((resolve) => request.signal.addEventListener("abort", resolve));
    return new Response(null, { status: 500 });
  });
  installation = await install({
    creditPaise: 1_000,
    environment: {
      ...{ SHRUTI_WEBHOOKS_ALLOW_HTTP: "true", SHRUTI_WEBHOOKS_ALLOWED_NETWORKS: "127.0.0.0/8" },
      ...{ SHRUTI_BILLING_PRICE_PAISE_PER_AUDIO_HOUR: "360000", SHRUTI_BILLING_LOW_CREDIT_PAISE: "1000" },
    },
  });
  server = await (await installation.serve()).ready();
}, 120_000);
afterAll(async () => {
  await server?.kill();
  await installation?.remove();
  await receiver?.stop();
});

type Delivery = { event_id: string; type: string; transcription_id: string | null; state: string };

test("kill -9 between debit and delivery: the event arrives after the next start, once stored, under one id", async () => {
  const endpoint = await server.api().call<{ id: string; secret: string }>("POST", "/v1/webhook_endpoints", {
    ...{ url: receiver.url, events: ["credit.low"] },
  });
  const upload_id = await uploaded(server.api(), sampleBytes("01-en"));
  const { id } = (await server.api().start({ audio: { upload_id }, language: "en" })).body;
  // The attempt is in flight, so the debit is on the disk and no outcome of a delivery is.
  await until("the first attempt has arrived", () => receiver.received.length > 0);
  await server.kill();
  const database = new SqliteDatabase(join(installation.dataDir, "shruti.db"), { readonly: true });
  const stored = database.query("SELECT state, attempts FROM deliveries").all();
  database.close();
  expect(stored).toEqual([{ state: "pending", attempts: 0 }]);

  isSilent = false;
  server = await (await installation.serve()).ready();
  const deliveries = () => installation.json<Delivery[]>("webhooks", "deliveries", endpoint.body.id);
  await until("it is delivered", async () => (await deliveries())[0]?.state === "delivered");
  const [delivery, ...others] = await deliveries();
  expect(others).toEqual([]);
  expect(delivery).toMatchObject({ type: "credit.low", transcription_id: null });
  const { received } = receiver;
  expect(new Set(received.map((one) => `${one.id} ${one.body}`)).size).toBe(1);
  expect(received[0]?.id).toBe(delivery?.event_id ?? "");
  for (const one of received) expect(isAuthentic(one, endpoint.body.secret)).toBe(true);
  const transcription = await reached(server.api(), id);
  expect(transcription.state).toBe("completed");
  const { credit } = await server.api().usage();
  expect(credit.balance_paise).toBeLessThan(1_000);
  expect(JSON.parse(received[0]?.body ?? "")).toMatchObject({
    type: "credit.low",
    data: { organization_id: installation.organizationId, ...{ balance_paise: credit.balance_paise } },
  });
  await installation.output("credit", "audit");

  const listing = await installation.output("webhooks", "deliveries");
  expect(listing).toContain("credit.low");
  expect(await installation.output("webhooks", "deliveries", "--event", delivery?.event_id ?? "")).toContain(
    '"type":"credit.low"',
  );
  expect(await installation.output("webhooks", "list")).toContain("credit.low");
  // It is sent again like any other, with the same id.
  const before = received.length;
  await installation.output("webhooks", "redeliver", delivery?.event_id ?? "");
  await until("it has come again", () => received.length > before);
  expect(received.at(-1)?.id).toBe(delivery?.event_id ?? "");
}, 120_000);
