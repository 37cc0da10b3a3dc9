import { afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { placesOfOne } from "../admission/decoder-places.ts";
import { EngineError } from "../engine/protocol.ts";
import { openDatabase } from "../store/database.ts";
import { findTranscription, moveTranscription } from "../store/transcriptions.ts";
import { openTestApp, type TestApp, type TestAppOptions } from "../testing/kits/open-test-app.ts";
import {
  begin,
  CHUNK_MS,
  clientOf,
  FOUR_CHUNKS,
  forever,
  until,
  watchChunks,
  workFiles,
} from "../testing/kits/scheduler-kit.ts";
import { createScriptedEngine, scriptedAudio } from "../testing/kits/scripted-engine.ts";

const apps: TestApp[] = [];
const folders: string[] = [];
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});
async function open(options: TestAppOptions = {}): Promise<TestApp> {
  const app = await openTestApp({ ...options, config: { server: { drain_seconds: 1 }, ...options.config } });
  apps.push(app);
  return app;
}
function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "shruti-scheduler-"));
  folders.push(folder);
  return folder;
}
const stateOf = (testApp: TestApp, id: string) => findTranscription(testApp.app.database.store, id)?.state;

/** Creates an organization with credit and a key. */
function newOrganization(
  testApp: TestApp,
  name: string,
  weight = 1,
): { organizationId: string; key: string } {
  const organization = testApp.accounts.createOrganization({ name });
  testApp.accounts.setOrganization(organization.id, { weight });
  const project = testApp.accounts.createProject({ organizationId: organization.id, name: "main" });
  testApp.app.services.credit.grant({ organizationId: organization.id, amountPaise: 1_000_000 });
  return { organizationId: organization.id, key: testApp.makeKey(project.id) };
}

describe("a recording that decodes to another length than was verified", () => {
  test.each([
    ["longer", 20],
    ["shorter", 5],
  ])("%s: fails and is not charged", async (_, decodedSeconds) => {
    const testApp = await open();
    const id = await begin(testApp, { seconds: 10, text: "नमस्ते", decodedSeconds });
    const ended = await clientOf(testApp).finished(id);
    expect(ended).toMatchObject({ state: "failed", error: { code: "transcription_failed" } });
    expect(await clientOf(testApp).usage()).toMatchObject({
      credit: { reserved_paise: 0 },
      data: [{ transcription_id: id, amount_paise: 0, billed_seconds: 0 }],
    });
    expect(workFiles(testApp)).toEqual([]);
  });
});

test("with what a recording was recognized is stored: the hashes of its weights, and of those of its speakers", async () => {
  const engine = createScriptedEngine();
  const { diarize } = engine;
  const weightHashes = { segmentation: "1".repeat(64), speaker: "2".repeat(64) };
  engine.diarize = async (job, signal) => ({ ...(await diarize(job, signal)), weightHashes });
  const testApp = await open({ engine });
  const id = await begin(testApp, FOUR_CHUNKS, { diarization: true });
  await clientOf(testApp).finished(id);
  const row = findTranscription(testApp.app.database.store, id);
  const { sha256 } = testApp.app.services.models.resolve(undefined);
  expect(row?.modelSha256).toBe(sha256);
  expect(row?.work?.means).toMatchObject({
    ...{ modelSha256: sha256, isHashedAtLoad: true, speakerWeights: weightHashes },
  });
});

