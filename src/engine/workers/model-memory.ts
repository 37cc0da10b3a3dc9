import type { WorkerHost } from "./worker-host.ts";

/** A model that is in memory, or waits for memory. */
export type ResidentModel = {
  key: string;
  modelId: string;
  /** The model that drafts for it, in the same process; undefined: none does. */
  draftId: string | undefined;
  /** Its files. */
  paths: string;
  /** Size of the weights, with those of the draft model. */
  bytes: number;
  /** Its memory on a GPU with all its chunks; left out: it is guessed from its weights. */
  gpuBytes?: number | undefined;
  host: WorkerHost;
  /** Calls that use the model or wait for it. */
  users: number;
  /** Calls that use the model now. */
  inside: number;
  /** It has its memory, or is about to get it. */
  isResident: boolean;
  /** Since when it waits for other models to give up memory. */
  waitingSinceMs: number | undefined;
  idleTimer: Timer | undefined;
};

export type ModelMemoryOptions = {
  /** Free memory of the GPU before any model was loaded; undefined when models run on the processor. */
  gpuFreeBytes: number | undefined;
  /** Returns the memory of the machine that is free now. */
  availableBytes: () => number;
  /** How long a model may keep others waiting for its memory. */
  turnMs: number;
};

/** A model needs more memory than its weights: states, graph buffers, the process itself. */
const MEMORY_FACTOR = 1.5;

/** Decides which models fit in memory together, and which one gives way. It changes nothing. */
export type ModelMemory = {
  /** Reports whether a model fits beside those that are resident. */
  hasMemoryFor(model: ResidentModel): boolean;
  /** Returns the resident models that compete with a model for memory, the least recently used first. */
  residentRivals(model: ResidentModel): ResidentModel[];
  /** Returns the model that has waited longest; memory that becomes free is for this one. */
  longestWaiting(): ResidentModel | undefined;
  /** Whether a model must take no new work, because another has waited for its memory for a whole turn. */
  mustYield(model: ResidentModel): boolean;
};

/** @param all returns all models, the least recently used first */
export function createModelMemory(
  all: () => Iterable<ResidentModel>,
  { gpuFreeBytes, availableBytes, turnMs }: ModelMemoryOptions,
): ModelMemory {
  /** A GPU has memory of its own. A model that the GPU refused runs on the processor. */
  const isOnGpu = ({ host }: ResidentModel) => gpuFreeBytes !== undefined && host.status().device !== "cpu";
  const rivals = (model: ResidentModel) =>
    [...all()].filter((other) => other !== model && isOnGpu(other) === isOnGpu(model));
  const residentRivals = (model: ResidentModel) => rivals(model).filter(({ isResident }) => isResident);

  return {
    residentRivals,

    hasMemoryFor(model) {
      const residents = residentRivals(model);
      // The free memory of the GPU was measured once, so all residents count. The machine's is measured now, so only
      // models that have not taken their memory yet are added.
      if (gpuFreeBytes !== undefined && isOnGpu(model)) {
        const claims = [model, ...residents].map(({ bytes, gpuBytes = bytes * MEMORY_FACTOR }) => gpuBytes);
        return gpuFreeBytes >= claims.reduce((sum, bytes) => sum + bytes);
      }
      const claims = residents.filter(({ host }) => host.status().state !== "ready");
      const bytes = [model, ...claims].reduce((sum, each) => sum + each.bytes, 0);
      return availableBytes() >= bytes * MEMORY_FACTOR;
    },

    longestWaiting() {
      let longest: ResidentModel | undefined;
      for (const model of all()) {
        if (model.isResident || model.waitingSinceMs === undefined) continue;
        if (model.waitingSinceMs < (longest?.waitingSinceMs ?? Number.POSITIVE_INFINITY)) longest = model;
      }
      return longest;
    },

    mustYield(model) {
      const now = performance.now();
      return rivals(model).some(
        ({ waitingSinceMs, isResident }) =>
          !isResident && waitingSinceMs !== undefined && now - waitingSinceMs >= turnMs,
      );
    },
  };
}
