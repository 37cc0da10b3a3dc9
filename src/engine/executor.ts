import type { ChunkJob, ChunkOutcome, EngineModel } from "./protocol.ts";

/** How much of a model's work an executor can do at once. */
export type Capacity = {
  /** The number of chunks for which there is memory at once; at least 1. */
  chunks: number;
  /** Work per millisecond when that many chunks run, in the unit of `ChunkOutcome.workMs`. */
  power: number;
  /** Whether a chunk that runs alone also uses the capacity of the others, and is faster then. */
  isElastic: boolean;
  /** So many thread groups do the work of all chunks that no client waits for; left out: each chunk has its own threads. */
  threadGroups?: number;
};

/**
 * Runs chunks, on this machine or on others. Only the executor knows cores, processes and paths. It chooses threads, and
 * knows how long a chunk may take. `testing/kits/executor-contract.ts` tests what every executor promises.
 */
export type ChunkExecutor = {
  /**
   * Returns how much work of a model can run at once.
   *
   * @param model the model; `bytes` 0: none is known yet
   */
  capacity(
    model: { bytes: number } & Pick<EngineModel, "sha256" | "parts"> &
      Partial<Pick<EngineModel, "family" | "files" | "version" | "draft">>,
  ): Capacity;
  /**
   * Recognizes one chunk. A call settles once, also when outcomes arrive late or twice. A job can be repeated.
   *
   * @throws EngineError: `aborted` within 2 s of the signal; `crashed`, `hung` or `failed` when the chunk may be the
   *   cause; `interrupted` when it is not; `unusable_model` when no chunk of the model can be recognized
   */
  recognize(job: ChunkJob, signal: AbortSignal): Promise<ChunkOutcome>;
  /**
   * Loads a model before its first chunk.
   *
   * @throws EngineError as `recognize` does
   */
  warm(model: EngineModel, signal: AbortSignal): Promise<void>;
};