describe("a stop", () => {
  const textOf = async ({ startMs }: { startMs: number }) => `शब्द ${startMs}`;

  test("and a start continue from the last chunk, to exactly the same transcript", async () => {
    const engine = createScriptedEngine();
    const undisturbed = await open({ engine });
    watchChunks(engine, textOf);
    const whole = await begin(undisturbed, FOUR_CHUNKS);
    await clientOf(undisturbed).finished(whole);
    const expected = await clientOf(undisturbed).result(whole);

    const directory = newFolder();
    const config = { engine: { workers: 1 }, server: { drain_seconds: 0 } };
    const first = await openTestApp({ engine, directory, config });
    const done: number[] = [];
    watchChunks(engine, async (chunk, signal) => {
      if (done.length === 2) await forever(signal);
      done.push(chunk.startMs);
      return textOf(chunk);
    });
    const id = await begin(first);
    await until("two chunks are done", () => done.length === 2);
    await until("the third runs", () => first.app.scheduler.status().slots.running === 1);
    await first.close();

    const again = watchChunks(engine, textOf);
    const second = await openTestApp({ engine, directory });
    expect((await clientOf(second, first.key).finished(id)).state).toBe("completed");
    const result = await clientOf(second, first.key).result(id);
    expect({ ...result, id: "" }).toEqual({ ...expected, id: "" });
    expect(again.runs.map(({ startMs }) => startMs).sort((a, b) => a - b)).toEqual([
      2 * CHUNK_MS,
      3 * CHUNK_MS,
    ]);
    expect(workFiles(second)).toEqual([]);
    await second.close();
  });

  test("lets running chunks finish, starts no others, and leaves the rest queued", async () => {
    const engine = createScriptedEngine();
    const directory = newFolder();
    const testApp = await openTestApp({ engine, directory, config: { engine: { workers: 2 } } });
    const slow = Promise.withResolvers<undefined>();
    const chunks = watchChunks(engine, () => slow.promise);
    const id = await begin(testApp);
    await until("two chunks run", () => chunks.runs.length === 2);
    const stopping = testApp.app.scheduler.stop();
    await Bun.sleep(50);
    slow.resolve(undefined);
    await stopping;
    expect(chunks.runs.length).toBe(2);
    expect(findTranscription(testApp.app.database.store, id)).toMatchObject({
      state: "queued",
      progressMs: 10_000,
    });
    await testApp.close();
  });

  test("and other weights of the same version: what had begun with the old ones does not continue with them", async () => {
    const engine = createScriptedEngine();
    const directory = newFolder();
    const first = await openTestApp({ engine, directory, config: { server: { drain_seconds: 0 } } });
    const chunks = watchChunks(engine, (_chunk, signal) => forever(signal));
    const id = await begin(first);
    await until("it runs", () => chunks.runs.length > 0);
    await first.close();
    const database = openDatabase(join(directory, "shruti.db"));
    const { modelSha256 } = findTranscription(database.store, id) ?? {};
    expect(modelSha256).toMatch(/^[0-9a-f]{64}$/);
    database.sqlite.run("UPDATE transcriptions SET model_sha256 = ? WHERE id = ?", ["0".repeat(64), id]);
    database.close();
    const again = watchChunks(engine, async () => "text");
    const second = await openTestApp({ engine, directory });
    const ended = await clientOf(second, first.key).finished(id);
    expect(ended).toMatchObject({ state: "failed", error: { code: "capacity_unavailable" } });
    expect(again.runs).toEqual([]);
    await second.close();
  });

  test("does not wait for a recording that is being prepared", async () => {
    const testApp = await openTestApp();
    testApp.engine.interfere({ decode: (_job, signal) => forever(signal) });
    const id = await begin(testApp);
    await until("it is being prepared", () => stateOf(testApp, id) === "preparing");
    const before = performance.now();
    await testApp.app.scheduler.stop();
    expect(performance.now() - before).toBeLessThan(5_000);
    expect(stateOf(testApp, id)).toBe("queued");
    await testApp.close();
  });

  test("ends within its bound when a chunk does not", async () => {
    const testApp = await openTestApp({ config: { server: { drain_seconds: 1 } } });
    watchChunks(testApp.engine, (_chunk, signal) => forever(signal));
    const id = await begin(testApp);
    await until("it runs", () => testApp.app.scheduler.status().slots.running > 0);
    const before = performance.now();
    await testApp.app.scheduler.stop();
    expect(performance.now() - before).toBeWithin(900, 10_000);
    expect(stateOf(testApp, id)).toBe("queued");
    await testApp.close();
  });
});

