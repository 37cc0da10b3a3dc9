import type { Machine } from "./machine.ts";

/** The machine and its GPU, as far as they decide how many chunks run side by side. */
export type SizingInfo = Machine & {
  /** Free memory of the GPU on which the model will run; left out: it runs on the processor. */
  gpuFreeBytes?: number | undefined;
};

export type Sizing = {
  workers: number;
  /** Threads that chunks share whose decoding steps are made together; 0: each chunk has threads of its own. */
  lanes: number;
  /** Undefined: the chunks that run at the moment share the cores. */
  threadsPerWorker: number | undefined;
};

const LEAST_AUTO_SPEECH_WORKERS = 2;
const MOST_AUTO_SPEECH_WORKERS = 16;

/**
 * Chooses how many processes find speech at most. Each uses one core, and there are only as many as there are recordings.
 *
 * @param wanted the setting `engine.speech_workers`
 */
export function chooseSpeechWorkers(wanted: number | "auto", { cores }: Pick<Machine, "cores">): number {
  if (wanted !== "auto") return wanted;
  return Math.min(MOST_AUTO_SPEECH_WORKERS, Math.max(LEAST_AUTO_SPEECH_WORKERS, Math.floor(cores / 2)));
}

/** More chunks than this on one processor wait for memory access, not for arithmetic. */
const MAX_AUTO_WORKERS = 16;
/** Chunks that make their decoding steps together on one core. More of them gain little, and wait longer. */
const CHUNKS_PER_LANE = 4;
/** One chunk leaves a GPU idle between its small steps, and many only queue. This is a guess, not a measurement. */
const MAX_AUTO_GPU_WORKERS = 4;
/**
 * A chunk's own memory beside the shared weights where their form does not say it (model-needs.ts), and on a GPU: a
 * share of the weights and a minimum.
 */
const STATE_SHARE = 0.5;
const STATE_FLOOR_BYTES = 150 * 1024 ** 2;
/** What a model needs of a machine. */
export type ModelNeeds = {
  /** Size of the weights, which all chunks share. */
  bytes: number;
  /** Memory of a chunk beside the weights, on a processor; left out: it is guessed from them. */
  stateBytes?: number | undefined;
  /** Decoding steps of several chunks are made together. */
  sharesSteps?: boolean;
};

/** The share of free memory that models may use; the rest is for the operating system and everything else. */
const USABLE_MEMORY = 0.7;

/**
 * Chooses how many chunks run side by side, and with how many threads.
 *
 * Recognition computes one token at a time and gains little from a second thread. So every core gets a chunk of its own
 * as long as there is memory for their states. Where a step of several chunks costs little more than a step of one,
 * several chunks share each core.
 *
 * @param wanted the settings `engine.workers` and `engine.threads_per_worker`
 */
export function chooseSizing(
  wanted: { workers: number | "auto"; threadsPerWorker: number | "auto" },
  machine: SizingInfo,
  { bytes, stateBytes: knownBytes, sharesSteps = false }: ModelNeeds,
): Sizing {
  const threadsPerWorker = wanted.threadsPerWorker === "auto" ? undefined : wanted.threadsPerWorker;
  const lanes = sharesSteps && (threadsPerWorker ?? 1) === 1 ? Math.min(machine.cores, MAX_AUTO_WORKERS) : 0;
  if (wanted.workers !== "auto") return { workers: wanted.workers, lanes, threadsPerWorker };
  // If the weights do not fit on the GPU, the model runs on the processor.
  const { gpuFreeBytes = 0 } = machine;
  const isOnGpu = gpuFreeBytes > 0 && gpuFreeBytes >= bytes;
  const guessedBytes = Math.max(STATE_FLOOR_BYTES, bytes * STATE_SHARE);
  const stateBytes = isOnGpu ? guessedBytes : (knownBytes ?? guessedBytes);
  const memoryBytes = isOnGpu ? gpuFreeBytes : machine.availableMemoryBytes;
  const byMemory = Math.floor((memoryBytes * USABLE_MEMORY - bytes) / stateBytes);
  const byCores = Math.floor(machine.cores / (threadsPerWorker ?? 1));
  const most = isOnGpu ? MAX_AUTO_GPU_WORKERS : MAX_AUTO_WORKERS;
  const wished = lanes > 0 && !isOnGpu ? lanes * CHUNKS_PER_LANE : Math.min(byCores, most);
  return { workers: Math.max(1, Math.min(wished, byMemory)), lanes: isOnGpu ? 0 : lanes, threadsPerWorker };
}
