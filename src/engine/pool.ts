import { statSync } from "node:fs";
import { type BrokenVariant, createBrokenVariants } from "./cpu-variants.ts";
import type { NativeFiles } from "./native-files.ts";
import {
  type DiarizeJob,
  type DiarizeOutcome,
  EngineError,
  type EngineInfo,
  type EngineModel,
  type OnSpeechFound,
  type PoolJob,
  type SpeechJob,
  type SpeechRegion,
  type WorkerOutcome,
  type WorkerReply,
} from "./protocol.ts";
import { createResidentModels, type ModelStatus, type ResidentOptions } from "./resident-models.ts";
import {
  createWorkerHost,
  type HostOptions,
  type HostRequest,
  type RunOptions,
  type WorkerHost,
} from "./worker-host.ts";
import type { spawnWorker } from "./worker-process.ts";

export type PoolOptions = ResidentOptions & {
  nativeFiles: NativeFiles;
  /** Folders an admin puts GPU backends into. */
  backendDirs: string[];
  /** Starts a process; replaced in tests. */
  spawn?: typeof spawnWorker;
};

export type PoolStatus = {
  engine: EngineInfo | undefined;
  models: ModelStatus[];
  /** Code for this processor that ended workers and is not used any more. */
  brokenVariants: BrokenVariant[];
};
export type Pool = ReturnType<typeof createPool>;

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
  let speech: WorkerHost | undefined;
  let neural: { host: WorkerHost; users: number } | undefined;
  let isClosed = false;

  const brokenVariants = createBrokenVariants();
  const hostOptions = { ...hostOptionsOf(options), brokenVariants };
  const models = createResidentModels(options, hostOptions);
  // Speech and speakers are told on the processor; a GPU's driver would only take memory there.
  const neuralOptions: HostOptions = { ...hostOptions, backendDirs: [], opens: [] };
  const speechOptions: HostOptions = { ...neuralOptions, opens: ["speech"] };

  /**
   * Installed weights can neither be interrupted nor trusted: they have a process of their own, one recording at a
   * time, that ends with the last one and gives its memory back.
   */
  async function neurally(request: HostRequest, audioMs: number, signal: AbortSignal): Promise<WorkerReply> {
    const current = neural ?? { host: createWorkerHost(neuralOptions), users: 0 };
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
     * Recognizes one chunk.
     * @throws EngineError
     */
    async recognize(job: PoolJob, signal: AbortSignal): Promise<WorkerOutcome> {
      const { audio, settings, threads } = job;
      const request = { type: "transcribe", audio, settings, threads } as const;
      const runOptions: RunOptions = { signal, timeoutMs: job.timeoutMs, isAlone: job.isAlone };
      const reply = await models.withModel(job.model, signal, (host) => host.request(request, runOptions));
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
    warm: (model: EngineModel, signal: AbortSignal) =>
      models.withModel(model, signal, (host) => host.warm(signal)),

    /** Starts the process that finds speech before anybody asks for it. */
    async warmSpeech(signal: AbortSignal): Promise<void> {
      if (isClosed) throw new EngineError("interrupted", "the engine is closing");
      speech ??= createWorkerHost(speechOptions);
      await speech.warm(signal);
    },

    status(): PoolStatus {
      const statuses = models.hosts().map(({ modelId, host }) => ({ modelId, ...host.status() }));
      return {
        engine: statuses.find(({ facts }) => facts)?.facts,
        models: statuses.map(({ facts: _facts, ...status }) => status),
        brokenVariants: brokenVariants.list(),
      };
    },

    async close(): Promise<void> {
      isClosed = true;
      const others = [speech, neural?.host].filter((host) => host !== undefined);
      await Promise.all([models.close(), ...others.map((host) => host.stop(true))]);
    },
  };
}

/** What every process of a pool is started with. */
export function hostOptionsOf({
  nativeFiles,
  backendDirs,
  log,
  spawn,
}: PoolOptions): Omit<HostOptions, "opens"> {
  return { nativeFiles, backendDirs, log, ...(spawn ? { spawn } : {}) };
}
