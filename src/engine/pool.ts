import { statSync } from "node:fs";
import { freemem } from "node:os";
import type { NativeFiles } from "./native-files.ts";
import {
  type ChunkJob,
  type ChunkOutcome,
  type DevicePreference,
  EngineError,
  type EngineFacts,
  type EngineModel,
  type SpeechJob,
  type SpeechRegion,
} from "./protocol.ts";
import { createWorkerHost, type HostState, type RunOptions, type WorkerHost } from "./worker-host.ts";
import type { spawnWorker } from "./worker-process.ts";

export type PoolOptions = {
  nativeFiles: NativeFiles;
  /** Folders an admin puts GPU backends into. */
  backendDirs: string[];
  device: DevicePreference;
  /** After so long without work a model is unloaded; 0: never. */
  modelIdleMs: number;
  log: (level: "info" | "warn", message: string, fields: Record<string, unknown>) => void;
  /** Starts a process; replaced in tests. */
  spawn?: typeof spawnWorker;
};

export type ModelStatus = {
  modelId: string;
  state: HostState;
  device: string | undefined;
  pid: number | undefined;
  restarts: number;
  running: number;
};
export type PoolStatus = { engine: EngineFacts | undefined; models: ModelStatus[] };
export type Pool = ReturnType<typeof createPool>;

type Entry = {
  modelId: string;
  bytes: number;
  host: WorkerHost;
  users: number;
  idleTimer: Timer | undefined;
};

/** Room a model needs beside its weights: states, graph buffers, the process itself. */
const MEMORY_FACTOR = 1.5;
/** Finding speech runs at a hundred times real time and more; a worker that needs longer than the audio is stuck. */
const SPEECH_TIMEOUT_FLOOR_MS = 60_000;
const BYTES_PER_MS = 32;

/**
 * The workers of this machine: one process for each model in use, holding its weights once for all chunks that are
 * decoded side by side, and one process that finds speech.
 */
export function createPool(options: PoolOptions) {
  const models = new Map<string, Entry>();
  let speech: WorkerHost | undefined;
  let isClosed = false;

  const hostOptions = {
    nativeFiles: options.nativeFiles,
    backendDirs: options.backendDirs,
    log: options.log,
    ...(options.spawn ? { spawn: options.spawn } : {}),
  };

  function entryFor(model: EngineModel): Entry {
    const key = `${model.id} ${model.version} ${model.weightsPath}`;
    const known = models.get(key);
    if (known) return known;
    const entry: Entry = {
      modelId: model.id,
      bytes: weightsBytes(model),
      host: createWorkerHost({
        ...hostOptions,
        load: { weightsPath: model.weightsPath, device: options.device },
      }),
      users: 0,
      idleTimer: undefined,
    };
    models.set(key, entry);
    return entry;
  }

  /** Makes room by unloading models that nobody uses, the least recently used first. */
  async function makeRoomFor(entry: Entry): Promise<void> {
    if (entry.host.status().pid !== undefined) return;
    for (const [key, other] of models) {
      if (freemem() >= entry.bytes * MEMORY_FACTOR) return;
      if (other !== entry && other.users === 0) await unload(key, other);
    }
  }

  async function unload(key: string, entry: Entry): Promise<void> {
    clearTimeout(entry.idleTimer);
    models.delete(key);
    await entry.host.stop(true);
    options.log("info", "model unloaded", { model: entry.modelId });
  }

  async function withModel<T>(model: EngineModel, work: (host: WorkerHost) => Promise<T>): Promise<T> {
    if (isClosed) throw new EngineError("interrupted", "the engine is closing");
    const entry = entryFor(model);
    clearTimeout(entry.idleTimer);
    entry.users++;
    try {
      await makeRoomFor(entry);
      return await work(entry.host);
    } finally {
      entry.users--;
      if (entry.users === 0) scheduleUnload(entry);
    }
  }

  function scheduleUnload(entry: Entry): void {
    const key = [...models].find(([, known]) => known === entry)?.[0];
    if (key === undefined || isClosed) return;
    // Most recently used last: makeRoomFor walks from the front.
    models.delete(key);
    models.set(key, entry);
    if (options.modelIdleMs === 0) return;
    entry.idleTimer = setTimeout(() => {
      if (entry.users === 0 && models.get(key) === entry) void unload(key, entry);
    }, options.modelIdleMs);
    entry.idleTimer.unref();
  }

  return {
    /**
     * Decodes one chunk.
     * @throws EngineError
     */
    async transcribe(job: ChunkJob, signal: AbortSignal): Promise<ChunkOutcome> {
      const request = { type: "transcribe", audio: job.audio, options: job.options } as const;
      const runOptions: RunOptions = { signal, timeoutMs: job.timeoutMs, isAlone: job.isAlone };
      const reply = await withModel(job.model, (host) => host.request(request, runOptions));
      if (reply.type !== "transcribed")
        throw new EngineError("failed", "the worker gave an unexpected answer");
      return reply.outcome;
    },

    /**
     * Finds the stretches of a PCM file that hold speech.
     * @throws EngineError
     */
    async detectSpeech(job: SpeechJob, signal: AbortSignal): Promise<SpeechRegion[]> {
      if (isClosed) throw new EngineError("interrupted", "the engine is closing");
      speech ??= createWorkerHost(hostOptions);
      const audioMs = statSync(job.pcmPath).size / BYTES_PER_MS;
      const runOptions = { signal, timeoutMs: SPEECH_TIMEOUT_FLOOR_MS + audioMs, isAlone: false };
      const reply = await speech.request({ type: "detect_speech", pcmPath: job.pcmPath }, runOptions);
      if (reply.type !== "speech") throw new EngineError("failed", "the worker gave an unexpected answer");
      return reply.regions;
    },

    /** Loads a model before anybody asks for it. */
    warm: (model: EngineModel, signal: AbortSignal) => withModel(model, (host) => host.warm(signal)),

    /** Starts the process that finds speech before anybody asks for it. */
    async warmSpeech(signal: AbortSignal): Promise<void> {
      speech ??= createWorkerHost(hostOptions);
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
      for (const entry of models.values()) clearTimeout(entry.idleTimer);
      const hosts = [...models.values()].map(({ host }) => host);
      if (speech) hosts.push(speech);
      await Promise.all(hosts.map((host) => host.stop(true)));
      models.clear();
    },
  };
}

function weightsBytes(model: EngineModel): number {
  try {
    return statSync(model.weightsPath).size;
  } catch {
    return 0;
  }
}
