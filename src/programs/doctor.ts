import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "../config/schema.ts";
import type { InstalledModel } from "../domain/model.ts";
import type { Engine } from "../engine/engine.ts";
import { measureMachine } from "../engine/machine.ts";
import { createModelNeeds } from "../engine/model-needs.ts";
import type { ChunkJob, EngineInfo } from "../engine/protocol.ts";
import { chooseSizing, type SizingInfo } from "../engine/sizing.ts";
import type { PoolStatus } from "../engine/workers/pool.ts";
import { FAMILIES } from "../families/families.ts";
import { errorMessage } from "../lib/error-message.ts";
import { describeBroken } from "../native/cpu-variants.ts";
import { describeDraftUse } from "../services/models/draft-model.ts";
import type { ModelService } from "../services/models/models.ts";
import type { LocalOptions } from "./local.ts";
import { openLocalParts } from "./local.ts";

export type EngineReport = {
  whisperVersion: string;
  /** Models whose files have changed since they were added. */
  damagedModels: string[];
  /** Models that are too large to be read here to their end. */
  unreadModels: string[];
  /** Choices of models for languages that cannot be followed. */
  routeProblems: string[];
  /** For which models the draft model drafts; left out: none is named. */
  draft?: string;
  /** What keeps it from being of use. */
  draftProblems: string[];
  cpuVariant: string;
  devices: string[];
  backendFailures: string[];
  /** Code for this processor that ended worker processes. */
  avoidedCode: string[];
  model: string;
  /** How many chunks `serve` would recognize side by side. */
  workers: string;
  speeds: string[];
};

const SAMPLE_RATE_HZ = 16_000;
const WINDOW_SECONDS = 30;
const ROUNDS = 2;
/** A first round of this length is measured itself: what it pays for the beginning is little of it. */
const LONG_ROUND_MS = 1_000;
/** Enough for tens of gigabytes from a quick disk. */
const READ_WITHIN_MS = 30_000;
const GIB = 1024 ** 3;

/**
 * Starts the engine with the default model, and measures how many windows it recognizes with few chunks of many threads
 * and with many chunks of one thread: the choice behind `engine.workers`.
 *
 * @throws AppError when there is no default model; EngineError or Error when the engine cannot work
 */
export async function examineEngine(options: LocalOptions): Promise<EngineReport> {
  const { engine, gpuFreeBytes, probed, models, close } = await openLocalParts(withSharedThreads(options));
  try {
    const read = await readModels(models);
    const model = await warmDefault(engine, models, read.damagedModels);
    const machine = measureMachine();
    // Not more than there is memory for.
    const most = Math.min(machine.cores, engine.capacity(model).chunks);
    const speeds = await measureSpeeds(engine, model, machine.cores, most);
    const status = engine.status();
    const isOnGpu = gpuFreeBytes !== undefined && status.models[0]?.device !== "cpu";
    return {
      ...describeNative(status, probed),
      ...read,
      routeProblems: models.routeProblems(),
      ...describeDraft(models, status),
      model: describeModel(model, status),
      workers: describeSizing(options.config, { ...machine, ...(isOnGpu ? { gpuFreeBytes } : {}) }, model),
      speeds,
    };
  } finally {
    await close();
  }
}

/** Loads the default model. @throws Error that also names the damage that was found, which may be the cause */
async function warmDefault(
  engine: Pick<Engine, "warm">,
  models: Pick<ModelService, "resolve">,
  damages: readonly string[],
): Promise<InstalledModel> {
  try {
    const model = models.resolve(undefined);
    await engine.warm(model, new AbortController().signal);
    return model;
  } catch (cause) {
    if (damages.length === 0) throw cause;
    throw new Error([...damages, errorMessage(cause)].join("; "), { cause });
  }
}

/** Compares the files of all models with their SHA-256, for `READ_WITHIN_MS` in all. */
async function readModels(
  models: Pick<ModelService, "list" | "verify" | "verifySpeakerWeights" | "verifyPunctuation">,
): Promise<Pick<EngineReport, "damagedModels" | "unreadModels">> {
  const signal = AbortSignal.timeout(READ_WITHIN_MS);
  const damagedModels: string[] = [];
  const unreadModels: string[] = [];
  for (const { id } of models.list()) {
    try {
      const { problems } = await models.verify(id, signal);
      damagedModels.push(...problems.map((problem) => `${id}: ${problem}`));
    } catch (error) {
      if (signal.aborted)
        unreadModels.push(`${id}: too large to be read here; \`shruti models verify ${id}\` reads it`);
      else damagedModels.push(`${id}: ${errorMessage(error)}`);
    }
  }
  try {
    for (const { id, problems } of await models.verifySpeakerWeights(signal)) {
      damagedModels.push(...problems.map((problem) => `speaker weights of the kind ${id}: ${problem}`));
    }
    for (const { problems } of await models.verifyPunctuation(signal))
      damagedModels.push(...problems.map((problem) => `model of punctuation: ${problem}`));
  } catch (error) {
    if (signal.aborted) unreadModels.push("speaker weights: `shruti models verify` reads them");
    else damagedModels.push(`speaker weights: ${errorMessage(error)}`);
  }
  return { damagedModels, unreadModels };
}

