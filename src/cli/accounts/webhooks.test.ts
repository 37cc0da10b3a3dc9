import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { databasePath, transaction } from "../../store/database.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";
import { isAuthentic, openWebhookKit, type Receiver, startReceiver } from "../../testing/kits/webhook-kit.ts";
import { insertCreditLowEvents, updateEndpoint } from "../../webhooks/event-rows.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-cli-webhooks-"));
const environment = { SHRUTI_CONFIG: join(folder, "shruti.toml") };
let kit: ReturnType<typeof openWebhookKit>;
let receiver: Receiver;
let answer = 204;

beforeAll(() => {
  const dataDir = join(folder, "data");
  mkdirSync(dataDir);
  writeFileSync(
    environment.SHRUTI_CONFIG,
    `[storage]\ndata_dir = ${JSON.stringify(dataDir)}\n[webhooks]\nallow_http = true\nallowed_networks = ["127.0.0.0/8"]\n`,
  );
  kit = openWebhookKit({}, databasePath(dataDir));
  receiver = startReceiver(() => new Response(null, { status: answer }));
});
afterAll(async () => {
  kit.close();
  await receiver.stop();
  rmSync(folder, { recursive: true });
});

const run = (...argv: string[]) => runCaptured(["webhooks", ...argv], environment, kit.clock);

async function json<T = Record<string, unknown>>(...argv: string[]): Promise<T> {
  const { status, out, err } = await run(...argv, "--json");
  expect({ status, err }).toEqual({ status: 0, err: "" });
  return JSON.parse(out) as T;
}

const addEndpoint = () => kit.service.register(kit.caller, { url: receiver.url });
const disable = (id: string) =>
  updateEndpoint(kit.database.store, id, { disabledAt: kit.clock.now(), disabledReason: "it said so" });

