import { afterAll, beforeAll } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pcmOf } from "../e2e/samples.ts";
import { familyOf } from "../pipeline/families/families.ts";
import type { ModelFamily } from "../pipeline/families/family.ts";
import { type Disturbance, describeExecutor, type ExecutorHarness } from "../testing/executor-contract.ts";
import { NO_NATIVE_FILES } from "../testing/native-files.ts";
import { createScriptedEngine, scriptedAudio } from "../testing/scripted-engine.ts";
import {
  SCRIPTED_FAMILY,
  scriptedFamily,
  scriptedFiles,
  spawnScripted,
} from "../testing/scripted-recognizer.ts";
import { createChunkTimes } from "./chunk-times.ts";
import { createLocalExecutor } from "./local-executor.ts";
import { extractNativeFiles, type NativeFiles } from "./native-files.ts";
import { type ChunkJob, EngineError, type EngineModel, type WorkerReply } from "./protocol.ts";
import { createPool, type Pool, type PoolOptions } from "./workers/pool.ts";
import { spawnWorker, type WorkerProcess } from "./workers/worker-process.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-executor-"));
const SECONDS = 5;
const HUNG_AFTER_MS = 2_500;
const PATIENCE_MS = 60_000;
let nativeFiles: NativeFiles;

beforeAll(async () => {
  nativeFiles = await extractNativeFiles(folder);
  writeFileSync(join(folder, "speech.pcm"), new Uint8Array(pcmOf("04-en").buffer));
  for (const name of ["scripted", "broken"]) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, "model.txt"), "turn on the light");
  }
  writeFileSync(join(folder, "scripted/tokens.txt"), "turn\non\nthe\nlight");
  writeFileSync(join(folder, "broken/weights.bin"), "no weights");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Weights that can be loaded, and weights that cannot. */
type Files = { good: EngineModel["files"]; bad: EngineModel["files"] };

function jobsOf(family: ModelFamily, model: EngineModel): { job: ChunkJob; bytesJob: ChunkJob } {
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
  const wanted = { workers: "auto", threadsPerWorker: "auto" } as const;
  const machine = { cores: 4, availableMemoryBytes: 8 * 1024 ** 3 };
  return createLocalExecutor(pool, { wanted, machine, times });
}

type Disturb = (how: Disturbance | undefined) => void;

/** The local pool, its processes started by `spawn`. */
function openLocal(
  name: EngineModel["family"],
  family: ModelFamily,
  { good, bad }: Files,
  spawn: (disturbance: () => Disturbance | undefined) => PoolOptions["spawn"],
  native: NativeFiles,
): ExecutorHarness {
  let how: Disturbance | undefined;
  const pool = createPool({
    ...{ nativeFiles: native, backendDirs: [], device: "cpu", modelIdleMs: 0, log: () => {} },
    availableBytes: () => Number.POSITIVE_INFINITY,
    spawn: spawn(() => how) ?? spawnWorker,
  });
  // A busy machine may need a long time even for an undisturbed chunk.
  const executor = executorOf(pool, () => (how === "hang" ? HUNG_AFTER_MS : PATIENCE_MS));
  const jobs = jobsOf(family, { id: "m", version: "1", family: name, files: good });
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
function spawnDisturbed(disturbance: () => Disturbance | undefined): NonNullable<PoolOptions["spawn"]> {
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
function spawnReal(disturbance: () => Disturbance | undefined): NonNullable<PoolOptions["spawn"]> {
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

async function openScriptedEngine(): Promise<ExecutorHarness> {
  const engine = createScriptedEngine({ hungAfterMs: HUNG_AFTER_MS });
  engine.setCapacity((bytes) => ({ chunks: bytes > 1e9 ? 1 : 2, power: 2, isElastic: true }));
  const path = join(folder, "recording");
  const directory = `${join(folder, "recording")}.audio`;
  writeFileSync(path, scriptedAudio({ seconds: SECONDS, text: "turn on the light" }));
  const signal = new AbortController().signal;
  const decoded = await engine.decode({ path, directory, channels: "mix", maxDurationMs: 60_000 }, signal);
  const [pcmPath = ""] = decoded.files;
  const model: EngineModel = { id: "m", version: "1", family: "whisper", files: {} };
  const { job } = jobsOf(scriptedFamily, model);
  const slices = [{ sourceStartSample: 0, samples: statSync(pcmPath).size / 2, targetStartSample: 0 }];
  const KINDS = { crash: "crashed", fail: "failed", unusable: "unusable_model" } as const;
  return {
    executor: engine,
    job: { ...job, audio: { ...job.audio, pcmPath, slices } },
    disturb(how) {
      if (how === undefined || how === "twice") return engine.interfere({});
      engine.interfere({
        chunk: async () => {
          if (how === "hang") return new Promise<undefined>(() => {});
          throw new EngineError(KINDS[how], "as scripted");
        },
      });
    },
    close: engine.close,
  };
}

describeExecutor({
  name: "the local pool, whisper in its processes",
  open: async () => {
    const good = { weights: join(import.meta.dir, "../../models/demo.bin") };
    const bad = { weights: join(folder, "broken/weights.bin") };
    return openLocal("whisper", familyOf("whisper"), { good, bad }, spawnReal, nativeFiles);
  },
  // A real process cannot be made to reply twice.
  without: ["twice"],
});

describeExecutor({
  name: "the local pool, a scripted recognizer in its processes",
  open: async () => {
    const good = scriptedFiles(join(folder, "scripted"));
    const bad = scriptedFiles(join(folder, "broken"));
    return openLocal(SCRIPTED_FAMILY, scriptedFamily, { good, bad }, spawnDisturbed, NO_NATIVE_FILES);
  },
});

describeExecutor({
  name: "the scripted engine",
  open: openScriptedEngine,
  // It exchanges no messages, and recognizes recordings by their files.
  without: ["twice", "bytes"],
});
