import { afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "../config/schema.ts";
import { RETRY_DELAYS_SECONDS } from "../domain/webhook.ts";
import { silentLog } from "../lib/log.ts";
import { openDatabase } from "../store/database.ts";
import {
  type Answer,
  isAuthentic,
  openWebhookKit,
  startRawReceiver,
  startReceiver,
} from "../testing/kits/webhook-kit.ts";
import { createDeliverer, type DelivererDeps } from "./deliver.ts";

const HOUR_MS = 3_600_000;
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function receiver(answer?: Answer) {
  const started = startReceiver(answer);
  cleanups.push(started.stop);
  return started;
}

async function deadReceiver() {
  let connections = 0;
  const started = await startRawReceiver(() => connections++);
  cleanups.push(started.stop);
  return { ...started, connections: () => connections };
}

/** Starts a receiver in another process, so that its work does not delay this event loop. */
async function countingReceiver() {
  const script = `
    const ids = new Set(); const busy = new Map(); let posts = 0, now = 0, most = 0, mostOfOne = 0;
    const add = (path, by) => { now += by; busy.set(path, (busy.get(path) ?? 0) + by); return busy.get(path); };
    const server = Bun.serve({ hostname: "127.0.0.1", port: 0, async fetch(request) {
      if (request.method === "GET") return Response.json({ posts, distinct: ids.size, most, mostOfOne });
      const { pathname } = new URL(request.url);
      mostOfOne = Math.max(mostOfOne, add(pathname, 1)); most = Math.max(most, now);
      posts++; ids.add(request.headers.get("webhook-id")); await request.text(); await Bun.sleep(1);
      add(pathname, -1);
      return new Response(null, { status: 204 });
    } });
    console.log(server.port);`;
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
  cleanups.push(async () => {
    child.kill();
    await child.exited;
  });
  const { value } = await child.stdout.getReader().read();
  const url = `http://127.0.0.1:${Number(new TextDecoder().decode(value))}`;
  type Counts = { posts: number; distinct: number; most: number; mostOfOne: number };
  return { url, counts: async () => (await (await fetch(url)).json()) as Counts };
}

/** Opens a kit with a running deliverer. Both are closed at the end of the test. */
function open(webhooks: Partial<Config["webhooks"]> = {}, deps: Partial<DelivererDeps> = {}) {
  const kit = openWebhookKit(webhooks);
  const { database, clock, config } = kit;
  const deliverer = createDeliverer({ database, clock, config, log: silentLog, random: () => 0.5, ...deps });
  cleanups.push(kit.close, () => deliverer.stop(0));
  deliverer.start();
  const addEndpoint = (url: string) => kit.service.register(kit.caller, { url });
  return {
    ...kit,
    deliverer,
    addEndpoint,
    /** Advances the clock, and waits until all events that are due then have been tried. */
    async pass(milliseconds: number) {
      clock.advance(milliseconds);
      deliverer.wake();
      await deliverer.settled();
    },
    stateOf: (eventId: string) => kit.service.delivery(eventId),
  };
}

/** Returns the processor time of this process so far, milliseconds. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

async function until(isTrue: () => boolean, limitMs = 30_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!isTrue()) {
    if (performance.now() > end) throw new Error("it did not happen in time");
    await Bun.sleep(2);
  }
}

describe("one event", () => {
  test("arrives signed, is recorded, and is not sent again", async () => {
    const bench = open();
    const { url, received } = receiver();
    const { id, secret } = bench.addEndpoint(url);
    const [eventId] = bench.finish(id, 1, {
      state: "failed",
      error: { code: "audio_decode_failed", message: "no" },
    });
    await bench.pass(0);
    await bench.pass(100 * HOUR_MS);
    expect(received).toHaveLength(1);
    expect(received[0]).toMatchObject({ id: eventId });
    expect(received[0] && isAuthentic(received[0], secret)).toBe(true);
    expect(bench.stateOf(eventId ?? "")).toMatchObject({
      state: "delivered",
      attempts: 1,
      nextAttemptAt: null,
      reason: null,
      history: [{ status: 204, error: null }],
    });
    expect(bench.deliverer.metrics()).toMatchObject({ attemptsSucceeded: 1, pending: 0, inFlight: 0 });
  });

  test("fails once, then arrives under the same id, with the later time and both secrets of a rotation", async () => {
    const bench = open();
    let calls = 0;
    const { url, received } = receiver(() => new Response(null, { status: calls++ === 0 ? 500 : 200 }));
    const { id, secret } = bench.addEndpoint(url);
    const [eventId] = bench.finish(id);
    await bench.pass(0);
    const rotated = bench.service.rotate(id);
    await bench.pass(4999);
    expect(received).toHaveLength(1);
    expect(bench.deliverer.metrics()).toMatchObject({
      attemptsFailed: 1,
      pending: 1,
      oldestUndeliveredSeconds: 4.999,
    });
    await bench.pass(1);
    expect(received.map((one) => one.id)).toEqual([eventId, eventId] as string[]);
    const [first, second] = received;
    expect((second?.timestamp ?? 0) - (first?.timestamp ?? 0)).toBe(5);
    expect(first?.body).toBe(second?.body as string);
    expect(second?.signature.split(" ")).toHaveLength(2);
    for (const valid of [secret, rotated.secret]) expect(second && isAuthentic(second, valid)).toBe(true);
    expect(bench.stateOf(eventId ?? "")).toMatchObject({ state: "delivered", attempts: 2 });
  });

  test.each([
    [0, 0.9],
    [0.5, 1],
    [0.999999, 1.1],
  ])("is tried ten times over about 75 hours, then has failed (random %p)", async (random, factor) => {
    const bench = open({}, { random: () => random });
    const { url, received } = receiver(() => new Response(null, { status: 503 }));
    const [eventId] = bench.finish(bench.addEndpoint(url).id);
    const started = bench.clock.now();
    await bench.pass(0);
    for (const [index, delaySeconds] of RETRY_DELAYS_SECONDS.entries()) {
      const { nextAttemptAt, state } = bench.stateOf(eventId ?? "");
      expect(state).toBe("pending");
      const waitMs = (nextAttemptAt ?? 0) - bench.clock.now();
      expect(waitMs / (delaySeconds * 1000)).toBeCloseTo(factor, 3);
      await bench.pass(waitMs - 1);
      expect(received).toHaveLength(index + 1);
      await bench.pass(1);
      expect(received).toHaveLength(index + 2);
    }
    expect((bench.clock.now() - started) / HOUR_MS / factor).toBeCloseTo(75.58, 1);
    expect(bench.stateOf(eventId ?? "")).toMatchObject({
      state: "failed",
      attempts: 10,
      nextAttemptAt: null,
    });
    expect(bench.stateOf(eventId ?? "").reason).toBe("the receiver answered 503");
    await bench.pass(100 * HOUR_MS);
    expect(new Set(received.map((one) => one.id))).toEqual(new Set([eventId ?? ""]));
    expect(received).toHaveLength(10);
    expect(bench.deliverer.metrics()).toMatchObject({ attemptsFailed: 10, deliveriesFailed: 1, pending: 0 });
  });

  test("waits longer when the receiver asks for it, never shorter", async () => {
    const bench = open();
    const asked = ["3600", "1", "Sat, 21 Nov 2099 00:00:00 GMT"];
    const { url, received } = receiver(() => {
      const wait = asked[received.length - 1];
      return new Response(null, { status: 429, headers: wait ? { "retry-after": wait } : {} });
    });
    const [eventId] = bench.finish(bench.addEndpoint(url).id);
    const waitMs = () => (bench.stateOf(eventId ?? "").nextAttemptAt ?? 0) - bench.clock.now();
    await bench.pass(0);
    expect(waitMs()).toBe(3_600_000);
    await bench.pass(3_600_000);
    expect(waitMs()).toBe(300_000);
    await bench.pass(300_000);
    expect(waitMs()).toBe(24 * HOUR_MS);
  });

  test("fails at 410, which disables the endpoint; the other waiting events are sent once it is enabled", async () => {
    const bench = open({ max_in_flight_per_endpoint: 1 });
    let isGone = true;
    const { url, received } = receiver(() => new Response(null, { status: isGone ? 410 : 200 }));
    const { id } = bench.addEndpoint(url);
    const [gone, ...waiting] = bench.finish(id, 5);
    await until(() => bench.service.list()[0]?.disabledAt !== null);
    await bench.pass(100 * HOUR_MS);
    const sent = received.length;
    expect(sent).toBeLessThanOrEqual(2);
    expect(bench.stateOf(gone ?? "")).toMatchObject({
      state: "failed",
      attempts: 1,
      history: [{ status: 410 }],
    });
    expect(bench.service.list()[0]?.disabledReason).toContain("410");
    expect(bench.deliverer.metrics()).toMatchObject({ paused: 5 - sent, pending: 0, endpointsDisabled: 1 });
    isGone = false;
    bench.service.enable(id);
    await bench.pass(0);
    expect(received.length).toBe(5);
    expect(waiting.filter((eventId) => bench.stateOf(eventId).state === "delivered")).toHaveLength(5 - sent);
  });

  test("gets all its attempts again when an admin sends it again during its last one", async () => {
    const bench = open();
    const { url, received } = receiver(() => {
      if (received.length === 1) bench.service.redeliver(eventId ?? "");
      return new Response(null, { status: received.length === 1 ? 500 : 204 });
    });
    const [eventId] = bench.finish(bench.addEndpoint(url).id);
    bench.database.sqlite.run("UPDATE deliveries SET attempts = ?", [RETRY_DELAYS_SECONDS.length]);
    await bench.pass(0);
    await until(() => bench.stateOf(eventId ?? "").state === "delivered");
    expect(bench.stateOf(eventId ?? "")).toMatchObject({
      ...{ attempts: 1, history: [{ status: 500 }, { status: 204 }] },
    });
  });

  test("is not aborted by the removal of its endpoint while it is in flight", async () => {
    const bench = open();
    const { url } = receiver(async () => {
      bench.service.remove(id);
      return new Response(null);
    });
    const { id } = bench.addEndpoint(url);
    const [eventId] = bench.finish(id);
    await bench.pass(0);
    expect(bench.stateOf(eventId ?? "")).toMatchObject({ state: "failed", history: [{ status: 200 }] });
  });
});

describe("fair and bounded", () => {
  test("10,000 due deliveries drain with few in flight and without holding the event loop", async () => {
    const bench = open({ timeout_seconds: 15 });
    const counting = await countingReceiver();
    for (let index = 0; index < 25; index++)
      bench.finish(bench.addEndpoint(`${counting.url}/${index}`).id, 400);
    // Processor time of this process is compared: other programs do not affect it, and a slow machine is slow
    // in both figures.
    const startedAt = cpuMs();
    let worstTurnMs = 0;
    let last = startedAt;
    const watch = setInterval(() => {
      worstTurnMs = Math.max(worstTurnMs, cpuMs() - last);
      last = cpuMs();
    }, 5);
    bench.deliverer.wake();
    await bench.deliverer.settled();
    clearInterval(watch);
    worstTurnMs = Math.max(worstTurnMs, cpuMs() - last);
    const allMs = cpuMs() - startedAt;
    if (process.env.SHOW_TIMES) console.log({ allMs, worstTurnMs });
    const { posts, distinct, most, mostOfOne } = await counting.counts();
    expect({ posts, distinct }).toEqual({ posts: 10_000, distinct: 10_000 });
    expect(most).toBeLessThanOrEqual(64);
    expect(mostOfOne).toBeLessThanOrEqual(4);
    // Measured 33 to 47 ms of 3 to 4 s, idle and under load.
    expect(worstTurnMs).toBeLessThan(allMs / 10);
    expect(bench.deliverer.metrics()).toMatchObject({ attemptsSucceeded: 10_000, pending: 0, inFlight: 0 });
  }, 300_000);

  test("hanging endpoints with long backlogs do not delay a working one", async () => {
    const bench = open({ timeout_seconds: 10, max_in_flight: 16 });
    const alive = receiver();
    const living = bench.addEndpoint(alive.url).id;
    bench.finish(living);
    await bench.pass(0);
    const dead = await deadReceiver();
    for (let index = 0; index < 40; index++) {
      const { id } = bench.addEndpoint(`${dead.url}/${index}`);
      bench.finish(id, 50);
      // They were tried before, as the database shows, although not by this process.
      bench.database.sqlite.run("UPDATE deliveries SET attempts = 1 WHERE endpoint_id = ?", [id]);
    }
    bench.deliverer.wake();
    await until(() => dead.connections() === 8);
    bench.finish(living, 200);
    bench.deliverer.wake();
    await until(() => alive.received.length === 201, 8000);
    expect(dead.connections()).toBe(8);
    await until(() => bench.deliverer.metrics().inFlight === 8);
  });

  test("an endpoint that hangs from the start gets one attempt at a time", async () => {
    const bench = open({ timeout_seconds: 10 });
    const dead = await deadReceiver();
    const alive = receiver();
    bench.finish(bench.addEndpoint(dead.url).id, 100);
    bench.finish(bench.addEndpoint(alive.url).id, 100);
    bench.deliverer.wake();
    await until(() => alive.received.length === 100, 8000);
    expect(dead.connections()).toBe(1);
  });

  test("new events are found while others wait for their time, without a call of `wake`", async () => {
    const realClock = { now: () => Date.now() };
    const bench = open({}, { clock: realClock });
    const offset = Date.now() - bench.clock.now();
    bench.clock.advance(offset);
    const { url, received } = receiver();
    const [eventId] = bench.finish(bench.addEndpoint(url).id);
    const soon = Date.now() + 150;
    bench.database.sqlite.run("UPDATE deliveries SET next_attempt_at = ?", [soon]);
    bench.deliverer.wake();
    await until(() => received.length === 1);
    expect(Date.now()).toBeGreaterThanOrEqual(soon);
    expect(received[0]?.id).toBe(eventId as string);
  });
});

describe("crash and stop", () => {
  test("what was sent but not recorded is sent again under the same id", async () => {
    const folder = mkdtempSync(join(tmpdir(), "shruti-deliver-"));
    cleanups.push(() => rmSync(folder, { recursive: true }));
    const path = join(folder, "shruti.db");
    const kit = openWebhookKit({}, path);
    const { clock, config } = kit;
    const { url, received } = receiver(() => {
      // The program ends here: the receiver has the event, and the outcome is never recorded.
      if (received.length === 1) kit.database.close();
      return new Response(null);
    });
    const { id, secret } = kit.service.register(kit.caller, { url });
    const [eventId] = kit.finish(id);
    const dying = createDeliverer({ database: kit.database, clock, config, log: silentLog });
    dying.start();
    await until(() => received.length === 1);
    await dying.stop();

    const database = openDatabase(path);
    cleanups.push(database.close);
    clock.advance(1000);
    const next = createDeliverer({ database, clock, config, log: silentLog });
    next.start();
    await next.settled();
    await next.stop();
    expect(received.map((one) => one.id)).toEqual([eventId, eventId] as string[]);
    expect(received.every((one) => isAuthentic(one, secret))).toBe(true);
    expect(next.metrics()).toMatchObject({ attemptsSucceeded: 1, pending: 0 });
  });

  test("outcomes that could not be written are written when the database takes them again, without another attempt", async () => {
    const bench = open();
    const { url, received } = receiver(() => {
      bench.database.sqlite.run(
        "CREATE TEMP TRIGGER refuse BEFORE UPDATE ON deliveries BEGIN SELECT RAISE(ABORT, 'disk full'); END",
      );
      return new Response(null);
    });
    const [eventId] = bench.finish(bench.addEndpoint(url).id);
    bench.deliverer.wake();
    await until(() => received.length === 1);
    await Bun.sleep(100);
    expect(bench.stateOf(eventId ?? "").state).toBe("pending");
    bench.database.sqlite.run("DROP TRIGGER refuse");
    await bench.deliverer.settled();
    expect(bench.stateOf(eventId ?? "").state).toBe("delivered");
    expect(received).toHaveLength(1);
  });

  test("a stop lets attempts finish, and aborts those that do not", async () => {
    const bench = open({ timeout_seconds: 10 });
    const slow = receiver(async () => {
      await Bun.sleep(150);
      return new Response(null);
    });
    const dead = await deadReceiver();
    const [finished] = bench.finish(bench.addEndpoint(slow.url).id);
    const [hanging] = bench.finish(bench.addEndpoint(dead.url).id);
    bench.deliverer.wake();
    await until(() => slow.received.length === 1 && dead.connections() === 1);
    const started = performance.now();
    await bench.deliverer.stop(2_000);
    // The hanging receiver would take its ten seconds.
    expect(performance.now() - started).toBeLessThan(8_000);
    expect(bench.stateOf(finished ?? "").state).toBe("delivered");
    expect(bench.stateOf(hanging ?? "")).toMatchObject({ state: "pending", attempts: 0, history: [] });
    expect(bench.deliverer.metrics().inFlight).toBe(0);
    bench.finish(bench.addEndpoint(slow.url).id);
    bench.deliverer.wake();
    await Bun.sleep(50);
    expect(slow.received).toHaveLength(1);
  });
});

describe("a clock that leaps", () => {
  const DAY_MS = 24 * HOUR_MS;
  const refusing = () => new Response(null, { status: 500 });

  test("back by 40 days does not make a delivery wait for them, with or without a restart", async () => {
    for (const isStarted of [false, true]) {
      const bench = open();
      let answer = refusing;
      const { url } = receiver(() => answer());
      const [eventId = ""] = bench.finish(bench.addEndpoint(url).id);
      await bench.pass(0);
      if (isStarted) await bench.deliverer.stop(0);
      bench.clock.leap(-40 * DAY_MS);
      answer = () => new Response(null, { status: 200 });
      if (isStarted) bench.deliverer.start();
      await bench.pass(0);
      expect(bench.stateOf(eventId)).toMatchObject({ state: "delivered", attempts: 2 });
    }
  });

  test("ahead again and again costs one attempt each time, and gives nothing up while it is in doubt", async () => {
    let isDoubtful = true;
    const bench = open({}, { isClockDoubtful: () => isDoubtful });
    const [eventId = ""] = bench.finish(bench.addEndpoint(receiver(refusing).url).id);
    await bench.pass(0);
    for (let leaps = 1; leaps <= RETRY_DELAYS_SECONDS.length + 2; leaps += 1) {
      bench.clock.leap(40 * DAY_MS);
      await bench.pass(0);
      expect(bench.stateOf(eventId)).toMatchObject({ state: "pending", attempts: leaps + 1 });
    }
    isDoubtful = false;
    await bench.pass(2 * DAY_MS);
    expect(bench.stateOf(eventId)).toMatchObject({ state: "failed" });
  });
});
