import { statSync } from "node:fs";
import { availableMemoryBytes } from "./machine.ts";
import type { NativeFiles } from "./native-files.ts";
import {
  type ChunkJob,
  type ChunkOutcome,
  type DevicePreference,
  type DiarizeJob,
  type DiarizeOutcome,
  EngineError,
  type EngineFacts,
  type EngineModel,
  type OnSpeechFound,
  type SpeechJob,
  type SpeechRegion,
  type WorkerReply,
} from "./protocol.ts";
import {
  createWorkerHost,
  type HostOptions,
  type HostRequest,
  type HostState,
  type RunOptions,
  type WorkerHost,
} from "./worker-host.ts";
import type { spawnWorker } from "./worker-process.ts";

export type PoolOptions = {
  nativeFiles: NativeFiles;
  /** Folders an admin puts GPU backends into. */
  backendDirs: string[];
  device: DevicePreference;
  /** Memory of the GPU that models run on, free before any is loaded; left out: they run on the processor. */
  gpuFreeBytes?: number | undefined;
  /** After so long without work a model is unloaded; 0: never. */
  modelIdleMs: number;
  log: (level: "info" | "warn", message: string, fields: Record<string, unknown>) => void;
  /** Starts a process; replaced in tests. */
  spawn?: typeof spawnWorker;
  /** Memory that is free at the moment; replaced in tests. */
  availableBytes?: () => number;
  /** How long a model may keep others waiting for its memory; replaced in tests. */
  turnMs?: number;
};

export type ModelStatus = {
  modelId: string;
  state: HostState;
  device: string | undefined;
  pid: number | undefined;
  restarts: number;
  running: number;
  /** Why it could not be loaded the last time. */
  problem: string | undefined;
  /** Why the processor does what `auto` had chosen a GPU for. */
  gpuFailure?: string | undefined;
};
export type PoolStatus = { engine: EngineFacts | undefined; models: ModelStatus[] };
export type Pool = ReturnType<typeof createPool>;

type Entry = {
  key: string;
  modelId: string;
  bytes: number;
  host: WorkerHost;
  /** Who wants it, those inside included. */
  users: number;
  /** Who has been let in. */
  inside: number;
  /** Its memory is taken, or about to be. */
  isResident: boolean;
  /** Since when somebody waits for others to give up their memory to it. */
  waitingSinceMs: number | undefined;
  idleTimer: Timer | undefined;
};

/** Room a model needs beside its weights: states, graph buffers, the process itself. */
const MEMORY_FACTOR = 1.5;
/** Loading costs seconds: a model that is at work keeps its memory so long although others wait for it. */
const TURN_MS = 30_000;
/** How often is looked whether memory has become free by itself. */
const LOOK_EVERY_MS = 500;
/** Finding speech runs at a hundred times real time and more; a worker that needs longer than the audio is stuck. */
const SPEECH_TIMEOUT_FLOOR_MS = 60_000;
const BYTES_PER_MS = 32;
/** The segmentation model with a trivial embedding took 0.1 to 0.25 of the audio's time; beyond this it is stuck. */
const NEURAL_TIMEOUT_FACTOR = 5;

/**
 * The workers of this machine: one process for each model in use, holding its weights once for all chunks that are
 * decoded side by side, and one process that finds speech and tells speakers apart.
 */
