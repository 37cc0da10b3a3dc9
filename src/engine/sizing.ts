import type { EngineOptions } from "../domain/engine-options.ts";
import type { ModelNeeds } from "../families/contract.ts";
import type { Machine } from "./machine.ts";

/** The machine and its GPU, as far as they decide how many chunks run side by side. */
export type SizingInfo = Machine & {
  /** Free memory of the GPU on which the model runs, 0: not known; left out: it runs on the processor. */
  gpuFreeBytes?: number | undefined;
};

export type Sizing = {
  workers: number;
  /**
   * Thread groups, in each of which the decoding steps of several chunks are made together. 0: chunks share no steps, and
   * each has threads of its own.
   */
  threadGroups: number;
  /** Threads of each chunk; undefined: the chunks that run at the moment share the cores. */
  threads: number | undefined;
  /** Left out: the processor. */
  isOnGpu?: true;
};

const LEAST_AUTO_SPEECH_WORKERS = 2;
const MOST_AUTO_SPEECH_WORKERS = 16;

/**
 * Chooses how many processes find speech at most. Each uses one core, and there are only as many as there are recordings.
 *
 * @param wanted what the config says
 */
export function chooseSpeechWorkers(wanted: number | "auto", { cores }: Pick<Machine, "cores">): number {
  if (wanted !== "auto") return wanted;
  return Math.min(MOST_AUTO_SPEECH_WORKERS, Math.max(LEAST_AUTO_SPEECH_WORKERS, Math.floor(cores / 2)));
}

/** More chunks than this on one processor wait for memory access, not for arithmetic. */
const MAX_AUTO_WORKERS = 16;
/** Chunks that make their decoding steps together on one core. More of them gain little, and wait longer. */
const CHUNKS_PER_THREAD_GROUP = 6;
/**
 * One chunk leaves a GPU idle between its small steps, and many that make their own only queue. This is a guess, not a
 * measurement.
 */
const MAX_AUTO_GPU_WORKERS = 4;
/** Chunks of a step on a GPU (kMaxStepsOnGpu in src/native/whisper/steps/whisper-steps.h). */
const CHUNKS_PER_GPU_GROUP = 8;
/**
 * While one thread group computes, the threads of the others choose their tokens. Measured on an H100 (docs/manual/gpu.md): 2
 * and 4 groups take 0.47 and 0.29 of the time of one with the shape of base, 0.56 and 0.47 with that of large-v3-turbo. More were
 * not tried.
 */
const MAX_AUTO_GPU_GROUPS = 4;
/**
 * A chunk's own memory beside the shared weights where their form does not say it (model-needs.ts): a share of the
 * weights and a minimum.
 */
const STATE_SHARE = 0.5;
const STATE_FLOOR_BYTES = 150 * 1024 ** 2;
/** The share of free memory that models may use; the rest is for the operating system and everything else. */
const USABLE_MEMORY = 0.7;

/**
 * Memory of the process with the nets that distinguish speakers, measured with those of the executable. There is one, which
 * has one recording at a time.
 */
const SPEAKER_NETS_BYTES = 211e6;

/** The settings that say how many chunks run side by side, and with how many threads. */
export type WantedSizing = Pick<EngineOptions, "workers" | "threads_per_worker" | "diarization">;

/**
 * Chooses how many chunks run side by side, and with how many threads.
 *
 * Recognition computes one token at a time and gains little from a second thread. So every core gets a chunk of its own
 * as long as there is memory for their states. Where a step of several chunks costs little more than a step of one,
 * several chunks share each core, or a queue of the GPU.
 */
