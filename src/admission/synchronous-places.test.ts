import { afterEach, describe, expect, test } from "bun:test";
import { AppError } from "../domain/errors.ts";
import { createThroughput } from "../scheduler/throughput.ts";
import { audioForm } from "../testing/answers/api-client.ts";
import { manualClock } from "../testing/kits/manual-clock.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { clientOf, until } from "../testing/kits/scheduler-kit.ts";
import { type Script, scriptedAudio } from "../testing/kits/scripted-engine.ts";
import {
  choosePlaces,
  createSynchronousPlaces,
  type SynchronousPlacesOptions,
} from "./synchronous-places.ts";

function open(options: Partial<SynchronousPlacesOptions> = {}) {
  const clock = manualClock();
  const speed = createThroughput(
    () => 1,
    () => 1e9,
  );
  // A recording of 30 s takes 15 s.
  speed.observe(60_000, 30_000);
  const places = createSynchronousPlaces({
    clock,
    count: () => 1,
    timeoutMs: () => 120_000,
    expectedMs: speed.estimateMs,
    windowMs: () => 30_000,
    ...options,
  });
  /** Reserves a place. Returns the `Retry-After` seconds of a refusal, or undefined when there was a place. */
  const refused = (): number | undefined => {
    try {
      places.reserve(1_000).release();
      return undefined;
    } catch (error) {
      expect(error).toBeInstanceOf(AppError);
      expect((error as AppError).code).toBe("capacity_unavailable");
      return (error as AppError).retryAfterSeconds;
    }
  };
  return { clock, speed, places, refused };
}

test.each([
  ["as many as chunks have memory", 12, 2_000, 120_000, 12],
  ["as many as are done in half of the time", 12, 10_000, 120_000, 6],
  ["one, however slow the machine is", 12, 600_000, 120_000, 1],
  ["and never more than the setting allows", 500, 10, 120_000, 64],
])("places without an admin's choice: %s", (_, chunks, longestMs, timeoutMs, places) => {
  expect(choosePlaces(chunks, longestMs, timeoutMs)).toBe(places);
});

describe("the time until a place is free", () => {
  test("is the time that its recording still needs; a request after that time finds it free", () => {
    const { clock, places, refused } = open();
    const place = places.reserve(60_000);
    expect(refused()).toBe(30);
    clock.advance(12_300);
    const rest = refused() ?? 0;
    expect(rest).toBe(18);
    clock.advance(17_700);
    place.release();
    expect(refused()).toBeUndefined();
  });

  test("counts a short recording as the whole window that it costs", () => {
    const { places, refused } = open();
    places.reserve(2_000);
    expect(refused()).toBe(15);
  });

  test("is that of the place which is free first", () => {
    const { clock, places, refused } = open({ count: () => 2 });
    places.reserve(60_000);
    clock.advance(4_000);
    const short = places.reserve(30_000);
    expect(refused()).toBe(15);
    short.release();
    clock.advance(1_000);
    places.reserve(60_000);
    expect(refused()).toBe(25);
  });

  test("grows with the lateness of a request that takes longer than expected, and ends with its deadline", () => {
    const { clock, places, refused } = open();
    places.reserve(60_000);
    const seconds = [35, 40, 60, 100, 119].map((second, index, all) => {
      clock.advance((second - (all[index - 1] ?? 0)) * 1000);
      return refused();
    });
    expect(seconds).toEqual([5, 10, 30, 20, 1]);
  });

  test("follows the measured speed of the machine", () => {
    const { places, refused, speed } = open();
    places.reserve(60_000);
    for (let i = 0; i < 100; i++) speed.observe(10_000, 10_000);
    expect(refused()).toBe(60);
  });

  test("is long when synchronous work is switched off", () => {
    expect(open({ count: () => 0 }).refused()).toBe(3_600);
  });

  test("does not change when a place is returned twice", () => {
    const { places, refused } = open({ count: () => 2 });
    const taken = [places.reserve(1), places.reserve(1)];
    taken[0]?.release();
    taken[0]?.release();
    expect(places.taken()).toBe(1);
    places.reserve(1);
    expect(refused()).toBeDefined();
  });
});