export function createPool(options: PoolOptions) {
  const models = new Map<string, Entry>();
  let speech: WorkerHost | undefined;
  let neural: { host: WorkerHost; users: number } | undefined;
  let isClosed = false;

  const hostOptions = hostOptionsOf(options);
  // Speech and speakers are told on the processor; a GPU's driver would only take memory there.
  const speechOptions = { ...hostOptions, backendDirs: [] };

  function entryFor(model: EngineModel): Entry {
    const key = `${model.id} ${model.version} ${model.weightsPath}`;
    const known = models.get(key);
    if (known) return known;
    const entry: Entry = {
      key,
      modelId: model.id,
      bytes: weightsBytes(model),
      host: createWorkerHost({
        ...hostOptions,
        load: { weightsPath: model.weightsPath, device: options.device },
      }),
      users: 0,
      inside: 0,
      isResident: false,
      waitingSinceMs: undefined,
      idleTimer: undefined,
    };
    models.set(key, entry);
    return entry;
  }

  const availableBytes = options.availableBytes ?? availableMemoryBytes;
  const turnMs = options.turnMs ?? TURN_MS;
  const changes = new Set<() => void>();

  function tellChange(): void {
    for (const wake of [...changes]) wake();
  }

  /** Resolves when somebody has left a model, or after a while: memory also changes by itself. */
  function change(): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        changes.delete(wake);
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(wake, LOOK_EVERY_MS);
      changes.add(wake);
    });
  }

  const { gpuFreeBytes } = options;
  /** A GPU's memory is another than the machine's; a model that it refused is on the processor. */
  const isOnGpu = ({ host }: Entry) => gpuFreeBytes !== undefined && host.status().device !== "cpu";
  /** Those that compete with a model for memory. */
  const rivals = (entry: Entry) =>
    [...models.values()].filter((other) => other !== entry && isOnGpu(other) === isOnGpu(entry));

  function hasMemoryFor(entry: Entry): boolean {
    const residents = rivals(entry).filter(({ isResident }) => isResident);
    // What others have been promised and not yet taken is not free, whatever the system says. A GPU is not asked
    // again: what it had at first is shared out.
    const taking =
      gpuFreeBytes !== undefined && isOnGpu(entry)
        ? { from: gpuFreeBytes, by: residents }
        : { from: availableBytes(), by: residents.filter(({ host }) => host.status().state !== "ready") };
    const bytes = [entry, ...taking.by].reduce((sum, each) => sum + each.bytes, 0);
    return taking.from >= bytes * MEMORY_FACTOR;
  }

  /**
   * Two models work at once if memory allows; else idle ones are unloaded, the least recently used first. Only who
   * has waited longest may do so: what is freed for one must not go to another.
   */
  async function makeRoomFor(entry: Entry): Promise<boolean> {
    entry.waitingSinceMs ??= performance.now();
    while (!entry.isResident && !hasMemoryFor(entry)) {
      if (longestWaiting() !== entry) return false;
      const residents = rivals(entry).filter(({ isResident }) => isResident);
      // Nothing can be freed: loading itself will tell whether the memory was enough.
      if (residents.length === 0) break;
      const idle = residents.find(({ inside }) => inside === 0);
      if (!idle) return false;
      await unload(idle);
    }
    if (!entry.isResident && longestWaiting() !== entry) return false;
    entry.isResident = true;
    entry.waitingSinceMs = undefined;
    return true;
  }

  function longestWaiting(): Entry | undefined {
    let longest: Entry | undefined;
    for (const entry of models.values()) {
      if (entry.isResident || entry.waitingSinceMs === undefined) continue;
      if (entry.waitingSinceMs < (longest?.waitingSinceMs ?? Number.POSITIVE_INFINITY)) longest = entry;
    }
    return longest;
  }

  /** A model that others have been waiting for takes no new work, so that it comes to an end and can be unloaded. */
  function mustYield(entry: Entry): boolean {
    const now = performance.now();
    return rivals(entry).some(
      ({ waitingSinceMs, isResident }) =>
        !isResident && waitingSinceMs !== undefined && now - waitingSinceMs >= turnMs,
    );
  }

  async function enter(entry: Entry, signal: AbortSignal): Promise<void> {
    while (true) {
      if (isClosed) throw new EngineError("interrupted", "the engine is closing");
      if (signal.aborted) throw new EngineError("aborted", "aborted");
      const mayEnter = entry.isResident ? !mustYield(entry) : await makeRoomFor(entry);
      // Making room takes a moment, in which another may have taken it.
      if (mayEnter && entry.isResident) break;
      await change();
    }
    entry.inside++;
  }

  async function unload(entry: Entry): Promise<void> {
    clearTimeout(entry.idleTimer);
    entry.isResident = false;
    const isForgotten = entry.users === 0;
    if (isForgotten) models.delete(entry.key);
    const wasLoaded = entry.host.status().pid !== undefined;
    await entry.host.stop(isForgotten);
    if (wasLoaded) options.log("info", "model unloaded", { model: entry.modelId });
    tellChange();
  }

  async function withModel<T>(
    model: EngineModel,
    signal: AbortSignal,
    work: (host: WorkerHost) => Promise<T>,
  ): Promise<T> {
    const entry = entryFor(model);
    clearTimeout(entry.idleTimer);
    entry.users++;
    try {
      await enter(entry, signal);
      try {
        return await work(entry.host);
      } finally {
        entry.inside--;
      }
    } finally {
      entry.users--;
      if (entry.users === 0) becomeIdle(entry);
      tellChange();
    }
  }

  function becomeIdle(entry: Entry): void {
    entry.waitingSinceMs = undefined;
    if (isClosed || models.get(entry.key) !== entry) return;
    // Most recently used last: makeRoomFor looks from the front.
    models.delete(entry.key);
    models.set(entry.key, entry);
    if (options.modelIdleMs === 0) return;
    entry.idleTimer = setTimeout(() => {
      if (entry.users === 0 && models.get(entry.key) === entry) void unload(entry);
    }, options.modelIdleMs);
    entry.idleTimer.unref();
  }

  /**
   * Installed weights can neither be interrupted nor trusted: they have a process of their own, one recording at a
   * time, that ends with the last one and gives its memory back.
   */
  async function neurally(request: HostRequest, audioMs: number, signal: AbortSignal): Promise<WorkerReply> {
    const current = neural ?? { host: createWorkerHost(speechOptions), users: 0 };
    neural = current;
    current.users++;
    try {
      const timeoutMs = SPEECH_TIMEOUT_FLOOR_MS + audioMs * NEURAL_TIMEOUT_FACTOR;
      return await current.host.request(request, { signal, timeoutMs, isAlone: true });
    } finally {
      if (--current.users === 0) {
        neural = undefined;
        await current.host.stop(true);
      }
    }
  }

  return {
    /**
     * Decodes one chunk.
     * @throws EngineError
     */
    async transcribe(job: ChunkJob, signal: AbortSignal): Promise<ChunkOutcome> {
      const request = { type: "transcribe", audio: job.audio, options: job.options } as const;
      const runOptions: RunOptions = { signal, timeoutMs: job.timeoutMs, isAlone: job.isAlone };
      const reply = await withModel(job.model, signal, (host) => host.request(request, runOptions));
      if (reply.type !== "transcribed")
        throw new EngineError("failed", "the worker gave an unexpected answer");
      return reply.outcome;
    },

    /**
     * Finds the stretches of a PCM file that hold speech; `onFound` is told of them on the way.
     * @throws EngineError
     */
    async detectSpeech(
      job: SpeechJob,
      signal: AbortSignal,
      onFound?: OnSpeechFound,
    ): Promise<SpeechRegion[]> {
      if (isClosed) throw new EngineError("interrupted", "the engine is closing");
      speech ??= createWorkerHost(speechOptions);
      const audioMs = statSync(job.pcmPath).size / BYTES_PER_MS;
      const timeoutMs = SPEECH_TIMEOUT_FLOOR_MS + audioMs;
      const runOptions = { signal, timeoutMs, isAlone: false, ...(onFound ? { onFound } : {}) };
      const request = { type: "detect_speech", isTold: onFound !== undefined, ...job } as const;
      const reply = await speech.request(request, runOptions);
      if (reply.type !== "speech") throw new EngineError("failed", "the worker gave an unexpected answer");
      return reply.regions;
    },

    /**
     * Tells the speakers of a recording apart.
     * @throws EngineError
     */
    async diarize(job: DiarizeJob, signal: AbortSignal): Promise<DiarizeOutcome> {
      if (isClosed) throw new EngineError("interrupted", "the engine is closing");
      const audioMs = job.tracks.reduce((sum, { pcmPath }) => sum + statSync(pcmPath).size / BYTES_PER_MS, 0);
      const request = { type: "diarize", job } as const;
      let reply: WorkerReply;
      if (job.weights) {
        reply = await neurally(request, audioMs, signal);
      } else {
        speech ??= createWorkerHost(speechOptions);
        const timeoutMs = SPEECH_TIMEOUT_FLOOR_MS + audioMs;
        reply = await speech.request(request, { signal, timeoutMs, isAlone: false });
      }
      if (reply.type !== "diarized") throw new EngineError("failed", "the worker gave an unexpected answer");
      return reply.outcome;
    },

    /** Loads a model before anybody asks for it. */
    warm: (model: EngineModel, signal: AbortSignal) => withModel(model, signal, (host) => host.warm(signal)),

    /** Starts the process that finds speech before anybody asks for it. */
    async warmSpeech(signal: AbortSignal): Promise<void> {
      speech ??= createWorkerHost(speechOptions);
      await speech.warm(signal);
    },

    status(): PoolStatus {
      const statuses = [...models.values()].map(({ modelId, host }) => ({ modelId, ...host.status() }));
      return {
        engine: statuses.find(({ facts }) => facts)?.facts ?? speech?.status().facts,
        models: statuses.map(({ facts: _facts, ...status }) => status),
      };
    },

    async close(): Promise<void> {
      isClosed = true;
      tellChange();
      for (const entry of models.values()) clearTimeout(entry.idleTimer);
      const hosts = [...models.values()].map(({ host }) => host);
      if (speech) hosts.push(speech);
      if (neural) hosts.push(neural.host);
      await Promise.all(hosts.map((host) => host.stop(true)));
      models.clear();
    },
  };
}

