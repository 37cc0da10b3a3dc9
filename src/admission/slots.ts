import { beginWait } from "../lib/abort.ts";
import { createTurns, type TurnCandidate } from "./turns.ts";
import { createWaitingChunks } from "./waiting-chunks.ts";

/** A chunk that asks for a slot. */
export type SlotRequest = TurnCandidate & {
  /** A client waits for this chunk with an open connection. */
  isSynchronous: boolean;
  /** Order within the transcription. */
  position: number;
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

/** Decides which chunk runs next: synchronous ones first, then the others in fair turns (`turns.ts`). */
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
  const synchronous = createWaitingChunks<Waiter>();
  const asynchronous = createWaitingChunks<Waiter>();
  const running = createRunningCounts(options);
  let isPaused = false;

  /** Estimates how many chunks share the machine. A few get much each; the last ones must leave nothing idle. */
  function sharersOf({ hasSuccessors, model }: SlotRequest): number {
    const beside = hasSuccessors ? model.slots - 1 : startable();
    return Math.max(1, Math.min(running.slots(), running.all() + beside));
  }

  /** Counts the waiting chunks that the limits of their models allow to run. */
  function startable(): number {
    const counts = asynchronous.models().map(({ model, count }) => Math.min(count, running.slotsLeft(model)));
    return counts.reduce((sum, count) => sum + count, synchronous.count());
  }

  function choose(): Waiter | undefined {
    if (synchronous.count() > 0 && running.hasSlotFor(true)) return synchronous.oldest();
    if (isPaused || !running.hasSlotFor(false)) return undefined;
    return turns.next(asynchronous.heads().filter(({ model }) => running.slotsLeft(model) > 0));
  }

  const waitingWith = ({ isSynchronous }: SlotRequest) => (isSynchronous ? synchronous : asynchronous);

  function pump(): void {
    while (true) {
      const chosen = choose();
      if (!chosen) return;
      waitingWith(chosen).remove(chosen);
      turns.account(chosen);
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
      const wait = beginWait<Slot>(signal, () => waitingWith(waiter).remove(waiter));
      const waiter: Waiter = { ...request, admit: wait.resolve };
      waitingWith(waiter).add(waiter);
      pump();
      return wait.promise;
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
      waiting: synchronous.count() + asynchronous.count(),
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

function once(work: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    work();
  };
}
