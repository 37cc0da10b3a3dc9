import { createTurns } from "./turns.ts";

/** A chunk that asks for a slot. */
export type SlotRequest = {
  /** A client waits for this chunk with an open connection. */
  isSynchronous: boolean;
  organizationId: string;
  /** The organization's share of turns. */
  weight: number;
  /** Identifiers sort by age: the older transcription of an organization goes first. */
  transcriptionId: string;
  /** Order within the transcription. */
  position: number;
  /** Audio to recognize, milliseconds: what the turn costs. */
  costMs: number;
  /** The model, and how many of its chunks the memory of the machine allows side by side. */
  model: { id: string; slots: number };
  /** More chunks of the recording are about to ask for slots, so this one must not take the whole machine. */
  hasSuccessors?: boolean;
};

/** The right to recognize one chunk. */
export type Slot = {
  /** Chunks that are likely to run side by side, this one included. */
  sharers: number;
  /** Frees the slot. Further calls change nothing. */
  release(): void;
};

export type SlotsOptions = {
  /** Chunks that run side by side. */
  slots: number;
  /** Further slots that only synchronous work takes. */
  synchronousSlots: number;
};

export type SlotsStatus = {
  running: number;
  runningSynchronous: number;
  waiting: number;
  /** Slots, without those for synchronous work only. The name is part of the program's status. */
  workers: number;
};

/** Decides which chunk runs next: synchronous ones first, then organizations in turn, oldest transcription first. */
export type Slots = {
  /** Waits for a slot, which the caller releases. Rejects with the signal's reason when it is aborted first. */
  acquire(request: SlotRequest, signal: AbortSignal): Promise<Slot>;
  /** Starts no more chunks, except synchronous ones. Running chunks continue. */
  pause(): void;
  /** Sets the number of slots. Chunks that run beyond it continue. */
  resize(slots: number): void;
  status(): SlotsStatus;
};

type Waiter = SlotRequest & { admit: (slot: Slot) => void };

export function createSlots(options: SlotsOptions): Slots {
  const turns = createTurns();
  const waiting = new Set<Waiter>();
  const running = createRunningCounts(options);
  let isPaused = false;

  /** Estimates how many chunks share the machine. A few get much each; the last ones must leave nothing idle. */
  function sharersOf({ hasSuccessors, model }: SlotRequest): number {
    const beside = hasSuccessors ? model.slots - 1 : startable(waiting, running);
    return Math.max(1, Math.min(running.slots(), running.all() + beside));
  }

  function choose(): Waiter | undefined {
    const synchronous = [...waiting].filter((waiter) => waiter.isSynchronous);
    if (synchronous.length > 0 && running.hasSlotFor(true)) return oldest(synchronous);
    if (isPaused || !running.hasSlotFor(false)) return undefined;
    const others = [...waiting].filter(
      ({ isSynchronous, model }) => !isSynchronous && running.slotsLeft(model) > 0,
    );
    const organizationId = turns.next(others);
    return oldest(others.filter((waiter) => waiter.organizationId === organizationId));
  }

  function pump(): void {
    while (true) {
      const chosen = choose();
      if (!chosen) return;
      waiting.delete(chosen);
      turns.account(chosen.organizationId, chosen.weight, chosen.costMs);
      running.count(chosen, 1);
      chosen.admit({ sharers: sharersOf(chosen), release: once(() => free(chosen)) });
    }
  }

  function free(waiter: Waiter): void {
    running.count(waiter, -1);
    pump();
  }

  return {
    acquire(request, signal) {
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
    pause(): void {
      isPaused = true;
    },
    resize(slots) {
      running.resize(slots);
      pump();
    },
    status: () => ({
      running: running.all(),
      runningSynchronous: running.synchronous(),
      waiting: waiting.size,
      workers: running.slots(),
    }),
  };
}

/** Counts running chunks against the slots that exist. */
type RunningCounts = {
  all(): number;
  synchronous(): number;
  /** Returns the number of slots, without those for synchronous work only. */
  slots(): number;
  resize(slots: number): void;
  hasSlotFor(isSynchronous: boolean): boolean;
  /** Returns how many more chunks of a model may run. Synchronous chunks do not count: they have slots of their own. */
  slotsLeft(model: SlotRequest["model"]): number;
  count(request: SlotRequest, change: 1 | -1): void;
};

function createRunningCounts({ slots: initialSlots, synchronousSlots }: SlotsOptions): RunningCounts {
  const byModel = new Map<string, number>();
  let slots = initialSlots;
  let all = 0;
  let synchronous = 0;
  return {
    all: () => all,
    synchronous: () => synchronous,
    slots: () => slots,
    resize(wanted) {
      slots = wanted;
    },
    hasSlotFor(isSynchronous) {
      if (all - synchronous < slots && all < slots + synchronousSlots) return true;
      return isSynchronous && synchronous < synchronousSlots;
    },
    slotsLeft: (model) => Math.max(0, model.slots - (byModel.get(model.id) ?? 0)),
    count({ isSynchronous, model }, change) {
      all += change;
      if (isSynchronous) synchronous += change;
      else byModel.set(model.id, (byModel.get(model.id) ?? 0) + change);
      if (byModel.get(model.id) === 0) byModel.delete(model.id);
    },
  };
}

/** Counts the waiting chunks that the limits of their models allow to run. */
function startable(waiting: Iterable<Waiter>, running: RunningCounts): number {
  const asked = new Map<string, { model: Waiter["model"]; count: number }>();
  let sum = 0;
  for (const { isSynchronous, model } of waiting) {
    if (isSynchronous) sum++;
    else asked.set(model.id, { model, count: (asked.get(model.id)?.count ?? 0) + 1 });
  }
  for (const { model, count } of asked.values()) sum += Math.min(count, running.slotsLeft(model));
  return sum;
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
