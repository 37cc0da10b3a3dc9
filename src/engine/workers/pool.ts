import type { ModelFiles } from "../../domain/model.ts";
import { type BrokenVariant, createBrokenVariants } from "../../native/cpu-variants.ts";
import { pcmDurationMs } from "../../native/decoder/pcm-file.ts";
import type { NativeFiles } from "../../native/native-files.ts";
import { measureMachine } from "../machine.ts";
import {
  type DiarizeJob,
  type DiarizeOutcome,
  EngineError,
  type EngineInfo,
  type EngineModel,
  type OnSpeakersHeard,
  type OnSpeechFound,
  type PoolJob,
  type PunctuateJob,
  type PunctuateOutcome,
  type SpeechJob,
  type SpeechRegion,
  type WorkerOutcome,
  type WorkerReply,
} from "../protocol.ts";
import { chooseSpeechWorkers } from "../sizing.ts";
import { createNeuralDiarization } from "./neural-diarization.ts";
import { createPassingProcess } from "./passing-process.ts";
import {
  createResidentModels,
  type DraftTokens,
  type ModelStatus,
  type ResidentOptions,
} from "./resident-models.ts";
import { createSpeechProcesses } from "./speech-processes.ts";
import type { HostOptions, RunOptions } from "./worker-host.ts";
import type { spawnWorker } from "./worker-process.ts";

export type PoolOptions = ResidentOptions & {
  nativeFiles: NativeFiles;
  /** Folders into which an admin puts GPU backends. */
  backendDirs: string[];
  /** Starts a process; replaced in tests. */
  spawn?: typeof spawnWorker;
};

export type PoolStatus = {
  /** What a process of a model in memory found on this machine; undefined while there is none. */
  engine: EngineInfo | undefined;
  models: ModelStatus[];
  /** Code for this processor that ended worker processes and is not used any more. */
  brokenVariants: BrokenVariant[];
};

/**
 * The worker processes of this machine: one for each model in use, which holds the weights once for all its chunks;
 * some that find speech and distinguish speakers by their sound; and, while they are needed, one that distinguishes speakers
 * with installed weights and one that finds punctuation. Its methods reject with EngineError, as `WorkerHost.request` does, and with
 * `interrupted` once it is closed.
 */
export type Pool = {
  /** Recognizes one chunk. */
  recognize(job: PoolJob, signal: AbortSignal): Promise<WorkerOutcome>;
  /** Finds the speech of a PCM file. `onFound` receives final regions while the detector still reads the file. */
  detectSpeech(job: SpeechJob, signal: AbortSignal, onFound?: OnSpeechFound): Promise<SpeechRegion[]>;
  /** Distinguishes the speakers of a recording. `onHeard` is called only where weights do it. */
  diarize(job: DiarizeJob, signal: AbortSignal, onHeard?: OnSpeakersHeard): Promise<DiarizeOutcome>;
  /** Finds the punctuation of words. */
  punctuate(job: PunctuateJob, signal: AbortSignal): Promise<PunctuateOutcome>;
  /** Loads a model before its first chunk. */
  warm(model: EngineModel, signal: AbortSignal): Promise<void>;
  /** Starts the first process that finds speech unless it runs. */
  warmSpeech(signal: AbortSignal): Promise<void>;
  /** Returns where the model of these files was loaded last, such as `cpu`; undefined: it was not loaded. */
  deviceOf(files: ModelFiles): string | undefined;
  status(): PoolStatus;
  /** Ends all processes for good. */
  close(): Promise<void>;
};

/** Finding speech runs at a hundred times real time and more; a process that needs longer than the audio is stuck. */
const SPEECH_TIMEOUT_FLOOR_MS = 60_000;

/** Far beyond what a net needs for a word; then it is stuck. The first request also loads it. */
const PUNCTUATION_TIMEOUT_FLOOR_MS = 60_000;
const PUNCTUATION_TIMEOUT_FACTOR_MS = 50;
/** Recordings of a queue follow one another, and each would load the model again. */
const PUNCTUATION_IDLE_MS = 60_000;