describe("a start", () => {
  test("continues the work that a killed program left in any state, and removes files without a transcription", async () => {
    const engine = createScriptedEngine();
    const directory = newFolder();
    const first = await openTestApp({ engine, directory, config: { server: { drain_seconds: 0 } } });
    watchChunks(engine, (_chunk, signal) => forever(signal));
    const ids = [await begin(first), await begin(first), await begin(first)];
    await until("they run", () => first.app.scheduler.status().slots.waiting > 0);
    await first.app.scheduler.stop();
    // After kill -9 the states are still those of the interrupted runs.
    const { store } = first.app.database;
    moveTranscription(store, ids[0] ?? "", "claim", 1);
    moveTranscription(store, ids[1] ?? "", "claim", 1);
    moveTranscription(store, ids[1] ?? "", "prepared", 1);
    await Bun.write(join(directory, "work", "tr_nobody.123.456", "mix.pcm"), "x");
    await first.close();

    engine.interfere({});
    const second = await openTestApp({ engine, directory });
    for (const id of ids) expect((await clientOf(second, first.key).finished(id)).state).toBe("completed");
    expect(workFiles(second)).toEqual([]);
    await second.close();
  });
});

/** Longer than a chunk's outcome waits to be committed with others. */
const CHUNK_WORK_MS = 20;

