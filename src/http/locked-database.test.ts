import { Database as SqliteDatabase } from "bun:sqlite";
import { afterEach, describe, expect, test } from "bun:test";
import { databasePath } from "../store/database.ts";
import { apiClient } from "../testing/answers/api-client.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { begin, FOUR_CHUNKS, until } from "../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";

/** Another program, such as an admin's `sqlite3` with an open transaction, holds the write lock of the database. */

let testApp: TestApp | undefined;
let other: SqliteDatabase | undefined;
afterEach(async () => {
  other?.close();
  other = undefined;
  await testApp?.close();
  testApp = undefined;
});

async function open(config: NonNullable<Parameters<typeof openTestApp>[0]>["config"] = {}) {
  testApp = await openTestApp({ listens: true, config });
  other = new SqliteDatabase(databasePath(testApp.directory), { readwrite: true });
  const locker = other;
  return {
    ...testApp,
    client: apiClient(testApp.as(testApp.key)),
    lock: () => void locker.run("BEGIN IMMEDIATE"),
    unlock: () => void locker.run("ROLLBACK"),
  };
}

/** Asks for the health of the server until it is stopped. @returns the longest time of an answer, milliseconds */
function watchHealth(url: string) {
  let isOver = false;
  const worst = (async () => {
    let worstMs = 0;
    while (!isOver) {
      const begun = performance.now();
      expect((await fetch(`${url}/healthz`)).status).toBe(200);
      worstMs = Math.max(worstMs, performance.now() - begun);
      await Bun.sleep(20);
    }
    return worstMs;
  })();
  return () => {
    isOver = true;
    return worst;
  };
}

describe("while another program holds the write lock", () => {
  test("requests that read are answered, those that write get 503, and accepted work waits and loses nothing", async () => {
    const app = await open();
    const { client, engine, lock, unlock } = app;
    const release = engine.hold();
    const running = await begin(app, FOUR_CHUNKS);
    await until("it is recognized", async () => (await client.get(running)).state === "transcribing");
    const ready = await client.upload(scriptedAudio({ seconds: 4, text: "नमस्ते" }));
    const json = { "content-type": "application/json" };
    lock();
    const stopWatching = watchHealth(app.baseUrl());
    // The chunks end now, and their outcomes wait.
    release();
    const refused = Object.entries({
      "create an upload": client.send("/v1/uploads", { method: "POST", headers: json, body: '{"bytes":5}' }),
      "start a transcription": client.send("/v1/transcriptions", {
        ...{ method: "POST", headers: json },
        body: JSON.stringify({ audio: { upload_id: ready.id }, language: "hi" }),
      }),
      "cancel one": client.send(`/v1/transcriptions/${running}/cancel`, { method: "POST" }),
      "send a form": client.send("/v1/audio/transcriptions", { method: "POST", body: formOf("hi") }),
      "add a webhook endpoint": client.send("/v1/webhook_endpoints", {
        ...{ method: "POST", headers: json, body: '{"url":"https://example.org/"}' },
      }),
    });
    await until("it is known", async () => !(await fetch(`${app.baseUrl()}/readyz`)).ok);
    expect(await (await fetch(`${app.baseUrl()}/readyz`)).json()).toMatchObject({
      reasons: ["the database is locked by another program"],
    });
    for (const path of ["/metrics", "/v1/usage", "/v1/models", `/v1/transcriptions/${running}`]) {
      const begun = performance.now();
      expect((await client.send(path)).status).toBe(200);
      expect(performance.now() - begun).toBeLessThan(500);
    }
    for (const [what, answer] of refused) {
      const { status, headers } = await answer;
      expect([what, status, headers.get("retry-after")]).toEqual([what, 503, "5"]);
      expect(await (await answer).json()).toMatchObject({ error: { code: "capacity_unavailable" } });
    }
    expect((await client.get(running)).state).toBe("transcribing");
    unlock();
    expect(await stopWatching()).toBeLessThan(1_000);
    await until("it is done", async () => (await client.get(running)).state === "completed");
    await until("it is ready", async () => (await fetch(`${app.baseUrl()}/readyz`)).ok);
    const { services } = app.app;
    expect(services.transcriptions.find(running)).toMatchObject({ work: { failures: 0, crashes: 0 } });
    expect(services.credit.audit()).toMatchObject({ ok: true });
    expect((await client.start({ audio: { upload_id: ready.id }, language: "hi" })).status).toBe(202);
  }, 60_000);

  test("a short lock delays a request and refuses none", async () => {
    const { client, lock, unlock } = await open();
    lock();
    setTimeout(unlock, 700);
    const upload = await client.upload(scriptedAudio({ seconds: 4, text: "नमस्ते" }));
    const started = await client.start({ audio: { upload_id: upload.id }, language: "hi" });
    expect(started.status).toBe(202);
  });

  test("a synchronous request whose time ends is cancelled for sure, and is not charged", async () => {
    const app = await open({ limits: { synchronous_timeout_seconds: 2 } });
    const { client, engine, lock, unlock } = app;
    const release = engine.hold();
    const answer = client.send("/v1/audio/transcriptions", { method: "POST", body: formOf("hi") });
    await until("it is recognized", async () => (await client.list()).data[0]?.state === "transcribing");
    lock();
    await Bun.sleep(2_500);
    release();
    await Bun.sleep(500);
    unlock();
    expect((await answer).status).toBe(504);
    const [row] = (await client.list()).data;
    expect(row).toMatchObject({ state: "cancelled" });
    expect(app.app.services.credit.audit()).toMatchObject({ ok: true });
  }, 30_000);

  test("a stop does not wait for the lock, and leaves the work as it is for the next start", async () => {
    const app = await open({ server: { drain_seconds: 1 } });
    const { client, engine, lock, unlock } = app;
    const release = engine.hold();
    const id = await begin(app, FOUR_CHUNKS);
    await until("it is recognized", async () => (await client.get(id)).state === "transcribing");
    lock();
    release();
    const begun = performance.now();
    await app.app.drain();
    expect(performance.now() - begun).toBeLessThan(5_000);
    unlock();
    expect(app.app.services.transcriptions.find(id)?.state).toBe("transcribing");
  }, 30_000);
});

function formOf(language: string): FormData {
  const form = new FormData();
  form.set("language", language);
  form.set("file", new File([scriptedAudio({ seconds: 4, text: "नमस्ते" })], "a.wav"));
  return form;
}
