import { createTurns } from "./turns.ts";

/** Somebody who wants a chunk decoded. */
export type SlotRequest = {
  isSynchronous: boolean;
  organizationId: string;
  weight: number;
  /** Sorts by age: the older transcription of an organization goes first. */
  transcriptionId: string;
  /** Order within the transcription. */
  position: number;
  /** Audio to decode, milliseconds: what the turn costs. */
  costMs: number;
  /** More chunks of the recording are about to ask for places: this one is not to spread over all cores. */
  hasSuccessors?: boolean;
};

/** A place on the engine, held while a chunk is decoded. */
export type Slot = { threads: number; release(): void };

export type SlotsOptions = {
  /** Chunks decoded side by side. */
  workers: number;
  /** Further places that only synchronous work takes. */
  synchronousWorkers: number;
  /** Undefined: the cores are shared out over what runs at the moment. */
  threadsPerWorker: number | undefined;
  cores: number;
};

type Waiter = SlotRequest & { admit: (slot: Slot) => void };
export type Slots = ReturnType<typeof createSlots>;

/** Gives the engine's places to waiting chunks: synchronous first, then organizations in turn, oldest first. */
export function createSlots(options: SlotsOptions) {
  const turns = createTurns();
  const waiting = new Set<Waiter>();
  let { workers } = options;
  let running = 0;
  let runningSynchronous = 0;
  let isPaused = false;

  /** Threads for a chunk that starts now; few chunks get many, so that the last ones do not leave cores idle. */
  function threads(hasSuccessors: boolean): number {
    if (options.threadsPerWorker !== undefined) return options.threadsPerWorker;
    const soon = hasSuccessors ? workers : Math.min(workers, running + waiting.size);
    return Math.max(1, Math.floor(options.cores / Math.max(1, soon)));
  }

  function hasRoomFor(isSynchronous: boolean): boolean {
    if (running - runningSynchronous < workers && running < workers + options.synchronousWorkers) {
      return true;
    }
    return isSynchronous && runningSynchronous < options.synchronousWorkers;
  }

  function choose(): Waiter | undefined {
    const synchronous = [...waiting].filter((waiter) => waiter.isSynchronous);
    if (synchronous.length > 0 && hasRoomFor(true)) return oldest(synchronous);
    if (isPaused || !hasRoomFor(false)) return undefined;
    const others = [...waiting].filter((waiter) => !waiter.isSynchronous);
    const organizationId = turns.next(others);
    return oldest(others.filter((waiter) => waiter.organizationId === organizationId));
  }

  function pump(): void {
    while (true) {
      const chosen = choose();
      if (!chosen) return;
      waiting.delete(chosen);
      turns.account(chosen.organizationId, chosen.weight, chosen.costMs);
      running++;
      if (chosen.isSynchronous) runningSynchronous++;
      chosen.admit({
        threads: threads(chosen.hasSuccessors ?? false),
        release: once(() => free(chosen.isSynchronous)),
      });
    }
  }

  function free(isSynchronous: boolean): void {
    running--;
    if (isSynchronous) runningSynchronous--;
    pump();
  }

  return {
    /** Waits for a place. Rejects with the signal's reason when it is aborted first. */
    acquire(request: SlotRequest, signal: AbortSignal): Promise<Slot> {
      signal.throwIfAborted();
      return new Promise((resolve, reject) => {
        const onAbort = () => {
          waiting.delete(waiter);
          reject(signal.reason);
        };
        const waiter: Waiter = {
          ...request,
          admit: (slot) => {
            signal.removeEventListener("abort", onAbort);
            resolve(slot);
          },
        };
        signal.addEventListener("abort", onAbort, { once: true });
        waiting.add(waiter);
        pump();
      });
    },

    /** No more chunks are started but those somebody waits for with an open connection; what runs, runs on. */
    pause(): void {
      isPaused = true;
    },

    /** From now on so many; what runs beyond that runs on. */
    resize(wanted: number): void {
      workers = wanted;
      pump();
    },

    status: () => ({ running, runningSynchronous, waiting: waiting.size, workers }),
  };
}

function oldest(waiters: readonly Waiter[]): Waiter | undefined {
  let chosen: Waiter | undefined;
  for (const waiter of waiters) {
    if (!chosen || isBefore(waiter, chosen)) chosen = waiter;
  }
  return chosen;
}

function isBefore(left: Waiter, right: Waiter): boolean {
  if (left.transcriptionId !== right.transcriptionId) return left.transcriptionId < right.transcriptionId;
  return left.position < right.position;
}

function once(work: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    work();
  };
}