describe("fair turns", () => {
  test("one recording beside a thousand waiting ones starts at once", async () => {
    const testApp = await open({ config: { engine: { workers: 1 }, limits: { max_queued: 0 } } });
    watchChunks(testApp.engine, (_chunk, signal) => forever(signal));
    const upload = await clientOf(testApp).upload(
      new TextEncoder().encode(`SCRIPTED-AUDIO ${JSON.stringify(FOUR_CHUNKS)}`),
    );
    for (let i = 0; i < 200; i++)
      await clientOf(testApp).start({ audio: { upload_id: upload.id }, language: "hi" });
    const other = newOrganization(testApp, "Second");
    const id = await begin(testApp, FOUR_CHUNKS, {}, other.key);
    await until("it has been begun", () => stateOf(testApp, id) !== "queued");
    const states = testApp.app.scheduler.status().states;
    expect(states.find(({ state }) => state === "queued")?.count).toBeGreaterThan(190);
  });

  test("recordings whose decoding does not end do not delay those of others, and use no more than their share", async () => {
    const testApp = await open();
    let hanging = 0;
    let most = 0;
    testApp.engine.interfere({
      decode(job, signal) {
        if (!readFileSync(job.path, "utf8").includes("अंत")) return Promise.resolve();
        most = Math.max(most, ++hanging);
        return forever(signal).finally(() => hanging--);
      },
    });
    const own = clientOf(testApp);
    const { id: uploadId } = await own.upload(scriptedAudio({ seconds: 2, text: "अंत" }));
    const slow: string[] = [];
    for (let count = 0; count < 6; count++) {
      slow.push((await own.start({ audio: { upload_id: uploadId }, language: "hi" })).body.id);
    }
    await until("they are being decoded", () => hanging === Math.min(placesOfOne(), 4));
    const other = newOrganization(testApp, "Other");
    const client = clientOf(testApp, other.key);
    const id = await begin(testApp, { seconds: 2, text: "शुरू" }, {}, other.key);
    expect((await client.finished(id)).state).toBe("completed");
    const audio = scriptedAudio({ seconds: 2, text: "शुरू" });
    expect((await client.transcribe(audio, { language: "hi" })).text).toBe("शुरू");
    // A transcription that waits for a decoder is cancelled as fast as one that has a decoder.
    for (const slowId of slow) expect((await own.cancel(slowId)).state).toBe("cancelled");
    await until("no decoder runs", () => hanging === 0);
    expect(most).toBeLessThanOrEqual(placesOfOne());
  });

  test("long searches for speech use no more than their share, and do not delay other organizations", async () => {
    const speechWorkers = 2;
    const testApp = await open({ config: { engine: { speech_workers: speechWorkers, workers: 8 } } });
    const long = { seconds: 601, text: "अंत" };
    let hanging = 0;
    let most = 0;
    testApp.engine.interfere({
      speech({ pcmPath }, signal) {
        if (statSync(pcmPath).size < 1_000_000) return Promise.resolve();
        most = Math.max(most, ++hanging);
        return forever(signal).finally(() => hanging--);
      },
    });
    const own = clientOf(testApp);
    const slow: string[] = [];
    for (let count = 0; count < 6; count++) slow.push(await begin(testApp, long));
    await until("they are being searched", () => hanging === speechWorkers);
    const other = newOrganization(testApp, "Other");
    const id = await begin(testApp, { seconds: 2, text: "शुरू" }, {}, other.key);
    expect((await clientOf(testApp, other.key).finished(id)).state).toBe("completed");
    // A short recording of the same organization finds a place, too.
    const short = await begin(testApp, { seconds: 2, text: "नमस्ते" });
    expect((await own.finished(short)).state).toBe("completed");
    for (const slowId of slow) expect((await own.cancel(slowId)).state).toBe("cancelled");
    await until("no search runs", () => hanging === 0);
    expect(most).toBe(speechWorkers);
  }, 20_000);

  test("a short recording overtakes the long ones of its organization, also in the queue", async () => {
    const testApp = await open({ config: { engine: { workers: 1 } } });
    const order: string[] = [];
    watchChunks(testApp.engine, async ({ audio }) => {
      order.push(audio.pcmPath.split("/").at(-2) ?? "");
      await Bun.sleep(CHUNK_WORK_MS);
      return undefined;
    });
    const release = testApp.engine.hold();
    const long = { seconds: 300, text: "नमस्ते" };
    const slow: string[] = [];
    for (let count = 0; count < 8; count++) slow.push(await begin(testApp, long));
    await until("the first ones run", () => stateOf(testApp, slow[2] ?? "") === "transcribing");
    expect(stateOf(testApp, slow[3] ?? "")).toBe("queued");
    const id = await begin(testApp, FOUR_CHUNKS);
    await until("it has been begun", () => stateOf(testApp, id) !== "queued");
    // As long as a running one: it has to wait, and the answer says how many are ahead.
    const next = await clientOf(testApp).get(await begin(testApp, long));
    expect(next.queue_position).toBe(5);
    release();
    expect((await clientOf(testApp).finished(id)).state).toBe("completed");
    // Four of its own, one that ran already, and the turn of the oldest recording.
    expect(order.lastIndexOf(id)).toBeLessThan(8);
  });

  test("chunks are distributed by weight", async () => {
    const testApp = await open({ config: { engine: { workers: 1 } } });
    const three = newOrganization(testApp, "Three", 3);
    const release = testApp.engine.hold();
    const order: string[] = [];
    const names = new Map<string, string>();
    watchChunks(testApp.engine, async ({ audio }) => {
      order.push(names.get(audio.pcmPath.split("/").at(-2) ?? "") ?? "");
      await Bun.sleep(CHUNK_WORK_MS);
      return undefined;
    });
    const recording = { seconds: 100, text: "नमस्ते" };
    names.set(await begin(testApp, recording), "one");
    names.set(await begin(testApp, recording, {}, three.key), "three");
    await until("both wait for places", () => testApp.app.scheduler.status().slots.waiting >= 3);
    release();
    for (const [id, name] of names)
      await clientOf(testApp, name === "three" ? three.key : testApp.key).finished(id);
    const beginning = order.slice(2, 22);
    expect(beginning.filter((name) => name === "three").length).toBeWithin(13, 17);
  });
});

