import { statSync } from "node:fs";
import { availableMemoryBytes } from "./machine.ts";
import { type DevicePreference, EngineError, type EngineModel } from "./protocol.ts";
import { createWorkerHost, type HostOptions, type HostState, type WorkerHost } from "./worker-host.ts";

export type ResidentOptions = {
  device: DevicePreference;
  /** Memory of the GPU that models run on, free before any is loaded; left out: they run on the processor. */
  gpuFreeBytes?: number | undefined;
  /** Idle time after which a model is unloaded; 0: never. */
  modelIdleMs: number;
  log: HostOptions["log"];
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

/**
 * The models in memory, each in a process of its own: loaded on demand, kept while used, unloaded after an idle time
 * or when another needs the memory.
 *
 * @param hostOptions of the processes, the model to load left out
 */
export function createResidentModels(options: ResidentOptions, hostOptions: Omit<HostOptions, "opens">) {
  const models = new Map<string, Entry>();
  let isClosed = false;

  function entryFor(model: EngineModel): Entry {
    const paths = Object.values(model.files);
    const key = [model.id, model.version, ...paths].join(" ");
    const known = models.get(key);
    if (known) return known;
    const entry: Entry = {
      key,
      modelId: model.id,
      bytes: paths.reduce((sum, path) => sum + sizeOf(path), 0),
      host: createWorkerHost({
        ...hostOptions,
        opens: [model.family],
        load: { files: model.files, device: options.device },
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

  return {
    /**
     * Lets work in once the model may have memory; the process loads it with the first request.
     * @throws EngineError `aborted`, `interrupted` when closed; what `work` throws
     */
    withModel,

    hosts: () => [...models.values()].map(({ modelId, host }) => ({ modelId, host })),

    /** Lets nobody in any more and stops the processes. */
    async close(): Promise<void> {
      isClosed = true;
      tellChange();
      for (const entry of models.values()) clearTimeout(entry.idleTimer);
      await Promise.all([...models.values()].map(({ host }) => host.stop(true)));
      models.clear();
    },
  };
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}
