import { expect, test } from "bun:test";
import { EngineError } from "../engine/protocol.ts";
import { within } from "../lib/within.ts";
import { deleteUpload } from "../services/uploads/upload-admin.ts";
import { listUnfinished } from "../store/transcriptions.ts";
import { audioForm } from "../testing/answers/api-client.ts";
import type { TestApp } from "../testing/kits/open-test-app.ts";
import { begin, clientOf, FOUR_CHUNKS, forever, until, usageOf } from "../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";
import { testAppOpener } from "../testing/kits/test-app-opener.ts";
import { openCommand } from "../testing/programs/command-beside.ts";

/**
 * Another process ends work for which a client waits, through a connection of its own to the database. The client is
 * answered at once and its place is free, whether the work runs, has just ended by itself, or has not begun.
 */

/** The server looks at what other processes have written several times a second. Time limits are minutes. */
const ANSWERED_WITHIN_MS = 3_000;

const openApp = testAppOpener();

type EndedBy = "cancel" | "purge";

const PATHS = { strict: "/v1/audio/transcriptions", layer: "/openai/v1/audio/transcriptions" } as const;

function send(testApp: TestApp, path: keyof typeof PATHS, seconds: number, fields = {}, headers = {}) {
  const body = audioForm(scriptedAudio({ ...FOUR_CHUNKS, seconds }), { language: "hi", ...fields });
  return testApp.as(testApp.key)(PATHS[path], { method: "POST", body, headers });
}

async function codeOf(answer: Promise<Response>): Promise<string> {
  const response = await within(ANSWERED_WITHIN_MS, answer);
  if (!response) return "no answer";
  const text = await response.text();
  return /"code":"(\w+)"/.exec(text)?.[1] ?? text;
}

/**
 * Makes the first chunk fail right after the command, as it does when its files are gone.
 *
 * @returns whether the run was aborted, as far as its chunk knows
 */
function endDuringChunk(testApp: TestApp, end: () => Promise<void>): () => boolean {
  let isEnded = false;
  let isAborted = () => false;
  testApp.engine.interfere({
    async chunk(_chunk, signal) {
      if (!isEnded) {
        isEnded = true;
        isAborted = () => signal.aborted;
        await end();
      }
      throw new EngineError("failed", "ENOENT");
    },
  });
  return () => isAborted();
}

const open = (options: Parameters<typeof openApp>[0] = {}) =>
  openApp({ ...options, config: { openai: { enabled: true }, ...options.config } });

const RUNNING: [string, EndedBy, keyof typeof PATHS, number, object][] = [
  ["a synchronous request", "cancel", "strict", 20, {}],
  ["a synchronous request", "purge", "strict", 20, {}],
  ["a short recording of the OpenAI layer", "purge", "layer", 20, {}],
  ["a long recording of the OpenAI layer", "cancel", "layer", 90, {}],
  ["a stream", "purge", "layer", 90, { stream: "true" }],
  ["a stream", "cancel", "layer", 20, { stream: "true" }],
];
test.each(RUNNING)(
  "%s is answered when a %s ends its run, whether the server has looked or not",
  async (_, ending, path, seconds, fields) => {
    const testApp = await open();
    const command = openCommand(testApp);
    const isAborted = endDuringChunk(testApp, command[ending]);
    const code = await codeOf(send(testApp, path, seconds, fields));
    expect(["conflict", "content_deleted"]).toContain(code);
    const { status } = testApp.app.scheduler;
    expect(status()).toMatchObject({ synchronousPlacesTaken: 0 });
    // Where a purge takes longer than the time between two looks of the server, the server looks while it is under way. It aborts
    // the run and answers in the same step. The last words of a stream need fewer steps than the run, which leaves its
    // chunk, its slot and its files first. So such a run may still be there, aborted.
    if (status().running > 0) expect(isAborted()).toBe(true);
    await until("its run has ended", () => status().running === 0);
    command.close();
  },
);

test("a cancelled request's place goes to the next one at once, and those that share its key are answered", async () => {
  const testApp = await open({ config: { engine: { synchronous_workers: 1 } } });
  const command = openCommand(testApp);
  const reached = Promise.withResolvers<void>();
  const shared = Promise.withResolvers<void>();
  endDuringChunk(testApp, async () => {
    reached.resolve();
    await shared.promise;
    await command.cancel();
  });
  const headers = { "idempotency-key": "k" };
  const first = send(testApp, "strict", 20, {}, headers);
  await reached.promise;
  const second = send(testApp, "strict", 20, {}, headers);
  await Bun.sleep(50);
  shared.resolve();
  expect(await Promise.all([codeOf(first), codeOf(second)])).toEqual(["conflict", "conflict"]);
  testApp.engine.interfere({});
  expect((await send(testApp, "strict", 5)).status).toBe(200);
  expect((await usageOf(testApp)).data.map(({ state }) => state)).toEqual(["completed", "cancelled"]);
  command.close();
});

test.each<EndedBy>(["cancel", "purge"])(
  "a long recording that waits in the queue is answered when a %s ends it",
  async (ending) => {
    const testApp = await open({ config: { engine: { workers: 1 } } });
    testApp.engine.interfere({ chunk: (_chunk, signal) => forever(signal) });
    for (let n = 0; n < 3; n++) await begin(testApp, { seconds: 10, text: "a" });
    await until("the places are taken", () => testApp.app.scheduler.status().running === 3);
    const answer = send(testApp, "layer", 90);
    const { store } = testApp.app.database;
    await until("it waits", () => listUnfinished(store).some(({ state }) => state === "queued"));
    const command = openCommand(testApp);
    await command[ending]();
    expect(["conflict", "content_deleted"]).toContain(await codeOf(answer));
    command.close();
  },
);

test.each(["a deletion", "a purge"])(
  "an upload that is being verified is answered after %s, and its place is free",
  async (by) => {
    const testApp = await open();
    const started = Promise.withResolvers<void>();
    const stopped = Promise.withResolvers<void>();
    testApp.engine.interfere({
      verify(_path, signal) {
        started.resolve();
        return forever(signal).finally(stopped.resolve);
      },
    });
    const answer = clientOf(testApp).upload(scriptedAudio(FOUR_CHUNKS));
    const refusal = answer.then(() => "verified").catch((error: Error) => error.message);
    await started.promise;
    const command = openCommand(testApp);
    const { admin } = command;
    const [upload] = admin.database.sqlite.query<{ id: string }, []>("SELECT id FROM uploads").all();
    await (by === "a purge" ? command.purge() : deleteUpload(admin, upload?.id ?? ""));
    expect(await within(ANSWERED_WITHIN_MS, refusal)).toContain("upload_rejected");
    await stopped.promise;
    command.close();
  },
);
