import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createChunkTimes } from "../../engine/chunk-times.ts";
import { createLocalExecutor } from "../../engine/local-executor.ts";
import type { ChunkJob, EngineModel, WorkerReply } from "../../engine/protocol.ts";
import { createPool, type Pool, type PoolOptions } from "../../engine/workers/pool.ts";
import { spawnWorker, type WorkerProcess } from "../../engine/workers/worker-process.ts";
import type { ModelFamily } from "../../families/contract.ts";
import type { NativeFiles } from "../../native/native-files.ts";
import { spawnScripted } from "../scripted-family/recognizer.ts";
import type { Disturbance, ExecutorHarness } from "./executor-contract.ts";
import { engineOptions } from "./test-config.ts";

/** Pools of this machine for `executor-contract.ts`, whose processes can be disturbed. */

const SECONDS = 5;
export const HUNG_AFTER_MS = 2_500;
const PATIENCE_MS = 60_000;

/** Weights that can be loaded, and weights that cannot. */
export type Files = { good: EngineModel["files"]; bad: EngineModel["files"] };

/** Makes a chunk of the recording `speech.pcm` in a folder, and the same chunk with its audio in the message. */
export function jobsOf(
  folder: string,
  family: ModelFamily,
  model: EngineModel,
): { job: ChunkJob; bytesJob: ChunkJob } {
  const totalSamples = SECONDS * 16_000;
  const pcmPath = join(folder, "speech.pcm");
  const languages = [{ code: "en", name: "English", modes: ["native" as const] }];
  const settings = family.settingsFor({ language: "en", mode: "native" }, { languages, decoding: {} });
  const slices = [{ sourceStartSample: 0, samples: totalSamples, targetStartSample: 0 }];
  const job: ChunkJob = {
    ...{ model, windowMs: family.windowMs, settings, sharers: 1, isAlone: false },
    audio: { pcmPath, slices, totalSamples },
  };
  const pcm = new Uint8Array(readFileSync(pcmPath).subarray(0, totalSamples * 2));
  return { job, bytesJob: { ...job, audio: { pcm, totalSamples } } };
}

function executorOf(pool: Pool, hungAfterMs: () => number) {
  const times = { ...createChunkTimes(), timeoutMs: hungAfterMs };
  const machine = { cores: 4, availableMemoryBytes: 8 * 1024 ** 3 };
  return createLocalExecutor(pool, { engine: engineOptions({ background_niceness: 0 }), machine, times });
}

type Disturb = (how: Disturbance | undefined) => void;

/** The local pool, its processes started by `spawn`. */
export function openLocal(
  folder: string,
  name: EngineModel["family"],
  family: ModelFamily,
  { good, bad }: Files,
  spawn: (disturbance: () => Disturbance | undefined) => PoolOptions["spawn"],
  native: NativeFiles,
): ExecutorHarness {
  let how: Disturbance | undefined;
  const pool = createPool({
    ...{ nativeFiles: native, backendDirs: [], log: () => {} },
    engine: engineOptions({ device: "cpu", model_idle_seconds: 0, speech_workers: 1 }),
    availableBytes: () => Number.POSITIVE_INFINITY,
    spawn: spawn(() => how) ?? spawnWorker,
  });
  // A busy machine may need a long time even for an undisturbed chunk.
  const executor = executorOf(pool, () => (how === "hang" ? HUNG_AFTER_MS : PATIENCE_MS));
  const jobs = jobsOf(folder, family, { id: "m", version: "1", family: name, files: good });
  const disturb: Disturb = (next) => {
    how = next;
  };
  return {
    executor: {
      ...executor,
      recognize: (job, signal) => {
        const files = how === "unusable" ? bad : good;
        const audio = how === "fail" ? { pcm: new Uint8Array(2), totalSamples: 9 } : job.audio;
        return executor.recognize({ ...job, audio, model: { ...job.model, files } }, signal);
      },
    },
    ...jobs,
    disturb,
    close: () => pool.close(),
  };
}

/** Worker processes as closures, whose replies can be lost or doubled. */
export function spawnDisturbed(
  disturbance: () => Disturbance | undefined,
): NonNullable<PoolOptions["spawn"]> {
  return (onReply) => {
    let crash = () => {};
    const process = spawnScripted((reply: WorkerReply) => {
      onReply(reply);
      if (disturbance() === "twice" && "id" in reply) onReply(reply);
    });
    const exited = Promise.race([
      process.exited,
      new Promise<Awaited<WorkerProcess["exited"]>>((resolve) => {
        crash = () => resolve({ code: null, signal: "SIGSEGV" });
      }),
    ]);
    return {
      ...process,
      exited,
      send(request) {
        const how = disturbance();
        if (request.type === "transcribe" && how === "crash") crash();
        else if (request.type === "start" || request.type === "load" || how !== "hang") process.send(request);
      },
    };
  };
}

/** Real processes, which can be killed and stopped. */
export function spawnReal(disturbance: () => Disturbance | undefined): NonNullable<PoolOptions["spawn"]> {
  return (onReply, log) => {
    const worker = spawnWorker(onReply, log);
    return {
      ...worker,
      send(request) {
        worker.send(request);
        if (request.type !== "transcribe") return;
        if (disturbance() === "crash") process.kill(worker.pid, "SIGSEGV");
        if (disturbance() === "hang") process.kill(worker.pid, "SIGSTOP");
      },
    };
  };
}