describe("shruti webhooks", () => {
  test("list shows state and counts, and never a secret", async () => {
    const { id, secret } = addEndpoint();
    kit.finish(id, 2);
    disable(id);
    const [listed] = await json<Record<string, unknown>[]>("list", "--project", kit.caller.projectId);
    expect(listed).toMatchObject({
      id,
      state: "disabled",
      disabled_reason: "it said so",
      pending: 2,
      failed: 0,
    });
    const { out } = await run("list");
    expect(out).toContain("disabled: it said so");
    expect(out + JSON.stringify(listed)).not.toContain(secret);
    expect((await run("list", "--project", "prj_none")).status).toBe(4);
  });

  test("deliveries shows the reasons of failures, and one delivery with every attempt", async () => {
    const { id } = addEndpoint();
    const [event] = kit.finish(id, 2) as [string, string];
    kit.database.sqlite.run(
      "UPDATE deliveries SET state = 'failed', attempts = 1, next_attempt_at = NULL WHERE event_id = ?",
      [event],
    );
    kit.database.sqlite.run(
      "INSERT INTO delivery_attempts (event_id, started_at, duration_ms, status, error) VALUES (?, 5, 7, 503, 'the receiver answered 503')",
      [event],
    );
    const [failed, ...others] = await json<Record<string, unknown>[]>("deliveries", id, "--state", "failed");
    expect(others).toEqual([]);
    expect(failed).toMatchObject({
      event_id: event,
      endpoint_id: id,
      reason: "the receiver answered 503",
      attempts: 1,
    });
    expect(await json<unknown[]>("deliveries", id)).toHaveLength(2);
    expect(await json<unknown[]>("deliveries", id, "--limit", "1")).toHaveLength(1);
    expect(await json("deliveries", "--event", event)).toMatchObject({
      event_id: event,
      body: expect.stringContaining("transcription.completed"),
      history: [{ started_at: "1970-01-01T00:00:00.005Z", duration_ms: 7, status: 503 }],
    });
    expect((await run("deliveries", "--event", event)).out).toContain("the receiver answered 503");
    expect((await run("deliveries")).out).toContain(event);
    expect((await run("deliveries", "whe_none")).status).toBe(4);
    expect((await run("deliveries", "--after", event)).status).toBe(0);
    expect((await run("deliveries", "--after", "none")).status).toBe(2);
    expect((await run("deliveries", "--event", "evt_none")).status).toBe(4);
    expect((await run("deliveries", "--state", "lost")).status).toBe(2);
  });

  test("an endpoint that was registered for credit.low, and its event, which has no transcription", async () => {
    const { id } = kit.service.register(kit.caller, { url: receiver.url, events: ["credit.low"] });
    const low = { organizationId: kit.caller.organizationId, balancePaise: 3, thresholdPaise: 5 };
    transaction(kit.database.store, (tx) => insertCreditLowEvents(tx, low, kit.clock.now()));
    const listed = await json<{ id: string; events: string[] }[]>("list");
    expect(listed.find((one) => one.id === id)?.events).toEqual(["credit.low"]);
    expect((await run("list")).out).toMatch(/ALSO .*\n.* credit\.low /);
    const [event, ...others] = await json<Record<string, unknown>[]>("deliveries", id);
    expect(others).toEqual([]);
    expect(event).toMatchObject({ type: "credit.low", transcription_id: null, state: "pending" });
    const { out } = await run("deliveries", "--event", String(event?.event_id));
    expect(out).toContain('"balance_paise":3');
    expect(await json("redeliver", String(event?.event_id))).toEqual({ redelivered: 1 });
    expect(await json("test", id, "--type", "credit.low")).toMatchObject({ is_delivered: true });
    expect(JSON.parse(receiver.received.at(-1)?.body ?? "")).toMatchObject({ type: "credit.low" });
  });

  test("redeliver restarts single events or all failed ones", async () => {
    const { id } = addEndpoint();
    const events = kit.finish(id, 3);
    kit.database.sqlite.run(
      "UPDATE deliveries SET state = 'failed', next_attempt_at = NULL WHERE endpoint_id = ?",
      [id],
    );
    expect(await json("redeliver", events[0] ?? "")).toEqual({ redelivered: 1 });
    expect(await json("redeliver", "--failed", id)).toEqual({ redelivered: 2 });
    expect(kit.service.deliveries({ endpointId: id, state: "pending" })).toHaveLength(3);
    expect((await run("redeliver")).status).toBe(2);
    expect((await run("redeliver", "evt_none")).status).toBe(4);
    disable(id);
    expect(await run("redeliver", events[0] ?? "")).toMatchObject({
      status: 5,
      err: expect.stringContaining("enable"),
    });
  });

  test("enable and remove", async () => {
    const { id } = addEndpoint();
    disable(id);
    expect(await json("enable", id)).toMatchObject({ state: "enabled" });
    expect((await run("enable", id)).status).toBe(0);
    expect(await json("remove", id)).toMatchObject({ state: "removed" });
    for (const verb of ["enable", "remove", "rotate", "test"]) expect((await run(verb, id)).status).toBe(4);
  });

  test("rotate prints the new secret alone on standard output", async () => {
    const { id, secret } = addEndpoint();
    const { out, status } = await run("rotate", id);
    expect(status).toBe(0);
    expect(out).toMatch(/^whsec_\S{44}\n$/);
    expect(out).not.toContain(secret);
    const rotated = await json<{ previous_secret_expires_at: string }>("rotate", id, "--keep-previous", "7d");
    expect(Date.parse(rotated.previous_secret_expires_at) - kit.clock.now()).toBe(7 * 86_400_000);
    expect((await run("rotate", id, "--keep-previous", "7d", "--at-once")).status).toBe(2);
    expect((await run("rotate", id, "--at-once")).status).toBe(0);
  });

  test("test sends one signed event and reports the outcome", async () => {
    const { id, secret } = addEndpoint();
    expect(await json("test", id, "--type", "transcription.failed")).toMatchObject({
      is_delivered: true,
      status: 204,
    });
    const received = receiver.received.at(-1);
    expect(received && isAuthentic(received, secret)).toBe(true);
    expect(JSON.parse(received?.body ?? "")).toMatchObject({ type: "transcription.failed" });
    expect((await run("test", id)).out).toContain("127.0.0.1 answered 204");
    answer = 500;
    expect(await run("test", id)).toMatchObject({
      status: 1,
      out: "",
      err: "error: not delivered: the receiver answered 500\n",
    });
    answer = 410;
    const gone = await run("test", id);
    expect(gone.err).toContain(
      "answered 410: it wants no more events; a test changes nothing, but the next event",
    );
    expect((await json<{ id: string; state: string }[]>("list")).find((one) => one.id === id)?.state).toBe(
      "enabled",
    );
    answer = 204;
    expect((await run("test", id, "--type", "x")).status).toBe(2);
  });
});
