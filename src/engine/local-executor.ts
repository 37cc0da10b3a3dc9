import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import type { EngineOptions } from "../domain/engine-options.ts";
import type { ModelNeeds } from "../families/contract.ts";
import { type ChunkTimes, createChunkTimes } from "./chunk-times.ts";
import type { Capacity, ChunkExecutor } from "./executor.ts";
import type { NeedsOf, SizedModel } from "./model-needs.ts";
import { EngineError } from "./protocol.ts";
import { createSharedTime } from "./shared-time.ts";
import { chooseSizing, type SizingInfo, threadsFor, type WantedSizing } from "./sizing.ts";
import type { Pool } from "./workers/pool.ts";

export type LocalExecutorOptions = {
  /** The settings of the engine. */
  engine: WantedSizing & Pick<EngineOptions, "background_niceness">;
  /** Measured once, before any model is loaded. */
  machine: SizingInfo;
  /** What models need of the machine (model-needs.ts). Default: their size is all that is known. */
  needsOf?: NeedsOf;
  /** Measured times of chunks; replaced in tests. */
  times?: ChunkTimes;
  /** Returns milliseconds; replaced in tests. */
  now?: () => number;
};

export type LocalExecutor = ChunkExecutor & {
  /** Returns how many chunks run. */
  running(): number;
  /** Returns the threads of work that has the machine for itself. */
  threadsAlone(): number;
};

/** Runs chunks in the worker processes of this machine. */
export function createLocalExecutor(
  pool: Pick<Pool, "recognize" | "warm" | "deviceOf">,
  {
    engine,
    machine,
    needsOf = ({ bytes = 0 }) => ({ bytes }),
    times = createChunkTimes(),
    now = () => performance.now(),
  }: LocalExecutorOptions,
): LocalExecutor {
  const { background_niceness: niceByDefault } = engine;
  const sharedTime = createSharedTime(now);
  const running = createCounts();
  /** The machine without its GPU for a model that was loaded on the processor. */
  const machineFor = ({ files }: SizedModel): SizingInfo =>
    files !== undefined && pool.deviceOf(files) === "cpu" ? { ...machine, gpuFreeBytes: undefined } : machine;
  return {
    capacity: (model) => localCapacity(engine, machineFor(model), needsOf(model)),
    async recognize({ sharers, hasSuccessors = false, windowMs, isUrgent = false, ...job }, signal) {
      const { model, audio, isAlone } = job;
      const needs = needsOf(model);
      const { threadGroups: most, isOnGpu = false } = chooseSizing(engine, machineFor(model), needs);
      // On a GPU that computes for several chunks at once, the processor has little to do for each.
      const isOneThread = needs.isOneThread || (isOnGpu && most > 0);
      const threads = isOneThread ? 1 : threadsFor(engine, machine, sharers);
      const audioMs = (audio.totalSamples * 1000) / SAMPLE_RATE_HZ;
      const chunk = { modelId: model.id, windowMs, audioMs, threads };
      const niceness = isUrgent ? 0 : niceByDefault;
      // Chunks share steps with those of the same niceness only, and a chunk that a client waits for not with others.
      const isShared = most > 0 && !isAlone && (!isUrgent || niceByDefault > 0);
      const threadGroups = isShared ? most : 0;
      // Chunks of the model give each other threads in their process. Those of other models know nothing of each other.
      const besideInGroups = hasSuccessors ? sharers : 1 + running.others(model.id);
      const groupThreads = isOnGpu ? 1 : threadsFor(engine, machine, besideInGroups);
      const kind = isUrgent ? "urgent" : "background";
      /** Ends the chunk, and returns how many threads it had. */
      const leave = isShared ? sharedTime.enter(kind, { threadGroups, groupThreads }) : () => threads;
      running.count(model.id, 1);
      try {
        const work = {
          ...job,
          threads,
          threadGroups,
          groupThreads,
          groupsAreOnGpu: isOnGpu && isShared,
          niceness,
        };
        // In thread groups a chunk may have all threads or a part of one. Its limit is that for one.
        const timeoutMs = times.timeoutMs(isShared ? { ...chunk, threads: 1 } : chunk);
        const { elapsedMs, ...recognition } = await pool.recognize({ ...work, timeoutMs }, signal);
        times.observe({ ...chunk, threads: Math.max(1, leave()) }, elapsedMs);
        return { ...recognition, workMs: elapsedMs * leave() };
      } catch (error) {
        if (error instanceof EngineError && error.kind === "hung") times.observeTimeout(model.id);
        throw error;
      } finally {
        running.count(model.id, -1);
        leave();
      }
    },
    warm: pool.warm,
    running: running.all,
    threadsAlone: () => threadsFor(engine, machine, 1),
  };
}

/** Counts the running chunks of each model. */
function createCounts() {
  const byModel = new Map<string, number>();
  let all = 0;
  return {
    count(id: string, change: 1 | -1): void {
      const count = (byModel.get(id) ?? 0) + change;
      all += change;
      if (count === 0) byModel.delete(id);
      else byModel.set(id, count);
    },
    all: (): number => all,
    /** Returns how many chunks of other models run. */
    others: (id: string): number => all - (byModel.get(id) ?? 0),
  };
}

/** Computes how much a machine can do at once with a model. The unit of work is thread time. */
export function localCapacity(wanted: WantedSizing, machine: SizingInfo, needs: ModelNeeds): Capacity {
  const { workers, threadGroups, threads, isOnGpu = false } = chooseSizing(wanted, machine, needs);
  const isElastic = threads === undefined;
  // Chunks that share threads, or a queue of a GPU, do no more work at once than these.
  if (threadGroups > 0 && (isOnGpu || workers > threadGroups))
    return { chunks: workers, power: threadGroups, isElastic, threadGroups };
  return { chunks: workers, power: workers * threadsFor(wanted, machine, workers), isElastic };
}