/** Recognizes noise, so that the times are those of the encoder and of little else. */
async function measureSpeeds(
  engine: Engine,
  model: InstalledModel,
  cores: number,
  most: number,
): Promise<string[]> {
  const directory = mkdtempSync(join(tmpdir(), "shruti-doctor-"));
  try {
    const pcmPath = join(directory, "noise.pcm");
    writeFileSync(pcmPath, noise(WINDOW_SECONDS * SAMPLE_RATE_HZ));
    const job = jobOf(model, pcmPath);
    const recognizeAll = (chunks: number) =>
      Promise.all(
        Array.from({ length: chunks }, () =>
          engine.recognize({ ...job, sharers: chunks }, new AbortController().signal),
        ),
      );
    const speeds: string[] = [];
    for (const chunks of new Set([1, most])) {
      const threads = Math.max(1, Math.floor(cores / chunks));
      const timed = async () => {
        const startedMs = performance.now();
        await recognizeAll(chunks);
        return performance.now() - startedMs;
      };
      let tookMs = await timed();
      if (tookMs < LONG_ROUND_MS) {
        tookMs = 0;
        for (let round = 0; round < ROUNDS; round++) tookMs += (await timed()) / ROUNDS;
      }
      const ratio = (chunks * WINDOW_SECONDS * 1000) / tookMs;
      speeds.push(`${chunks} at once, ${threads} threads each: ${ratio.toFixed(1)} × real time on noise`);
    }
    return speeds;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Makes a job of one whole window. */
function jobOf(model: InstalledModel, pcmPath: string): Omit<ChunkJob, "sharers"> {
  const totalSamples = WINDOW_SECONDS * SAMPLE_RATE_HZ;
  const slices = [{ sourceStartSample: 0, samples: totalSamples, targetStartSample: 0 }];
  const language = model.languages[0]?.code ?? "en";
  const family = FAMILIES.of(model.family);
  return {
    model,
    audio: { pcmPath, slices, totalSamples },
    windowMs: family.windowMs,
    settings: family.singlePass(family.settingsFor({ language, mode: "native" }, model)),
    isAlone: false,
  };
}

/** @param probed what the backends reported before a model was loaded */
function describeNative(
  status: PoolStatus,
  probed: EngineInfo | undefined,
): Pick<EngineReport, "whisperVersion" | "cpuVariant" | "devices" | "backendFailures" | "avoidedCode"> {
  const info = probed ?? status.engine;
  // A process that has recognized something uses the final choice of code.
  const cpuVariant = status.engine?.cpuVariant ?? info?.cpuVariant;
  return {
    whisperVersion: info?.libraryVersion ?? "unknown",
    cpuVariant: cpuVariant ?? "unknown",
    devices: (info?.devices ?? []).map(
      ({ name, type, description, freeBytes }) =>
        `${name} (${type}): ${description}, ${(freeBytes / GIB).toFixed(1)} GiB of memory free`,
    ),
    backendFailures: [
      ...(info?.backendFailures ?? []).map(({ path, reason }) => `${path}: ${reason}`),
      ...status.models.flatMap(({ gpuFailure }) => (gpuFailure === undefined ? [] : [gpuFailure])),
    ],
    avoidedCode: status.brokenVariants.map(describeBroken),
  };
}

function describeDraft(
  models: Pick<ModelService, "draftUse">,
  status: PoolStatus,
): Pick<EngineReport, "draft" | "draftProblems"> {
  const use = models.draftUse();
  if (!use) return { draftProblems: [] };
  const failures = status.models.flatMap(({ modelId, draftFailure }) =>
    draftFailure === undefined || use.problems.length > 0
      ? []
      : [`${use.id} does not draft for ${modelId}: ${draftFailure}`],
  );
  return { draft: describeDraftUse(use), draftProblems: [...use.problems, ...failures] };
}

function describeModel({ id, version, notice }: InstalledModel, { models }: PoolStatus): string {
  return `${id} ${version} on ${models[0]?.device ?? "cpu"}${notice ? ` – ${notice}` : ""}`;
}

/** Lets running chunks share the cores, whatever the config says, because both ways are measured. */
function withSharedThreads({ config, ...options }: LocalOptions): LocalOptions {
  return { ...options, config: { ...config, engine: { ...config.engine, threads_per_worker: "auto" } } };
}

function describeSizing(config: Config, machine: SizingInfo, model: InstalledModel): string {
  const { workers, threads_per_worker } = config.engine;
  const sizing = chooseSizing(config.engine, machine, createModelNeeds(config)(model));
  const sharedCores = Math.max(1, Math.floor(machine.cores / sizing.workers));
  const threads = sizing.isOnGpu && sizing.threadGroups > 0 ? 1 : (sizing.threads ?? sharedCores);
  const { synchronous_workers: places } = config.engine;
  const further = places === "auto" ? 1 : places;
  return `${sizing.workers} chunks at once (${workers}), ${threads} threads each (${threads_per_worker}); ${further} further for synchronous requests (${places})`;
}

/** Makes the same 16-bit noise each time. */
function noise(samples: number): Uint8Array {
  const pcm = new Int16Array(samples);
  let state = 1;
  for (let i = 0; i < samples; i++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    pcm[i] = (state >> 16) % 2000;
  }
  return new Uint8Array(pcm.buffer);
}