export function createPool(options: PoolOptions): Pool {
  const brokenVariants = createBrokenVariants();
  const hostOptions = { ...hostOptionsOf(options), brokenVariants };
  const models = createResidentModels(options, hostOptions);
  // Speech and speakers are found on the processor. A GPU's driver would only take memory in these processes.
  const withoutGpu: HostOptions = { ...hostOptions, backendDirs: [], opens: [] };
  const neural = createNeuralDiarization(withoutGpu);
  const punctuation = createPassingProcess(withoutGpu, PUNCTUATION_IDLE_MS);
  const speech = createSpeechProcesses(
    { ...withoutGpu, opens: ["speech"] },
    chooseSpeechWorkers(options.engine.speech_workers, measureMachine()),
  );
  /** By model, also of processes that have ended. */
  const drafts = new Map<string, DraftTokens>();
  let isClosed = false;

  function requireOpen(): void {
    if (isClosed) throw new EngineError("interrupted", "the engine is closing");
  }

  return {
    async recognize(job, signal) {
      const { model, timeoutMs, isAlone, ...chunk } = job;
      const request = { type: "transcribe", ...chunk } as const;
      const runOptions: RunOptions = { signal, timeoutMs, isAlone };
      const reply = await models.withModel(model, signal, (host) => host.request(request, runOptions));
      const { draft, ...outcome } = expectReply(reply, "transcribed").outcome;
      if (draft) count(drafts, model.id, draft);
      return outcome;
    },

    async detectSpeech(job, signal, onFound) {
      const timeoutMs = SPEECH_TIMEOUT_FLOOR_MS + pcmDurationMs(job.pcmPath);
      const runOptions = { signal, timeoutMs, isAlone: false, ...(onFound ? { onFound } : {}) };
      const request = { type: "detect_speech", reportsFound: onFound !== undefined, ...job } as const;
      return expectReply(await speech.run((host) => host.request(request, runOptions)), "speech").regions;
    },

    async diarize(job, signal, onHeard) {
      requireOpen();
      const audioMs = job.tracks.reduce((sum, { pcmPath }) => sum + pcmDurationMs(pcmPath), 0);
      const request = { type: "diarize", job } as const;
      const timeoutMs = SPEECH_TIMEOUT_FLOOR_MS + audioMs;
      const reply = job.weights
        ? await neural.request(request, audioMs, signal, onHeard)
        : await speech.run((host) => host.request(request, { signal, timeoutMs, isAlone: false }));
      return expectReply(reply, "diarized").outcome;
    },

    async punctuate(job, signal) {
      requireOpen();
      const timeoutMs = PUNCTUATION_TIMEOUT_FLOOR_MS + job.words.length * PUNCTUATION_TIMEOUT_FACTOR_MS;
      const reply = await punctuation.request({ type: "punctuate", job }, { signal, timeoutMs });
      return expectReply(reply, "punctuated").outcome;
    },

    warm: (model, signal) => models.withModel(model, signal, (host) => host.warm(signal)),

    warmSpeech: speech.warm,

    deviceOf: models.deviceOf,

    status() {
      const statuses = models.hosts().map(({ modelId, draftId, host }) => {
        const draft =
          drafts.get(modelId) ?? (draftId === undefined ? undefined : { drafted: 0, accepted: 0 });
        return { modelId, draftId, draft, ...host.status() };
      });
      return {
        engine: statuses.find(({ info }) => info)?.info,
        models: statuses.map(({ info, ...status }) => ({ ...status, cpuVariant: info?.cpuVariant })),
        brokenVariants: brokenVariants.list(),
      };
    },

    async close() {
      isClosed = true;
      await Promise.all([models.close(), neural.close(), punctuation.close(), speech.close()]);
    },
  };
}

function count(drafts: Map<string, DraftTokens>, modelId: string, { drafted, accepted }: DraftTokens): void {
  const known = drafts.get(modelId);
  drafts.set(modelId, {
    drafted: (known?.drafted ?? 0) + drafted,
    accepted: (known?.accepted ?? 0) + accepted,
  });
}

/** @throws EngineError `failed` for a reply to something else */
function expectReply<T extends WorkerReply["type"]>(
  reply: WorkerReply,
  type: T,
): Extract<WorkerReply, { type: T }> {
  if (reply.type !== type) throw new EngineError("failed", "the worker gave an unexpected answer");
  return reply as Extract<WorkerReply, { type: T }>;
}

/** Returns what every process of a pool is started with. */
export function hostOptionsOf(options: PoolOptions): Omit<HostOptions, "opens"> {
  const { nativeFiles, backendDirs, engine, log, spawn } = options;
  return { nativeFiles, backendDirs, engine, log, ...(spawn ? { spawn } : {}) };
}
