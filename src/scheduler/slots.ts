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
  /** Whose memory it takes: of a model no more chunks are decoded side by side than the machine has room for. */
  model: { id: string; places: number };
  /** More chunks of the recording are about to ask for places: this one must not take the whole machine. */
  hasSuccessors?: boolean;
};

/** A place on the executor, held while a chunk is recognized. */
export type Slot = {
  /** Chunks that are likely to run side by side, this one included. */
  sharers: number;
  release(): void;
};

export type SlotsOptions = {
  /** Chunks decoded side by side. */
  workers: number;
  /** Further places that only synchronous work takes. */
  synchronousWorkers: number;
};

type Waiter = SlotRequest & { admit: (slot: Slot) => void };
export type Slots = ReturnType<typeof createSlots>;

/** Gives the engine's places to waiting chunks: synchronous first, then organizations in turn, oldest first. */
export function createSlots(options: SlotsOptions) {
  const turns = createTurns();
  const waiting = new Set<Waiter>();
  /** Chunks at work by model, without synchronous ones, which have places of their own. */
  const runningOf = new Map<string, number>();
  let { workers } = options;
  let running = 0;
  let runningSynchronous = 0;
  let isPaused = false;

  /** How many share the machine with a chunk that starts now. Few get much each, so that the last leave nothing idle. */
  function sharers({ hasSuccessors, model }: SlotRequest): number {
    const beside = hasSuccessors ? model.places - 1 : startable();
    return Math.max(1, Math.min(workers, running + beside));
  }

  const placesLeft = ({ id, places }: Waiter["model"]) => Math.max(0, places - (runningOf.get(id) ?? 0));

  /** How many of those that wait their models have places for. */
  function startable(): number {
    const asked = new Map<string, { model: Waiter["model"]; count: number }>();
    let sum = 0;
    for (const { isSynchronous, model } of waiting) {
      if (isSynchronous) sum++;
      else asked.set(model.id, { model, count: (asked.get(model.id)?.count ?? 0) + 1 });
    }
    for (const { model, count } of asked.values()) sum += Math.min(count, placesLeft(model));
    return sum;
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
    const others = [...waiting].filter(({ isSynchronous, model }) => !isSynchronous && placesLeft(model) > 0);
    const organizationId = turns.next(others);
    return oldest(others.filter((waiter) => waiter.organizationId === organizationId));
  }

  function pump(): void {
    while (true) {
      const chosen = choose();
      if (!chosen) return;
      waiting.delete(chosen);
      turns.account(chosen.organizationId, chosen.weight, chosen.costMs);
      note(chosen, 1);
      chosen.admit({ sharers: sharers(chosen), release: once(() => free(chosen)) });
    }
  }

  function free(waiter: Waiter): void {
    note(waiter, -1);
    pump();
  }

  function note({ isSynchronous, model }: Waiter, change: 1 | -1): void {
    running += change;
    if (isSynchronous) runningSynchronous += change;
    else runningOf.set(model.id, (runningOf.get(model.id) ?? 0) + change);
    if (runningOf.get(model.id) === 0) runningOf.delete(model.id);
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
