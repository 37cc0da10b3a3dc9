import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { silentLog } from "../lib/log.ts";
import { openAdmin } from "../services/admin.ts";
import { openTranscriptionAdmin } from "../services/transcriptions/transcription-admin.ts";
import { findTranscription, listUnfinished } from "../store/transcriptions.ts";
import { audioForm } from "../testing/answers/api-client.ts";
import type { TestApp, TestAppOptions } from "../testing/kits/open-test-app.ts";
import {
  begin,
  clientOf,
  FOUR_CHUNKS,
  forever,
  until,
  usageOf,
  watchChunks,
  workFiles,
} from "../testing/kits/scheduler-kit.ts";
import { type Interference, scriptedAudio } from "../testing/kits/scripted-engine.ts";
import { testAppOpener } from "../testing/kits/test-app-opener.ts";

/** Cancelled work ends at once in every state, costs nothing and leaves nothing (docs/decisions/transcriptions.md). */

/** Time within which the engine must stop such work. */
const STOPS_WITHIN_MS = 2_000;
const CREDIT_PAISE = 1_000_000;

const openApp = testAppOpener();
const open = (options: TestAppOptions = {}): Promise<TestApp> =>
  openApp({
    creditPaise: CREDIT_PAISE,
    ...options,
    config: { server: { drain_seconds: 1 }, ...options.config },
  });
const stateOf = (testApp: TestApp, id: string) => findTranscription(testApp.app.database.store, id)?.state;

/** Work that the engine never finishes, and the state of the transcription that waits for it. */
type Stuck = { title: string; state: string; at: keyof Interference };
const STUCK: Stuck[] = [
  { title: "preparing, while the recording is decoded", state: "preparing", at: "decode" },
  { title: "preparing, in search of speech", state: "preparing", at: "speech" },
  { title: "transcribing", state: "transcribing", at: "chunk" },
  { title: "finalizing, while speakers are distinguished", state: "finalizing", at: "speakers" },
];

/** Lets the engine hang at one kind of work. Counts how often that work began, and how often it was aborted. */
function hang(testApp: TestApp, at: keyof Interference) {
  const calls = { asked: 0, aborted: 0 };
  const never = (_job: unknown, signal: AbortSignal): Promise<never> => {
    calls.asked++;
    return forever(signal).finally(() => calls.aborted++);
  };
  testApp.engine.interfere({ [at]: never });
  return calls;
}

/** Expects that nothing runs, waits, is charged, is reserved or is left on the disk. */
async function expectNothingLeft(testApp: TestApp): Promise<void> {
  const { scheduler } = testApp.app;
  await until("its run has ended", () => scheduler.status().running === 0, STOPS_WITHIN_MS);
  expect(scheduler.status()).toMatchObject({
    slots: { running: 0, waiting: 0 },
    synchronousPlacesTaken: 0,
  });
  expect(workFiles(testApp)).toEqual([]);
  const { credit, data } = await usageOf(testApp);
  expect(credit).toEqual({
    balance_paise: CREDIT_PAISE,
    reserved_paise: 0,
    available_paise: CREDIT_PAISE,
  });
  expect(data).toMatchObject([{ state: "cancelled", amount_paise: 0, billed_seconds: 0 }]);
}

