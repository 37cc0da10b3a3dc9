import { afterEach, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { ApiClient } from "../testing/answers/api-client.ts";
import { type Installation, install, reached, until, uploaded } from "./kit.ts";
import { descendantsOf, footprintOf } from "./processes.ts";
import { sampleBytes } from "./samples.ts";

/** Runs many short transcriptions. `SHRUTI_SOAK=2000` is the long mode. */

const COUNT = Number(process.env.SHRUTI_SOAK ?? 40);
const AT_ONCE = 3;
const MEASURED_TIMES = 20;
/** Garbage collectors keep some memory. Growth beyond this from the first half to the second is a leak. */
const MAX_GROWTH_MIB = 24;
/** Before this many transcriptions, buffers and caches of the programs still grow. */
const COUNT_FOR_MEMORY = 300;

type Measure = { done: number; serverMiB: number; workersMiB: number; openFiles: number; children: number };

let installation: Installation | undefined;
afterEach(() => installation?.remove());

/** Makes one transcription as clients do, with its own upload, and deletes it. Every fifth is synchronous. */
async function transcribeOne(api: ApiClient, index: number): Promise<void> {
  const [name, language] = index % 2 === 0 ? ["01-en", "en"] : ["02-hi", "hi"];
  if (index % 5 === 0) {
    const outcome = await api.transcribe(sampleBytes(name), { language }).catch((error: Error) => error);
    // Other clients may hold the synchronous place.
    if (outcome instanceof Error) expect(outcome.message).toContain("capacity_unavailable");
    return;
  }
  const uploadId = await uploaded(api, sampleBytes(name));
  const { body } = await api.start({ audio: { upload_id: uploadId }, language });
  expect((await reached(api, body.id)).state).toBe("completed");
  expect((await api.result(body.id)).segments.length).toBe(1);
  await api.remove(body.id);
}

function measure(pid: number, done: number): Measure {
  const children = descendantsOf(pid);
  const server = footprintOf(pid);
  const workers = children.map(footprintOf);
  const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
  return {
    done,
    serverMiB: Math.round(server.residentMiB),
    workersMiB: Math.round(sum(workers.map(({ residentMiB }) => residentMiB))),
    openFiles: server.openFiles + sum(workers.map(({ openFiles }) => openFiles)),
    children: children.length,
  };
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

test(
  `${COUNT} transcriptions in a row leave memory, open files, children and working files as they were`,
  async () => {
    installation = await install({
      // Further detectors end only after a minute, and processes are counted here.
      environment: {
        SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0",
        SHRUTI_LIMITS_UNPAID_ACTS_PER_SECOND: "0",
        SHRUTI_ENGINE_SPEECH_WORKERS: "1",
      },
    });
    const server = await (await installation.serve()).ready();
    const api = server.api();
    // By now, all parts that start on demand have started.
    for (let index = 0; index < 4; index++) await transcribeOne(api, index);
    await until("only the workers run", () => descendantsOf(server.pid).length === 2);
    const measures = [measure(server.pid, 0)];
    let next = 0;
    while (next < COUNT) {
      const end = Math.min(COUNT, next + Math.ceil(COUNT / MEASURED_TIMES));
      const work = async () => {
        while (next < end) await transcribeOne(api, next++);
      };
      await Promise.all(Array.from({ length: AT_ONCE }, work));
      await until("only the workers run", () => descendantsOf(server.pid).length === 2);
      measures.push(measure(server.pid, next));
    }
    if (COUNT >= COUNT_FOR_MEMORY) console.table(measures);
    const [first, last] = [measures[0], measures.at(-1)];
    expect(last?.children).toBe(first?.children ?? 0);
    // The number of this client's idle connections varies.
    expect(last?.openFiles).toBeLessThanOrEqual((first?.openFiles ?? 0) + AT_ONCE);
    expect(readdirSync(join(installation.dataDir, "work"))).toEqual([]);
    if (COUNT >= COUNT_FOR_MEMORY) {
      const halves = [measures.slice(1, measures.length / 2), measures.slice(measures.length / 2)];
      for (const key of ["serverMiB", "workersMiB"] as const) {
        const [early = 0, late = 0] = halves.map((half) => mean(half.map((one) => one[key])));
        expect(late - early).toBeLessThan(MAX_GROWTH_MIB);
      }
    }
    expect(await server.stop()).toBe(0);
  },
  60_000 + COUNT * 3_000,
);
