import type { ChunkJob, ChunkOutcome, EngineModel } from "./protocol.ts";

/** How much of a model's work an executor can do at once. */
export type Capacity = {
  /** Chunks that run side by side without slowing each other down for want of memory; at least 1. */
  chunks: number;
  /** Work done per millisecond when that many run, in the unit of `ChunkOutcome.workMs`. */
  power: number;
  /** Whether a chunk that runs alone is given what others leave unused, and is faster for it. */
  isElastic: boolean;
};

/**
 * Runs chunks: on this machine, or on others. It alone knows cores, processes and paths; it chooses threads, and it
 * knows how long a chunk may take. `testing/executor-contract.ts` shows what every executor promises.
 */
export type ChunkExecutor = {
  /** @param model its size decides; 0: none is known yet */
  capacity(model: { bytes: number }): Capacity;
  /**
   * Recognizes one chunk. Each call settles once, whatever arrives late or twice. Jobs can be repeated.
   *
   * @throws EngineError: `aborted` within 2 s of the signal, `crashed`, `hung` and `failed` where the chunk may be to
   *   blame, `interrupted` where it is not, `unusable_model` when no chunk of the model can be recognized
   */
  recognize(job: ChunkJob, signal: AbortSignal): Promise<ChunkOutcome>;
  /** Gets a model ready before it is needed. */
  warm(model: EngineModel, signal: AbortSignal): Promise<void>;
};