describe("synchronous places", () => {
  test("start at once while all slots are taken", async () => {
    const testApp = await open({ config: { engine: { workers: 1, synchronous_workers: 1 } } });
    watchChunks(testApp.engine, async ({ audio }, signal) => {
      if (audio.pcmPath.includes(long)) await forever(signal);
      return undefined;
    });
    let long = "-";
    const hold = testApp.engine.hold();
    long = await begin(testApp);
    hold();
    await until("the only worker is busy", () => testApp.app.scheduler.status().slots.running === 1);
    const file = new TextEncoder().encode(`SCRIPTED-AUDIO ${JSON.stringify({ seconds: 2, text: "नमस्ते" })}`);
    const result = await clientOf(testApp).transcribe(file, { language: "hi" });
    expect(result.text).toBe("नमस्ते");
  });
});

describe("failures that the recording did not cause", () => {
  test("work is repeated after a stopped decoder, a full disk and a crashed speech detector", async () => {
    const testApp = await open();
    let decodes = 0;
    let searches = 0;
    testApp.engine.interfere({
      async decode() {
        if (decodes++ === 0) throw new EngineError("interrupted", "stopped from outside");
      },
      async speech() {
        if (searches++ === 0) throw new EngineError("crashed", "a neighbour's doing");
      },
    });
    const id = await begin(testApp);
    expect((await clientOf(testApp).finished(id)).state).toBe("completed");
    expect([decodes, searches]).toEqual([2, 2]);
  });

  test("a recording that crashes the speech detector each time fails after three attempts", async () => {
    const testApp = await open();
    let searches = 0;
    testApp.engine.interfere({
      async speech() {
        searches++;
        throw new EngineError("crashed", "as scripted");
      },
    });
    const id = await begin(testApp);
    const ended = await clientOf(testApp).finished(id);
    expect(ended).toMatchObject({ state: "failed", error: { code: "transcription_failed" } });
    expect(searches).toBe(3);
    expect(workFiles(testApp)).toEqual([]);
  });

  test("after an unexpected failure the work is requeued, and the next run finishes it", async () => {
    const testApp = await open();
    let runs = 0;
    testApp.engine.interfere({
      async speech() {
        if (runs++ === 0) throw new Error("ENOSPC");
      },
    });
    const id = await begin(testApp);
    expect((await clientOf(testApp).finished(id)).state).toBe("completed");
    expect(runs).toBe(2);
  });
});

describe("estimates", () => {
  test("of the time until the queue is empty shrink with the progress of transcriptions", async () => {
    const testApp = await open({ config: { engine: { workers: 1 } } });
    const seen: number[] = [];
    watchChunks(testApp.engine, async () => {
      seen.push(testApp.app.scheduler.status().emptyInMs);
      await Bun.sleep(5);
      return undefined;
    });
    const id = await begin(testApp);
    await clientOf(testApp).finished(id);
    // Before the first chunk the speed is assumed. Then it is measured.
    expect(seen[1]).toBeGreaterThan(seen[2] ?? 0);
    expect(seen[2]).toBeGreaterThan(seen[3] ?? 0);
    expect(testApp.app.scheduler.status().emptyInMs).toBe(0);
  });

  test("the refusal of a full queue says when there is space", async () => {
    const testApp = await open({ config: { engine: { workers: 1 }, limits: { max_queued: 1 } } });
    watchChunks(testApp.engine, (_chunk, signal) => forever(signal));
    for (let i = 0; i < 3; i++) await begin(testApp);
    await until("they run", () => testApp.app.scheduler.status().running === 3);
    await begin(testApp);
    const upload = await clientOf(testApp).upload(
      new TextEncoder().encode(`SCRIPTED-AUDIO ${JSON.stringify(FOUR_CHUNKS)}`),
    );
    const refused = await testApp.as(testApp.key)("/v1/transcriptions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ audio: { upload_id: upload.id }, language: "hi" }),
    });
    expect(refused.status).toBe(429);
    // Twenty seconds of recording at half of real time on each of this machine's cores.
    expect(Number(refused.headers.get("retry-after"))).toBeWithin(1, 41);
  });
});
