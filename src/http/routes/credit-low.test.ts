import { afterEach, beforeEach, expect, test } from "bun:test";
import type { Scope } from "../../domain/api-key.ts";
import { apiClient } from "../../testing/answers/api-client.ts";
import { expectRefusal } from "../../testing/answers/scenarios.ts";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";
import { until } from "../../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";
import { BENCH_WEBHOOKS, isAuthentic, type Receiver, startReceiver } from "../../testing/kits/webhook-kit.ts";
import { countDeliveries } from "../../webhooks/delivery-rows.ts";
import type { WebhookEndpoint, WebhookEndpointList } from "../wire/schemas.ts";

/** The event `credit.low` (docs/decisions/webhooks.md), as its receivers see it. */

const PATH = "/v1/webhook_endpoints";
const SUBSCRIBED = { events: ["credit.low"] };
/** Paise for one transcription of two seconds. */
const PRICE = 20;

let t: TestApp;
let receiver: Receiver;
beforeEach(async () => {
  const billing = { price_paise_per_audio_hour: 36_000, low_credit_paise: 50 };
  t = await openTestApp({ creditPaise: 100, config: { billing, webhooks: BENCH_WEBHOOKS } });
  receiver = startReceiver();
});
afterEach(async () => {
  await t.close();
  await receiver.stop();
});

/** Registers an endpoint whose address ends with a name. */
async function register(name: string, more: object = {}, key = t.key) {
  const url = `${receiver.url}/${name}`;
  const { body } = await apiClient(t.as(key)).call<WebhookEndpoint>("POST", PATH, { url, ...more });
  return body;
}

/** Ends one transcription, which costs `PRICE`. */
async function work(more: { webhook_endpoint_id?: string } = {}): Promise<string> {
  const api = apiClient(t.as(t.key));
  const upload = await api.upload(scriptedAudio({ seconds: 2 }));
  const { body } = await api.start({ audio: { upload_id: upload.id }, language: "hi", ...more });
  expect((await api.finished(body.id)).state).toBe("completed");
  return body.id;
}

const balance = () => t.app.services.credit.show(t.organization.id).balancePaise;
const grant = (amountPaise: number) =>
  t.app.services.credit.grant({ organizationId: t.organization.id, amountPaise });
const received = (name: string) =>
  receiver.received.filter(({ url }) => url.endsWith(`/${name}`)).map(({ body }) => JSON.parse(body));
const rows = () =>
  t.app.database.sqlite
    .query<{ count: number }, []>("SELECT count(*) AS count FROM events WHERE type = 'credit.low'")
    .get()?.count;
/** Waits until nothing is to be delivered any more. */
const delivered = () => until("all events have arrived", () => countDeliveries(t.app.database).pending === 0);

test("the debit that crosses the threshold sends one event, to endpoints that were registered for it alone", async () => {
  const project = t.accounts.createProject({ organizationId: t.organization.id, name: "other" });
  const stranger = t.accounts.createOrganization({ name: "Second" });
  const strangers = t.accounts.createProject({ organizationId: stranger.id, name: "main" });
  const own = await register("own", SUBSCRIBED);
  await register("other-project", SUBSCRIBED, t.makeKey(project.id));
  await register("other-organization", SUBSCRIBED, t.makeKey(strangers.id));
  const bound = await register("bound");
  await register("none", { events: [] });
  const removed = await register("removed", SUBSCRIBED);
  t.app.services.webhooks.remove(removed.id);

  await work();
  await work();
  expect([balance(), rows()]).toEqual([100 - 2 * PRICE, 0]);
  const id = await work({ webhook_endpoint_id: bound.id });
  await delivered();
  const event = {
    type: "credit.low",
    data: {
      ...{ organization_id: t.organization.id, balance_paise: 40, threshold_paise: 50 },
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    },
  };
  expect(received("own")).toEqual([event]);
  expect(received("other-project")).toEqual([event]);
  // The endpoint of the transcription gets the contract's event, and nothing else.
  expect(received("bound")).toEqual([{ type: "transcription.completed", data: { id, state: "completed" } }]);
  for (const name of ["other-organization", "none", "removed"]) expect(received(name)).toEqual([]);
  const [first] = receiver.received.filter(({ url }) => url.endsWith("/own"));
  expect(first && isAuthentic(first, own.secret)).toBe(true);
  expect(new Set(receiver.received.map(({ id: event }) => event)).size).toBe(3);

  // Further debits below the threshold send nothing.
  await work();
  await delivered();
  expect([balance(), rows()]).toEqual([20, 2]);
});

