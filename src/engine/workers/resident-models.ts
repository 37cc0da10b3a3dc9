import { statSync } from "node:fs";
import type { EngineOptions } from "../../domain/engine-options.ts";
import type { ModelFiles } from "../../domain/model.ts";
import { describedFiles, modelHashOf } from "../../domain/model-hash.ts";
import { LONGEST_TIMER_MS } from "../../lib/time.ts";
import { availableMemoryBytes } from "../machine.ts";
import { EngineError, type EngineModel } from "../protocol.ts";
import { createChangeSignal } from "./change-signal.ts";
import { createModelMemory, type ResidentModel } from "./model-memory.ts";
import { createWorkerHost, type HostOptions, type HostState, type WorkerHost } from "./worker-host.ts";

export type ResidentOptions = {
  /** The settings of the engine. */
  engine: EngineOptions;
  /** Free memory of the GPU before any model is loaded; absent when models run on the processor. */
  gpuFreeBytes?: number | undefined;
  /** Returns a model's memory on the GPU with all its chunks; left out or undefined: it is guessed from its weights. */
  gpuBytesOf?: (model: EngineModel & { bytes: number }) => number | undefined;
  log: HostOptions["log"];
  /** Returns the memory that is free now; replaced in tests. */
  availableBytes?: () => number;
  /** How long a model may keep others waiting for its memory; replaced in tests. */
  turnMs?: number;
};

/** Tokens that a draft model wrote, and those of them that the large model chose, too. */
export type DraftTokens = { drafted: number; accepted: number };

export type ModelStatus = {
  modelId: string;
  state: HostState;
  device: string | undefined;
  /** Code for this processor that its process uses. */
  cpuVariant?: string | undefined;
  pid: number | undefined;
  restarts: number;
  running: number;
  /** Why the last attempt to load it failed. */
  problem: string | undefined;
  /** Why the processor does the work for which `auto` chose a GPU. */
  gpuFailure?: string | undefined;
  /** The model that drafts for it; left out: none was named. */
  draftId?: string | undefined;
  /** Why that one is not used. */
  draftFailure?: string | undefined;
  /** Tokens that were drafted since the start, and those of them that were accepted. */
  draft?: DraftTokens | undefined;
};

/**
 * The models in memory, each in a worker process of its own. A model is loaded on demand, kept while it is used, and
 * unloaded after an idle time or when another model needs its memory.
 */
export type ResidentModels = {
  /**
   * Calls `work` once there is memory for the model. The first request loads it.
   *
   * @throws EngineError `aborted`, `interrupted` when closed; what `work` throws
   */
  withModel<T>(model: EngineModel, signal: AbortSignal, work: (host: WorkerHost) => Promise<T>): Promise<T>;
  hosts(): { modelId: string; draftId: string | undefined; host: WorkerHost }[];
  /** Returns where the model of these files was loaded last; undefined: it was not, or was forgotten since. */
  deviceOf(files: ModelFiles): string | undefined;
  /** Refuses new work and ends the processes. */
  close(): Promise<void>;
};

/** A busy model keeps its memory at least this long although others wait for it, because loading takes seconds. */
const TURN_MS = 30_000;
/** Memory can become free without notice, so callers that wait look again after this time. */
const LOOK_EVERY_MS = 500;

