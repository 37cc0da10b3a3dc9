import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import { engineOf } from "../domain/model.ts";
import { type ChunkTimes, createChunkTimes } from "./chunk-times.ts";
import type { Capacity, ChunkExecutor } from "./executor.ts";
import type { NeedsOf, SizedModel } from "./model-needs.ts";
import { EngineError } from "./protocol.ts";
import { chooseSizing, type ModelNeeds, type SizingInfo, type WantedSizing } from "./sizing.ts";
import type { Pool } from "./workers/pool.ts";

export type LocalExecutorOptions = {
  wanted: WantedSizing;
  /** The setting `engine.background_niceness`; left out: 0. */
  backgroundNiceness?: number;
  /** Measured once, before any model is loaded. */
  machine: SizingInfo;
  /** What models need of the machine (model-needs.ts). Default: their size is all that is known. */
  needsOf?: NeedsOf;
  /** Measured times of chunks; replaced in tests. */
  times?: ChunkTimes;
  /** Returns milliseconds; replaced in tests. */
  now?: () => number;
};

/** Runs chunks in the worker processes of this machine. */
export function createLocalExecutor(
  pool: Pick<Pool, "recognize" | "warm" | "deviceOf">,
  {
    wanted,
    backgroundNiceness = 0,
    machine,
    needsOf = ({ bytes = 0 }) => ({ bytes }),
    times = createChunkTimes(),
    now = () => performance.now(),
  }: LocalExecutorOptions,
): ChunkExecutor {
  const sharedTimes = { urgent: createSharedTime(now), background: createSharedTime(now) };
  /** The machine without its GPU for a model that was loaded on the processor. */
  const machineFor = ({ files }: SizedModel): SizingInfo =>
    files !== undefined && pool.deviceOf(files) === "cpu" ? { ...machine, gpuFreeBytes: undefined } : machine;
  return {
    capacity: (model) => localCapacity(wanted, machineFor(model), needsOf(model)),
    async recognize({ sharers, ...job }, signal) {
      const { model, windowMs, audio } = job;
      const { lanes: most, isOnGpu = false } = chooseSizing(wanted, machineFor(model), needsOf(model));
      // The ONNX runtime runs each chunk on one thread. Chunks side by side use the other cores. On a GPU that computes
      // for several chunks at once, the processor has little to do for each.
      const isOneThread = engineOf(model.family) !== "whisper" || (isOnGpu && most > 0);
      const threads = isOneThread ? 1 : threadsFor(wanted, machine, sharers);
      const audioMs = (audio.totalSamples * 1000) / SAMPLE_RATE_HZ;
      const chunk = { modelId: model.id, windowMs, audioMs, threads };
      const niceness = job.isUrgent ? 0 : backgroundNiceness;
      // Chunks share steps with those of the same niceness only, and a chunk that a client waits for not with others.
      const isShared = threads === 1 && !job.isAlone && (!job.isUrgent || backgroundNiceness > 0);
      const lanes = isShared ? most : 0;
      const leave = lanes > 0 ? sharedTimes[job.isUrgent ? "urgent" : "background"].enter(lanes) : () => 1;
      try {
        const lanesAreOnGpu = isOnGpu && lanes > 0;
        const work = { ...job, threads, lanes, lanesAreOnGpu, niceness };
        const task = { ...work, timeoutMs: times.timeoutMs(chunk) };
        const { segments, elapsedMs } = await pool.recognize(task, signal);
        times.observe(chunk, elapsedMs);
        return { segments, workMs: elapsedMs * threads * leave() };
      } catch (error) {
        if (error instanceof EngineError && error.kind === "hung") times.observeTimeout(model.id);
        throw error;
      } finally {
        leave();
      }
    },
    warm: pool.warm,
  };
}

/** Measures which part of a thread each chunk had while several chunks shared threads. */
function createSharedTime(now: () => number) {
  let running = 0;
  let lanes = 1;
  /** Time of one chunk since the start: slower than the clock while chunks share threads. */
  let shared = 0;
  let lastMs = now();
  function advance(): void {
    const nowMs = now();
    if (running > 0) shared += (nowMs - lastMs) * Math.min(1, lanes / running);
    lastMs = nowMs;
  }
  return {
    /** Begins a chunk. The returned function ends it, and returns its part of a thread, 0 to 1; the first call counts. */
    enter(count: number): () => number {
      advance();
      lanes = count;
      running++;
      const [startMs, startShared] = [lastMs, shared];
      let part: number | undefined;
      return () => {
        if (part !== undefined) return part;
        advance();
        running--;
        part = lastMs > startMs ? (shared - startShared) / (lastMs - startMs) : 1;
        return part;
      };
    },
  };
}

/** Computes how much a machine can do at once with a model. The unit of work is thread time. */
export function localCapacity(wanted: WantedSizing, machine: SizingInfo, needs: ModelNeeds): Capacity {
  const { workers, lanes, threadsPerWorker, isOnGpu = false } = chooseSizing(wanted, machine, needs);
  const isElastic = threadsPerWorker === undefined;
  // Chunks that share threads, or a queue of a GPU, do no more work at once than these.
  if (lanes > 0 && (isOnGpu || workers > lanes)) return { chunks: workers, power: lanes, isElastic, lanes };
  return { chunks: workers, power: workers * threadsFor(wanted, machine, workers), isElastic };
}

/** Returns the threads of one chunk. Running chunks share the cores, unless the config sets a number. */
function threadsFor({ threadsPerWorker }: WantedSizing, { cores }: SizingInfo, sharers: number): number {
  if (threadsPerWorker !== "auto") return threadsPerWorker;
  return Math.max(1, Math.floor(cores / Math.max(1, sharers)));
}
