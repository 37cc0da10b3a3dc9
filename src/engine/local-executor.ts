import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import { engineOf } from "../domain/model.ts";
import { type ChunkTimes, createChunkTimes } from "./chunk-times.ts";
import type { Capacity, ChunkExecutor } from "./executor.ts";
import { EngineError } from "./protocol.ts";
import { chooseSizing, type SizingInfo } from "./sizing.ts";
import type { Pool } from "./workers/pool.ts";

/** The settings `engine.workers` and `engine.threads_per_worker`. */
export type WantedSizing = { workers: number | "auto"; threadsPerWorker: number | "auto" };

export type LocalExecutorOptions = {
  wanted: WantedSizing;
  /** Measured once, before any model is loaded. */
  machine: SizingInfo;
  /** Measured times of chunks; replaced in tests. */
  times?: ChunkTimes;
};

/** Runs chunks in the worker processes of this machine. */
export function createLocalExecutor(
  pool: Pick<Pool, "recognize" | "warm">,
  { wanted, machine, times = createChunkTimes() }: LocalExecutorOptions,
): ChunkExecutor {
  return {
    capacity: ({ bytes }) => localCapacity(wanted, machine, bytes),
    async recognize({ sharers, ...job }, signal) {
      const { model, windowMs, audio } = job;
      // The ONNX runtime runs each chunk on one thread. Chunks side by side use the other cores.
      const threads = engineOf(model.family) === "whisper" ? threadsFor(wanted, machine, sharers) : 1;
      const audioMs = (audio.totalSamples * 1000) / SAMPLE_RATE_HZ;
      const chunk = { modelId: model.id, windowMs, audioMs, threads };
      try {
        const task = { ...job, threads, timeoutMs: times.timeoutMs(chunk) };
        const { segments, elapsedMs } = await pool.recognize(task, signal);
        times.observe(chunk, elapsedMs);
        return { segments, workMs: elapsedMs * threads };
      } catch (error) {
        if (error instanceof EngineError && error.kind === "hung") times.observeTimeout(model.id);
        throw error;
      }
    },
    warm: pool.warm,
  };
}

/** Computes how much a machine can do at once with weights of that size. The unit of work is thread time. */
export function localCapacity(wanted: WantedSizing, machine: SizingInfo, bytes: number): Capacity {
  const { workers, threadsPerWorker } = chooseSizing(wanted, machine, bytes);
  return {
    chunks: workers,
    power: workers * threadsFor(wanted, machine, workers),
    isElastic: threadsPerWorker === undefined,
  };
}

/** Returns the threads of one chunk. Running chunks share the cores, unless the config sets a number. */
function threadsFor({ threadsPerWorker }: WantedSizing, { cores }: SizingInfo, sharers: number): number {
  if (threadsPerWorker !== "auto") return threadsPerWorker;
  return Math.max(1, Math.floor(cores / Math.max(1, sharers)));
}
