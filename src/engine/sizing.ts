import type { Machine } from "./machine.ts";

/** What decides how many chunks are decoded side by side. */
export type SizingInfo = Machine & {
  /** Free memory of the GPU that the model will run on; left out: it runs on the processor. */
  gpuFreeBytes?: number | undefined;
};

export type Sizing = {
  workers: number;
  /** Undefined: the cores are shared out over what runs at the moment. */
  threadsPerWorker: number | undefined;
};

/** More decoders than this on one processor wait for memory, not for arithmetic. */
const MAX_AUTO_WORKERS = 16;
/** One decoder leaves a GPU idle between its small steps, many only queue up. A guess: no GPU was there to measure. */
const MAX_AUTO_GPU_WORKERS = 4;
/** A decoder's own memory beside the shared weights, as a share of them and a floor: caches and graph buffers. */
const STATE_SHARE = 0.5;
const STATE_FLOOR_BYTES = 150 * 1024 ** 2;
/** Left to the operating system and everything else. */
const USABLE_MEMORY = 0.7;

/**
 * How many chunks to decode side by side, and with how many threads.
 *
 * Whisper's decoder works on one token at a time and gains little from a second thread, so every core gets a chunk of
 * its own as long as memory holds the states.
 *
 * @param wanted the settings `engine.workers` and `engine.threads_per_worker`
 * @param weightsBytes size of the model's file, loaded once for all
 */
export function chooseSizing(
  wanted: { workers: number | "auto"; threadsPerWorker: number | "auto" },
  machine: SizingInfo,
  weightsBytes: number,
): Sizing {
  const threadsPerWorker = wanted.threadsPerWorker === "auto" ? undefined : wanted.threadsPerWorker;
  if (wanted.workers !== "auto") return { workers: wanted.workers, threadsPerWorker };
  const stateBytes = Math.max(STATE_FLOOR_BYTES, weightsBytes * STATE_SHARE);
  // A GPU that has no room for the weights leaves them to the processor.
  const { gpuFreeBytes = 0 } = machine;
  const isOnGpu = gpuFreeBytes > 0 && gpuFreeBytes >= weightsBytes;
  const memoryBytes = isOnGpu ? gpuFreeBytes : machine.availableMemoryBytes;
  const byMemory = Math.floor((memoryBytes * USABLE_MEMORY - weightsBytes) / stateBytes);
  const byCores = Math.floor(machine.cores / (threadsPerWorker ?? 1));
  const most = isOnGpu ? MAX_AUTO_GPU_WORKERS : MAX_AUTO_WORKERS;
  return { workers: Math.max(1, Math.min(byCores, byMemory, most)), threadsPerWorker };
}