describe("a cancelled transcription", () => {
  for (const { title, state, at } of STUCK) {
    test(`that is ${title}: the engine is aborted at once, nothing is charged and nothing is left`, async () => {
      const testApp = await open();
      const calls = hang(testApp, at);
      const id = await begin(testApp, FOUR_CHUNKS, { diarization: true });
      await until("the engine is at it", () => calls.asked > 0);
      // Speakers are distinguished beside the last chunks.
      await until(`it is ${state}`, () => stateOf(testApp, id) === state);
      expect((await usageOf(testApp)).credit.reserved_paise).toBeGreaterThan(0);
      const before = performance.now();
      const answer = await clientOf(testApp).cancel(id);
      expect(answer).toMatchObject({ id, state: "cancelled" });
      expect(answer.finished_at).toBeString();
      await until("the engine was aborted", () => calls.aborted === calls.asked, STOPS_WITHIN_MS);
      expect(performance.now() - before).toBeLessThan(STOPS_WITHIN_MS);
      await expectNothingLeft(testApp);
      expect(await clientOf(testApp).cancel(id)).toEqual(answer);
    });
  }

  test("that is queued never starts", async () => {
    const testApp = await open({ config: { engine: { workers: 1 } } });
    watchChunks(testApp.engine, (_chunk, signal) => forever(signal));
    const ids = [];
    for (let i = 0; i < 5; i++) ids.push(await begin(testApp));
    const last = ids.at(-1) ?? "";
    await until("the first ones run", () => testApp.app.scheduler.status().running === 3);
    expect(await clientOf(testApp).get(last)).toMatchObject({ state: "queued", queue_position: 1 });
    const { data } = await clientOf(testApp).list();
    expect(data.find(({ id }) => id === last)).toMatchObject({ state: "queued", queue_position: 1 });
    const reserved = async () => (await usageOf(testApp)).credit.reserved_paise;
    const each = (await reserved()) / 5;
    expect((await clientOf(testApp).cancel(last)).state).toBe("cancelled");
    expect(await reserved()).toBe(4 * each);
    for (const id of ids) await clientOf(testApp).cancel(id);
    await until("all runs have ended", () => testApp.app.scheduler.status().running === 0);
    expect(findTranscription(testApp.app.database.store, last)).toMatchObject({
      state: "cancelled",
      startedAt: null,
    });
    expect((await usageOf(testApp)).credit).toMatchObject({
      balance_paise: CREDIT_PAISE,
      reserved_paise: 0,
    });
    expect(workFiles(testApp)).toEqual([]);
  });

  test("by another process, such as the command line, stops the engine as well", async () => {
    const testApp = await open();
    const calls = hang(testApp, "speakers");
    const id = await begin(testApp, FOUR_CHUNKS, { diarization: true });
    await until("its speakers are distinguished", () => calls.asked > 0);
    const { clock, config } = testApp;
    const admin = openAdmin({ config, clock, log: silentLog });
    openTranscriptionAdmin(admin).cancelById(id);
    admin.close();
    await until("the engine was aborted", () => calls.aborted === 1, STOPS_WITHIN_MS);
    await expectNothingLeft(testApp);
  });

  for (const at of ["chunk", "speakers"] as const) {
    test(`is not changed by an engine that finishes its ${at} nevertheless`, async () => {
      const testApp = await open();
      const late = Promise.withResolvers<undefined>();
      let asked = 0;
      const unheeding = () => {
        asked++;
        return late.promise;
      };
      testApp.engine.interfere({ [at]: unheeding });
      const id = await begin(testApp, FOUR_CHUNKS, { diarization: true });
      await until("the engine is at it", () => asked > 0);
      await clientOf(testApp).cancel(id);
      late.resolve(undefined);
      await expectNothingLeft(testApp);
      expect(stateOf(testApp, id)).toBe("cancelled");
    });
  }
});

describe("a synchronous request whose client has gone away", () => {
  /** Sends a synchronous request to a listening server. `leave` closes its connection. */
  function ask(testApp: TestApp): { leave(): void } {
    const leaving = new AbortController();
    const answer = testApp.as(testApp.key)("/v1/audio/transcriptions", {
      method: "POST",
      body: audioForm(scriptedAudio(FOUR_CHUNKS), { language: "hi", diarization: "true" }),
      signal: leaving.signal,
    });
    // The client that would read the result is gone.
    answer.catch(() => undefined);
    return { leave: () => leaving.abort() };
  }

  for (const { title, state, at } of STUCK) {
    test(`is cancelled while ${title}`, async () => {
      const testApp = await open({ listens: true });
      const calls = hang(testApp, at);
      const request = ask(testApp);
      await until("the engine is at it", () => calls.asked > 0);
      const unfinished = () => listUnfinished(testApp.app.database.store)[0];
      await until(`it is ${state}`, () => unfinished()?.state === state);
      const row = unfinished();
      expect(row?.submission).toBe("synchronous");
      const before = performance.now();
      request.leave();
      await until("it is cancelled", () => stateOf(testApp, row?.id ?? "") === "cancelled", STOPS_WITHIN_MS);
      await until("the engine was aborted", () => calls.aborted === calls.asked, STOPS_WITHIN_MS);
      expect(performance.now() - before).toBeLessThan(STOPS_WITHIN_MS);
      await until("its place is free", () => testApp.app.scheduler.status().synchronousPlacesTaken === 0);
      await expectNothingLeft(testApp);
    });
  }

  test("ends while its file is verified: nothing was accepted yet", async () => {
    const testApp = await open({ listens: true });
    const calls = hang(testApp, "verify");
    const request = ask(testApp);
    await until("the engine is at it", () => calls.asked > 0);
    request.leave();
    await until("the engine was aborted", () => calls.aborted === 1, STOPS_WITHIN_MS);
    const incoming = join(testApp.directory, "incoming");
    await until("its file is gone", () => readdirSync(incoming).length === 0);
    expect((await clientOf(testApp).list()).data).toEqual([]);
    expect((await usageOf(testApp)).data).toEqual([]);
    expect(testApp.app.scheduler.status().synchronousPlacesTaken).toBe(0);
  });
});