export function chooseSizing(wanted: WantedSizing, machine: SizingInfo, needs: ModelNeeds): Sizing {
  const { gpuFreeBytes } = machine;
  const threads = wanted.threads_per_worker === "auto" ? undefined : wanted.threads_per_worker;
  const byCores = Math.floor(machine.cores / (threads ?? 1));
  // If the weights do not fit on the GPU, the model runs on the processor.
  if (gpuFreeBytes !== undefined && (gpuFreeBytes === 0 || gpuFreeBytes >= needs.bytes)) {
    return { ...sizeOnGpu(wanted.workers, byCores, gpuFreeBytes, needs), threads, isOnGpu: true };
  }
  const isShared = needs.sharing?.onProcessor === true && (threads ?? 1) === 1;
  const threadGroups = isShared ? Math.min(machine.cores, MAX_AUTO_WORKERS) : 0;
  if (wanted.workers !== "auto") return { workers: wanted.workers, threadGroups, threads };
  const wished =
    threadGroups > 0 ? threadGroups * CHUNKS_PER_THREAD_GROUP : Math.min(byCores, MAX_AUTO_WORKERS);
  const speakersBytes = wanted.diarization === "auto" ? SPEAKER_NETS_BYTES : 0;
  const memoryBytes = Math.max(0, machine.availableMemoryBytes - speakersBytes);
  const workers = Math.min(wished, chunksIn(memoryBytes, needs, threadGroups));
  return { workers: Math.max(1, workers), threadGroups, threads };
}

/** @param freeBytes 0: not known */
function sizeOnGpu(
  wanted: WantedSizing["workers"],
  byCores: number,
  freeBytes: number,
  needs: ModelNeeds,
): Pick<Sizing, "workers" | "threadGroups"> {
  const isShared = needs.sharing?.onGpu === true;
  const wished = isShared
    ? MAX_AUTO_GPU_GROUPS * CHUNKS_PER_GPU_GROUP
    : Math.min(byCores, MAX_AUTO_GPU_WORKERS);
  const most = freeBytes === 0 ? MAX_AUTO_GPU_WORKERS : chunksIn(freeBytes, needs);
  const workers = wanted === "auto" ? Math.max(1, Math.min(wished, most)) : wanted;
  return { workers, threadGroups: isShared ? Math.ceil(workers / CHUNKS_PER_GPU_GROUP) : 0 };
}

/**
 * Returns how many chunks have memory beside the weights.
 *
 * @param threadGroups how many of them are encoded at once; 0: each may be
 */
function chunksIn(memoryBytes: number, needs: ModelNeeds, threadGroups = 0): number {
  const rest = memoryBytes * USABLE_MEMORY - needs.bytes - (needs.sharedBytes ?? 0);
  const encodedAtOnce = Math.floor(rest / (chunkBytes(needs) + encoderBytes(needs)));
  if (threadGroups === 0 || encodedAtOnce < threadGroups) return encodedAtOnce;
  return Math.floor((rest - threadGroups * encoderBytes(needs)) / chunkBytes(needs));
}

function chunkBytes({ bytes, stateBytes }: ModelNeeds): number {
  return stateBytes ?? Math.max(STATE_FLOOR_BYTES, bytes * STATE_SHARE);
}

const encoderBytes = (needs: ModelNeeds): number => needs.encoderBytes ?? 0;

/** Returns the memory of a model with all its chunks on a GPU; undefined: it runs on the processor. */
export function bytesOnGpu(wanted: WantedSizing, machine: SizingInfo, needs: ModelNeeds): number | undefined {
  const { workers, isOnGpu } = chooseSizing(wanted, machine, needs);
  return isOnGpu ? needs.bytes + workers * (chunkBytes(needs) + encoderBytes(needs)) : undefined;
}

/**
 * Returns the threads of one chunk. Running chunks share the cores, unless the config sets a number.
 *
 * @param sharers how many chunks run at the same time, this one included
 */
export function threadsFor(wanted: WantedSizing, { cores }: SizingInfo, sharers: number): number {
  if (wanted.threads_per_worker !== "auto") return wanted.threads_per_worker;
  return Math.max(1, Math.floor(cores / Math.max(1, sharers)));
}
