import { afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openLog } from "../lib/log.ts";
import { databasePath } from "../store/database.ts";
import { audioForm } from "../testing/answers/api-client.ts";
import { expectRefusal } from "../testing/answers/scenarios.ts";
import { openTestApp, type TestApp, type TestAppOptions } from "../testing/kits/open-test-app.ts";
import { begin, clientOf, forever, until, watchChunks } from "../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";

/** The outcomes of requests during a stop: an answer, 503, or no connection, but no failure of the program itself. */

const apps: TestApp[] = [];
const folders: string[] = [];
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});
async function open(options: TestAppOptions = {}): Promise<TestApp> {
  const testApp = await openTestApp({
    ...options,
    config: { server: { drain_seconds: 0 }, ...options.config },
  });
  apps.push(testApp);
  return testApp;
}

const HINDI = { seconds: 1, text: "नमस्ते" };

/** Requests of every kind that uses the store. */
function ordinary(testApp: TestApp, id: string): [title: string, send: () => Promise<Response>][] {
  const send = testApp.as(testApp.key);
  const json = (body: unknown) => ({
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return [
    ["GET /v1/transcriptions", () => send("/v1/transcriptions")],
    ["GET /v1/transcriptions/{id}", () => send(`/v1/transcriptions/${id}`)],
    ["POST cancel", () => send(`/v1/transcriptions/${id}/cancel`, { method: "POST" })],
    ["GET /v1/models", () => send("/v1/models")],
    ["GET /v1/usage", () => send("/v1/usage")],
    ["POST /v1/uploads", () => send("/v1/uploads", json({ bytes: 10 }))],
    ["PUT /storage", () => testApp.fetch("/storage/uploads/up_x", { method: "PUT", body: "x" })],
    ["GET /metrics", () => testApp.fetch("/metrics")],
    [
      "POST /v1/audio/transcriptions",
      () =>
        send("/v1/audio/transcriptions", {
          method: "POST",
          body: audioForm(scriptedAudio(HINDI), { language: "hi" }),
        }),
    ],
  ];
}

describe("a stop", () => {
  test("answers while chunks finish, then refuses all requests, also when the store is closed", async () => {
    const faults: string[] = [];
    const log = openLog("error", "json", (line) => void faults.push(line));
    const testApp = await open({ log, config: { server: { drain_seconds: 20 } } });
    const { app } = testApp;
    const chunk = Promise.withResolvers<undefined>();
    watchChunks(testApp.engine, () => chunk.promise);
    const id = await begin(testApp);
    await until("a chunk is decoded", () => app.scheduler.status().slots.running > 0);
    const requests = ordinary(testApp, id);

    const drained = app.drain();
    expect((await testApp.fetch("/readyz")).status).toBe(503);
    expect((await clientOf(testApp).get(id)).state).toBe("transcribing");
    expect((await clientOf(testApp).list()).data).toHaveLength(1);
    chunk.resolve(undefined);
    await drained;

    const expectAllSentAway = async () => {
      for (const [title, send] of requests) {
        const answer = await send();
        expect([title, answer.status]).toEqual([title, 503]);
        expect(answer.headers.get("connection")).toBe("close");
        await expectRefusal(answer, { code: "capacity_unavailable" });
      }
      expect((await testApp.fetch("/healthz")).status).toBe(200);
      const ready = await testApp.fetch("/readyz");
      expect(await ready.json()).toEqual({ status: "not_ready", reasons: ["the server is stopping"] });
    };
    await expectAllSentAway();
    await app.close();
    await expectAllSentAway();
    expect(faults).toEqual([]);
  });

  test("lets a running request end before the store is closed", async () => {
    const testApp = await open();
    const bytes = scriptedAudio(HINDI);
    const client = clientOf(testApp);
    const created = await client.createUpload(bytes.byteLength);
    const rest = Promise.withResolvers<void>();
    const body = new ReadableStream({
      async start(controller) {
        controller.enqueue(bytes.slice(0, 10));
        await rest.promise;
        controller.enqueue(bytes.slice(10));
        controller.close();
      },
    });
    const { method, url, headers } = created.upload;
    const sent = testApp.fetch(new URL(url).pathname, { method, headers, body });
    await until("it is being received", () => testApp.app.services.uploads.receiving() === 1);
    const closed = testApp.app.close();
    await testApp.app.drain();
    await Bun.sleep(20);
    rest.resolve();
    const answer = await sent;
    expect(answer.status).toBe(200);
    expect(await answer.json()).toMatchObject({ id: created.id, bytes: bytes.byteLength });
    await closed;
  });

  test("refuses clients that wait for a synchronous result, and cancels their work", async () => {
    const testApp = await open({ listens: true });
    watchChunks(testApp.engine, (_chunk, signal) => forever(signal));
    const ended: string[] = [];
    testApp.app.services.transcriptions.listen({ finished: ({ state }) => void ended.push(state) });
    const asked = testApp.as(testApp.key)("/v1/audio/transcriptions", {
      method: "POST",
      body: audioForm(scriptedAudio(HINDI), { language: "hi" }),
    });
    await until("it is worked on", () => testApp.app.scheduler.status().slots.running > 0);
    const closed = testApp.close();
    await expectRefusal(await asked, { code: "capacity_unavailable" });
    await closed;
    expect(ended).toEqual(["cancelled"]);
  });

  for (const how of ["a stop", "a crash"]) {
    test(`${how} answers the idempotency key of interrupted synchronous work with 503 from then on`, async () => {
      const directory = mkdtempSync(join(tmpdir(), "shruti-stop-"));
      folders.push(directory);
      const before = await openTestApp({ directory, config: { server: { drain_seconds: 0 } } });
      watchChunks(before.engine, (_chunk, signal) => forever(signal));
      const { key } = before;
      const ask = (testApp: TestApp) =>
        testApp.as(key)("/v1/audio/transcriptions", {
          method: "POST",
          headers: { "idempotency-key": "once" },
          body: audioForm(scriptedAudio(HINDI), { language: "hi" }),
        });
      const asked = ask(before);
      await until("it is worked on", () => before.app.scheduler.status().slots.running > 0);
      // The record as a killed program leaves it.
      const { sqlite } = before.app.database;
      const state =
        sqlite.query<{ state: string }, []>("SELECT state FROM transcriptions").get()?.state ?? "";
      const copy = join(directory, "copy.db");
      if (how === "a crash") sqlite.query("VACUUM INTO ?").run(copy);
      await before.close();
      expect((await asked).status).toBe(503);
      if (how === "a crash") {
        for (const suffix of ["-wal", "-shm"]) rmSync(databasePath(directory) + suffix, { force: true });
        renameSync(copy, databasePath(directory));
        expect(state).not.toBe("cancelled");
      }

      const after = await openTestApp({ directory });
      apps.push(after);
      for (let count = 0; count < 2; count++)
        await expectRefusal(await ask(after), { code: "capacity_unavailable" });
      expect((await clientOf(after, key).usage()).credit.reserved_paise).toBe(0);
    });
  }

  test("under a stream of requests gives answers, 503 or no connection, and no failure", async () => {
    const faults: string[] = [];
    const log = openLog("error", "json", (line) => void faults.push(line));
    const testApp = await openTestApp({ log, listens: true, config: { server: { drain_seconds: 1 } } });
    const id = await begin(testApp);
    const requests = ordinary(testApp, id);
    const seen = new Map<string, number>();
    let isOver = false;
    const senders = requests.map(async ([title, send]) => {
      while (!isOver) {
        const outcome = await send().then(
          async (answer) => {
            const body = (await answer.json().catch(() => ({}))) as { error?: { code: string } };
            return `${answer.status} ${body.error?.code ?? "ok"}`;
          },
          () => "no connection",
        );
        const isProper = /^(2|4)\d\d |^503 capacity_unavailable$|^no connection$/.test(outcome);
        const key = isProper ? outcome : `${title}: ${outcome}`;
        seen.set(key, (seen.get(key) ?? 0) + 1);
        if (outcome === "no connection") await Bun.sleep(1);
      }
    });
    await until("all senders get answers", () => (seen.get("200 ok") ?? 0) > 10);
    await testApp.close();
    await until("no request is answered", () => (seen.get("no connection") ?? 0) > requests.length);
    isOver = true;
    await Promise.all(senders);
    const improper = [...seen.keys()].filter((key) => key.includes(":"));
    expect(improper).toEqual([]);
    expect(faults).toEqual([]);
  });
});