/** @param hostOptions for the processes, without the model to load */
export function createResidentModels(
  options: ResidentOptions,
  hostOptions: Omit<HostOptions, "opens">,
): ResidentModels {
  /** The least recently used first. */
  const models = new Map<string, ResidentModel>();
  const memory = createModelMemory(() => models.values(), {
    gpuFreeBytes: options.gpuFreeBytes,
    availableBytes: options.availableBytes ?? availableMemoryBytes,
    turnMs: options.turnMs ?? TURN_MS,
  });
  const changes = createChangeSignal(LOOK_EVERY_MS);
  let isClosed = false;

  function modelFor(wanted: EngineModel): ResidentModel {
    const key = keyOf(wanted);
    const model = models.get(key) ?? newModel(key, wanted, options, hostOptions);
    models.set(key, model);
    return model;
  }

  /**
   * Makes a model resident, and unloads as many idle models as needed. Only the model that has waited longest may do
   * so, because memory that was freed for one model must not go to another.
   *
   * @returns false when the model has to wait
   */
  async function makeSpaceFor(model: ResidentModel): Promise<boolean> {
    model.waitingSinceMs ??= performance.now();
    while (!model.isResident && !memory.hasMemoryFor(model)) {
      if (memory.longestWaiting() !== model) return false;
      const residents = memory.residentRivals(model);
      // Nothing can be unloaded. Loading the model shows whether the memory suffices.
      if (residents.length === 0) break;
      const idle = residents.find(({ inside }) => inside === 0);
      if (!idle) return false;
      await unload(idle);
    }
    if (!model.isResident && memory.longestWaiting() !== model) return false;
    model.isResident = true;
    model.waitingSinceMs = undefined;
    return true;
  }

  async function enter(model: ResidentModel, signal: AbortSignal): Promise<void> {
    while (true) {
      if (isClosed) throw new EngineError("interrupted", "the engine is closing");
      if (signal.aborted) throw new EngineError("aborted", "aborted");
      const mayEnter = model.isResident ? !memory.mustYield(model) : await makeSpaceFor(model);
      // Another model may have taken the memory while this one was waiting for an unload.
      if (mayEnter && model.isResident) break;
      await changes.wait();
    }
    model.inside++;
  }

  async function unload(model: ResidentModel): Promise<void> {
    clearTimeout(model.idleTimer);
    model.isResident = false;
    const isForgotten = model.users === 0;
    if (isForgotten) models.delete(model.key);
    const wasLoaded = model.host.status().pid !== undefined;
    await model.host.stop(isForgotten);
    if (wasLoaded) options.log("info", "model unloaded", { model: model.modelId });
    changes.notify();
  }

  function becomeIdle(model: ResidentModel): void {
    model.waitingSinceMs = undefined;
    if (isClosed || models.get(model.key) !== model) return;
    // Moves the model to the end, where the most recently used one is.
    models.delete(model.key);
    models.set(model.key, model);
    const idleMs = options.engine.model_idle_seconds * 1000;
    if (idleMs === 0) return;
    model.idleTimer = setTimeout(
      () => {
        if (model.users === 0 && models.get(model.key) === model) void unload(model);
      },
      Math.min(idleMs, LONGEST_TIMER_MS),
    );
    model.idleTimer.unref();
  }

  return {
    async withModel(wanted, signal, work) {
      const model = modelFor(wanted);
      clearTimeout(model.idleTimer);
      model.users++;
      try {
        await enter(model, signal);
        try {
          return await work(model.host);
        } finally {
          model.inside--;
        }
      } finally {
        model.users--;
        if (model.users === 0) becomeIdle(model);
        changes.notify();
      }
    },

    hosts: () => [...models.values()].map(({ modelId, draftId, host }) => ({ modelId, draftId, host })),

    deviceOf(files) {
      const paths = pathsOf(files);
      return [...models.values()].findLast((model) => model.paths === paths)?.host.status().device;
    },

    async close() {
      isClosed = true;
      changes.notify();
      for (const model of models.values()) clearTimeout(model.idleTimer);
      await Promise.all([...models.values()].map(({ host }) => host.stop(true)));
      models.clear();
    },
  };
}

function newModel(
  key: string,
  model: EngineModel,
  { engine, gpuBytesOf }: ResidentOptions,
  hostOptions: Omit<HostOptions, "opens">,
): ResidentModel {
  const { draft, ...own } = model;
  const { id, family, files } = own;
  const bytes = bytesOf(files);
  return {
    key,
    modelId: id,
    draftId: draft?.id,
    paths: pathsOf(files),
    bytes: bytes + (draft ? bytesOf(draft.files) : 0),
    // A draft model is not used beside a GPU.
    gpuBytes: gpuBytesOf?.({ ...own, bytes }),
    host: createWorkerHost({
      ...hostOptions,
      opens: [family],
      load: { files, described: describedFiles(model), device: engine.device, ...(draft ? { draft } : {}) },
    }),
    users: 0,
    inside: 0,
    isResident: false,
    waitingSinceMs: undefined,
    idleTimer: undefined,
  };
}

/** Names a model. Other weights at the same paths are another one: what is in memory is not what they are. */
function keyOf({ id, version, draft, ...model }: EngineModel): string {
  const ofDraft = draft ? [draft.id, modelHashOf(draft), pathsOf(draft.files)] : [];
  return [id, version, modelHashOf(model), pathsOf(model.files), ...ofDraft].join(" ");
}

function pathsOf(files: ModelFiles): string {
  return Object.values(files).join(" ");
}

function bytesOf(files: ModelFiles): number {
  return Object.values(files).reduce((sum, path) => sum + sizeOf(path), 0);
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}