/**
 * What the native side finds on this machine, backends included, without loading a model.
 *
 * @throws EngineError when no worker can be started
 */
export async function probeEngine(options: PoolOptions, signal: AbortSignal): Promise<EngineFacts> {
  const host = createWorkerHost(hostOptionsOf(options));
  try {
    for (let attempt = 1; ; attempt++) {
      try {
        await host.warm(signal);
        break;
      } catch (error) {
        // A backend may break a worker; the host then goes on without it, or says what is wrong.
        const isWorthwhile = error instanceof EngineError && error.kind === "interrupted" && !signal.aborted;
        if (!isWorthwhile || attempt === PROBE_ATTEMPTS) throw error;
      }
    }
    return host.status().facts ?? NOTHING_FOUND;
  } finally {
    await host.stop(true);
  }
}

const PROBE_ATTEMPTS = 4;
const NOTHING_FOUND: EngineFacts = { whisperVersion: "", cpuVariant: "", devices: [], backendFailures: [] };

function hostOptionsOf({ nativeFiles, backendDirs, log, spawn }: PoolOptions): HostOptions {
  return { nativeFiles, backendDirs, log, ...(spawn ? { spawn } : {}) };
}

function weightsBytes(model: EngineModel): number {
  try {
    return statSync(model.weightsPath).size;
  } catch {
    return 0;
  }
}