test("it is sent again only after the balance was at the threshold or above it", async () => {
  await register("own", SUBSCRIBED);
  const seen = () =>
    t.app.database.sqlite
      .query<{ body: string }, []>("SELECT body FROM events ORDER BY id")
      .all()
      .map(({ body }) => JSON.parse(body).data)
      .map((data) => [data.balance_paise, data.threshold_paise]);
  for (let n = 0; n < 3; n++) await work();
  expect(seen()).toEqual([[40, 50]]);
  // A grant that does not lift the balance to the threshold changes nothing.
  grant(9);
  await work();
  expect(seen()).toHaveLength(1);
  grant(50 - balance());
  await work();
  expect(seen()).toEqual([
    [40, 50],
    [30, 50],
  ]);
  // A grant that is taken back is a debit as well.
  grant(100);
  grant(-100);
  expect(seen()).toHaveLength(3);
  // With a lower threshold the balance is not low any more, and falls below it again.
  t.accounts.setOrganization(t.organization.id, { lowCreditPaise: 20 });
  await work();
  expect(seen().at(-1)).toEqual([10, 20]);
  expect(seen()).toHaveLength(4);
  grant(1000);
  t.accounts.setOrganization(t.organization.id, { lowCreditPaise: 0 });
  await work();
  expect(seen()).toHaveLength(4);
});

test("the event is in the transaction of the debit: both are there, or neither", async () => {
  await register("own", SUBSCRIBED);
  await work();
  await work();
  t.app.database.sqlite.run(
    "CREATE TRIGGER no_usage BEFORE INSERT ON deliveries BEGIN SELECT RAISE(ABORT, 'no space'); END",
  );
  expect(() => grant(-20)).toThrow("no space");
  expect([balance(), rows()]).toEqual([60, 0]);
  t.app.database.sqlite.run("DROP TRIGGER no_usage");
  grant(-20);
  expect([balance(), rows()]).toEqual([40, 1]);
});

test("a registration without events is the contract's, and endpoints say what they receive", async () => {
  const plain = await register("plain");
  expect(Object.keys(plain).sort()).toEqual(["id", "object", "secret", "url"]);
  const subscribed = await register("own", SUBSCRIBED);
  expect(subscribed.events).toEqual(["credit.low"]);
  const { data } = (await (await t.as(t.key)(PATH)).json()) as WebhookEndpointList;
  expect(data.map(({ id, events }) => [id, events])).toEqual([
    [subscribed.id, ["credit.low"]],
    [plain.id, []],
  ]);
  const entry = t.app.database.sqlite
    .query<{ after: string }, [string]>("SELECT after FROM audit_log WHERE object = ?")
    .get(subscribed.id);
  expect(JSON.parse(entry?.after ?? "")).toMatchObject({ events: "credit.low" });
});

const WRONG: [unknown, string][] = [
  ["credit.low", "events"],
  [null, "events"],
  [{ "credit.low": true }, "events"],
  [["transcription.completed"], "events.0"],
  [["all"], "events.0"],
  [["*"], "events.0"],
  [[1], "events.0"],
  [["credit.low", "credit.low"], "events"],
  [["credit.low", "other"], "events"],
];
test.each(WRONG)("events %j are refused, and nothing is stored", async (events, field) => {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ url: receiver.url, events });
  const response = await t.as(t.key)(PATH, { method: "POST", headers, body });
  await expectRefusal(response, { code: "invalid_request", detail: field });
  expect(t.app.services.webhooks.list()).toEqual([]);
});

test("a key that may not read the credit cannot have it sent", async () => {
  const scopes: Scope[] = ["webhooks:write", "transcriptions:write"];
  const send = t.as(t.makeKey(t.project.id, scopes));
  const post = (body: object) =>
    send(PATH, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  await expectRefusal(await post({ url: receiver.url, ...SUBSCRIBED }), {
    ...{ code: "forbidden", detail: "usage:read" },
  });
  expect(t.app.services.webhooks.list()).toEqual([]);
  expect((await post({ url: receiver.url, events: [] })).status).toBe(201);
});
