import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { getPriority } from "node:os";
import { WORKER_COMMAND } from "../engine/protocol.ts";
import type { ApiClient } from "../testing/answers/api-client.ts";
import { threadsOf } from "../testing/boxes/threads.ts";
import { type Installation, install, type RunningServer, reached, uploaded } from "./kit.ts";
import { argumentsOf, descendantsOf } from "./processes.ts";
import { concatenated, sampleBytes } from "./samples.ts";

/** What the system does first: recognition that a client waits for, before that of the background. */

/** Not the difference between a worker process and the server, which a process that starts has for a moment. */
const BACKGROUND_NICENESS = 4;
/** The system knows 19 at most, and worker processes have 5 more than the server. */
const HIGHEST_OWN_NICENESS = 10;
const SEEN_WITHIN_MS = 120_000;
const LOOK_EVERY_MS = 5;

let installation: Installation;
let server: RunningServer;
let api: ApiClient;

beforeAll(async () => {
  const environment = { SHRUTI_ENGINE_BACKGROUND_NICENESS: String(BACKGROUND_NICENESS) };
  installation = await install({ environment });
  server = await (await installation.serve()).ready();
  api = server.api();
}, 60_000);
afterAll(() => installation?.remove());

/** Returns whether a thread of a worker process is less urgent by this than the process itself. */
function isLessUrgent(by: number): boolean {
  const workers = descendantsOf(server.pid).filter((pid) => argumentsOf(pid).includes(WORKER_COMMAND));
  return workers.some((pid) => {
    const threads = threadsOf(pid);
    const own = threads.find(({ id }) => id === pid)?.niceness ?? 0;
    return threads.some(({ niceness }) => niceness - own === by);
  });
}

/** Returns whether such a thread is there at a time while work lasts, and does not wait for the end of the work then. */
async function isSeenDuring(work: Promise<unknown>): Promise<boolean> {
  let isDone = false;
  const ended = work.finally(() => {
    isDone = true;
  });
  while (!isDone) {
    if (isLessUrgent(BACKGROUND_NICENESS)) return true;
    await Bun.sleep(LOOK_EVERY_MS);
  }
  await ended;
  return false;
}

describe.skipIf(getPriority() > HIGHEST_OWN_NICENESS)(
  "threads of worker processes (needs a run that is not nice)",
  () => {
    test("are as urgent as their process while only synchronous requests are recognized", async () => {
      const requests = async () => {
        for (let n = 0; n < 3; n++) await api.transcribe(sampleBytes("12-en-long"), { language: "en" });
      };
      expect(await isSeenDuring(requests())).toBe(false);
    }, 120_000);

    test("are less urgent by `engine.background_niceness` when they recognize in the background", async () => {
      const uploadId = await uploaded(api, concatenated(["12-en-long"], 8));
      let isSeen = false;
      const deadline = performance.now() + SEEN_WITHIN_MS;
      // A fast machine may have ended the work before it was looked at.
      while (!isSeen && performance.now() < deadline) {
        const { body } = await api.start({ audio: { upload_id: uploadId }, language: "en" });
        const ended = reached(api, body.id, undefined, SEEN_WITHIN_MS);
        isSeen = await isSeenDuring(ended);
        await api.cancel(body.id);
        await ended;
      }
      expect(isSeen).toBe(true);
    }, 300_000);
  },
);
