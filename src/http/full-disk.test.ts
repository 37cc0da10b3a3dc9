import { afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openLog } from "../lib/log.ts";
import { apiClient } from "../testing/answers/api-client.ts";
import { mayMountDisks, mountSmallDisk, unmountDisk } from "../testing/boxes/small-disk.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { begin, until } from "../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";

/** Requests and work on a disk, or a database, without space. */

let testApp: TestApp | undefined;
let folder: string | undefined;
afterEach(async () => {
  await testApp?.close();
  testApp = undefined;
  if (folder === undefined) return;
  unmountDisk(folder);
  rmSync(folder, { recursive: true, force: true });
  folder = undefined;
});

/** Stops the database's file from growing, or lets it grow again. */
function limitDatabase({ app }: TestApp, isFull: boolean): void {
  const { sqlite } = app.database;
  const { page_count: pages } = sqlite.query<{ page_count: number }, []>("PRAGMA page_count").get() ?? {
    page_count: 1,
  };
  sqlite.run(`PRAGMA max_page_count = ${isFull ? pages : 1_000_000}`);
}

describe("a full database", () => {
  test("gives capacity_unavailable with Retry-After, and all requests succeed afterwards", async () => {
    testApp = await openTestApp();
    const send = testApp.as(testApp.key);
    const headers = { "content-type": "application/json" };
    const announce = () => send("/v1/uploads", { method: "POST", headers, body: '{"bytes":5}' });
    limitDatabase(testApp, true);
    let answer = await announce();
    for (let tries = 0; answer.status === 201 && tries < 2_000; tries++) answer = await announce();
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "60"]);
    expect(await answer.json()).toMatchObject({ error: { code: "capacity_unavailable" } });
    limitDatabase(testApp, false);
    expect((await announce()).status).toBe(201);
  }, 60_000);

  test("fails no accepted work, however often the work cannot be finished", async () => {
    let ends = 0;
    const log = openLog("error", "json", (line) => {
      if (line.includes("a run ended unexpectedly")) ends++;
    });
    testApp = await openTestApp({ log });
    const { app, engine } = testApp;
    const release = engine.hold();
    // Storing the result needs more pages, which do not exist. Moving the work back to the queue needs none.
    const words = Array.from({ length: 20_000 }, (_, index) => `w${index}`).join(" ");
    const id = await begin(testApp, { seconds: 20, text: words });
    const client = apiClient(testApp.as(testApp.key));
    await until("it has begun", async () => (await client.get(id)).state === "transcribing");
    limitDatabase(testApp, true);
    release();
    // More than the number of unexpected ends after which work fails.
    await until("it was tried again and again", () => ends > 6, 40_000);
    expect(["queued", "preparing", "transcribing", "finalizing"]).toContain((await client.get(id)).state);
    limitDatabase(testApp, false);
    await until("it is done", async () => (await client.get(id)).state === "completed");
    expect(app.services.credit.audit().ok).toBe(true);
  }, 60_000);
});

test.skipIf(!mayMountDisks())(
  "a form whose file does not fit on the disk is answered at once, and leaves nothing behind (needs root on Linux)",
  async () => {
    folder = mkdtempSync(join(tmpdir(), "shruti-full-"));
    expect(mountSmallDisk(folder, 32)).toBe(true);
    testApp = await openTestApp({ directory: folder, listens: true });
    const client = apiClient(testApp.as(testApp.key));
    const file = scriptedAudio({ seconds: 1, text: "नमस्ते" });
    const padded = new Uint8Array(2_000_000);
    padded.set(file);
    const filler = join(folder, "filler");
    try {
      writeFileSync(filler, new Uint8Array(64 * 1024 * 1024));
    } catch {
      // The disk is full now, as intended.
    }
    const begun = performance.now();
    const form = new FormData();
    form.set("language", "hi");
    form.set("file", new File([padded], "a.wav"));
    const answer = await client.send("/v1/audio/transcriptions", { method: "POST", body: form });
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "60"]);
    expect(performance.now() - begun).toBeLessThan(10_000);
    expect(readdirSync(join(folder, "incoming"))).toEqual([]);
    rmSync(filler);
    expect((await client.transcribe(file, { language: "hi" })).text).toBe("नमस्ते");
  },
  60_000,
);

test.skipIf(!mayMountDisks())(
  "a form is refused when the free space falls to the reserve while the form arrives (needs root on Linux)",
  async () => {
    folder = mkdtempSync(join(tmpdir(), "shruti-full-"));
    expect(mountSmallDisk(folder, 64)).toBe(true);
    testApp = await openTestApp({
      directory: folder,
      listens: true,
      config: { storage: { reserve_bytes: 32 * 1024 * 1024 } },
    });
    const filler = join(folder, "filler");
    const head = '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n';
    let sentBytes = 0;
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        if (sentBytes === 0) controller.enqueue(new TextEncoder().encode(head));
        // Other programs fill the disk meanwhile.
        if (sentBytes === 2 * 1024 * 1024) writeFileSync(filler, new Uint8Array(40 * 1024 * 1024));
        controller.enqueue(new Uint8Array(1024 * 1024));
        sentBytes += 1024 * 1024;
        await Bun.sleep(20);
        if (sentBytes >= 20 * 1024 * 1024) controller.close();
      },
    });
    const answer = await testApp.as(testApp.key)("/v1/audio/transcriptions", {
      method: "POST",
      headers: { "content-type": "multipart/form-data; boundary=b" },
      body,
    });
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "60"]);
    expect(await answer.json()).toMatchObject({ error: { code: "capacity_unavailable" } });
    // The rest was read and dropped, so that the sender reads the answer.
    expect(sentBytes).toBe(20 * 1024 * 1024);
    expect(readdirSync(join(folder, "incoming"))).toEqual([]);
  },
  60_000,
);