describe("over HTTP", () => {
  let testApp: TestApp | undefined;
  afterEach(() => testApp?.close());

  const ask = (app: TestApp, script: Script, more: Record<string, string> = {}) =>
    app.as(app.key)("/v1/audio/transcriptions", {
      method: "POST",
      body: audioForm(scriptedAudio(script), { language: "hi", ...more }),
    });

  /** Sends a request beside the one that has the only place. Returns its `Retry-After`. */
  async function retryAfter(app: TestApp): Promise<number> {
    const refused = await ask(app, { seconds: 1, text: "नमस्ते" });
    expect(refused.status).toBe(503);
    expect(await refused.json()).toMatchObject({ error: { code: "capacity_unavailable" } });
    return Number(refused.headers.get("retry-after"));
  }

  const takingTurns = { engine: { workers: 1, threads_per_worker: 1 } };

  test("Retry-After is the remaining time of the request in the only place, and after it there is a place", async () => {
    testApp = await openTestApp({ config: takingTurns });
    const { app, clock, engine } = testApp;
    const release = engine.hold();
    // Before the first measurement, half of real time is expected. Each channel counts as separate work.
    const first = ask(testApp, { seconds: 20, channels: 2, text: "नमस्ते" }, { channel_mode: "separate" });
    await until("its chunks are recognized", () => app.scheduler.status().slots.running > 0);
    expect(await retryAfter(testApp)).toBe(80);
    clock.advance(10_000);
    expect(await retryAfter(testApp)).toBe(70);
    // Its answer is due after 120 s at the latest.
    clock.advance(109_900);
    expect(await retryAfter(testApp)).toBe(1);
    release();
    expect((await first).status).toBe(200);
    expect((await ask(testApp, { seconds: 1, text: "नमस्ते" })).status).toBe(200);
  });

  test("Retry-After is longer while the machine is busy with other work", async () => {
    testApp = await openTestApp({ config: takingTurns });
    const { app, engine } = testApp;
    const release = engine.hold();
    const first = ask(testApp, { seconds: 5, text: "नमस्ते" });
    await until("it is worked on", () => app.scheduler.status().slots.running === 1);
    const alone = await retryAfter(testApp);
    const upload = await clientOf(testApp).upload(scriptedAudio({ seconds: 5, text: "नमस्ते" }));
    await clientOf(testApp).start({ audio: { upload_id: upload.id }, language: "hi" });
    await until("both are worked on", () => app.scheduler.status().slots.running === 2);
    expect([alone, await retryAfter(testApp)]).toEqual([60, 120]);
    release();
    expect((await first).status).toBe(200);
  });
});

describe("a wait for a place", () => {
  const never = new AbortController().signal;

  test("ends in the order of arrival; a later request does not get the place of one that waits", async () => {
    const { places, refused } = open();
    const first = places.reserve(1_000);
    const order: string[] = [];
    const wait = async (name: string) => {
      const place = await places.reserveWithin(1_000, 5_000, never);
      order.push(name);
      return place;
    };
    const second = wait("second");
    const third = wait("third");
    expect(refused()).toBeGreaterThan(0);
    first.release();
    // The place belongs to the second already.
    expect(refused()).toBeGreaterThan(0);
    (await second).release();
    (await third).release();
    expect([order, places.taken(), refused()]).toEqual([["second", "third"], 0, undefined]);
  });

  test("ends with a refusal after its time; Retry-After counts those who still wait", async () => {
    const { places } = open();
    const first = places.reserve(30_000);
    const patient = places.reserveWithin(30_000, 60_000, never);
    const refusal = places.reserveWithin(1_000, 10, never);
    expect(await refusal.catch((error) => error)).toMatchObject({
      // 15 s for the first, and 15 s for the patient one.
      ...{ code: "capacity_unavailable", retryAfterSeconds: 30 },
    });
    first.release();
    (await patient).release();
    expect(places.taken()).toBe(0);
  });

  test("ends for many with the time of the work that is really ahead: none counts others that are refused, too", async () => {
    const { places } = open();
    const first = places.reserve(30_000);
    const refusals = Array.from({ length: 8 }, () => places.reserveWithin(30_000, 10, never));
    const seconds = (await Promise.allSettled(refusals)).map(
      (outcome) => (outcome as PromiseRejectedResult).reason.retryAfterSeconds,
    );
    expect(seconds).toEqual(Array(8).fill(15));
    first.release();
    expect(places.taken()).toBe(0);
  });

  test("a place that gets free in the moment in which a waiting request ends is not lost", async () => {
    const { places, refused } = open();
    const taken = places.reserve(1_000);
    const client = new AbortController();
    const waiting = places.reserveWithin(1_000, 60_000, client.signal);
    client.abort(new Error("gone"));
    taken.release();
    await expect(waiting).rejects.toThrow("gone");
    expect(places.taken()).toBe(0);
    expect(refused()).toBeUndefined();
  });

  test("ends when its request does, and when the server stops", async () => {
    const { places } = open();
    const first = places.reserve(1_000);
    const leaving = new AbortController();
    const left = places.reserveWithin(1_000, 5_000, leaving.signal);
    leaving.abort(new Error("the client has gone"));
    expect(await left.catch((error) => error)).toMatchObject({ message: "the client has gone" });
    const waiting = places.reserveWithin(1_000, 5_000, never);
    places.close();
    expect(await waiting.catch((error) => error)).toMatchObject({ code: "capacity_unavailable" });
    first.release();
    expect(places.taken()).toBe(0);
  });
});
