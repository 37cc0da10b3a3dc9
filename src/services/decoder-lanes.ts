import { availableParallelism } from "node:os";
import { createShares } from "../lib/shares.ts";

/** Work that runs a decoder, and for whom. */
export type DecoderWork = {
  organizationId: string;
  /** Within an organization a synchronous request goes first, then what is to be transcribed, then new uploads. */
  purpose: "synchronous" | "transcription" | "upload";
  /** Takes much longer than usual, so that small work does not wait for it where there is another lane. */
  isLarge: boolean;
};

export type DecoderLanes = {
  /**
   * Does the work once a lane is free for its organization.
   *
   * @throws the signal's reason when it aborts before the work has begun; what the work throws
   */
  run<T>(work: DecoderWork, signal: AbortSignal, decode: () => Promise<T>): Promise<T>;
  status(): { lanes: number; running: number; waiting: number };
};

type Waiting = { work: DecoderWork; begin: () => void };

const PURPOSES = ["synchronous", "transcription", "upload"] as const;

/** Lanes that one organization can have, by this machine's cores. */
export function lanesOfOne(cores = availableParallelism()): number {
  return Math.max(2, Math.floor(cores / 2));
}

/**
 * Bounds how many decoders run at once, whatever they run for, and shares the lanes between organizations.
 *
 * - An organization gets at most `own` lanes, and fewer while others decode; the lanes beyond those are for
 *   organizations that have none. Whatever files one of them sends, another finds a lane.
 * - The next lane goes to the organization that has the fewest, in turn.
 * - Large work gets half of an organization's lanes, and half of all.
 *
 * A lane is held for one decoding and nothing else, so that no work waits in one lane for another.
 */
export function createDecoderLanes(own = lanesOfOne()): DecoderLanes {
  const spare = Math.max(2, Math.floor(own / 4));
  const lanes = own + spare;
  const shares = createShares(lanes, spare);
  /** Large work that runs, by organization. */
  const large = new Map<string, number>();
  let runningLarge = 0;
  /** What waits, by organization, in the order in which it is to be done. The organization served last comes last. */
  const queues = new Map<string, Set<Waiting>[]>();

  const rankOf = ({ purpose, isLarge }: DecoderWork) =>
    PURPOSES.indexOf(purpose) + (isLarge ? PURPOSES.length : 0);

  function mayBegin({ organizationId, isLarge }: DecoderWork): boolean {
    if (!shares.mayTake(organizationId)) return false;
    if (!isLarge) return true;
    const ownLarge = large.get(organizationId) ?? 0;
    return ownLarge < Math.max(1, Math.floor(own / 2)) && runningLarge < Math.floor(lanes / 2);
  }

  function occupy({ organizationId, isLarge }: DecoderWork): void {
    shares.take(organizationId);
    if (!isLarge) return;
    large.set(organizationId, (large.get(organizationId) ?? 0) + 1);
    runningLarge += 1;
  }

  function vacate({ organizationId, isLarge }: DecoderWork): void {
    shares.giveBack(organizationId);
    if (isLarge) {
      const left = (large.get(organizationId) ?? 0) - 1;
      if (left > 0) large.set(organizationId, left);
      else large.delete(organizationId);
      runningLarge -= 1;
    }
    serve();
  }

  /** The first of an organization's work that may begin now. */
  function firstOf(ranks: readonly Set<Waiting>[]): Waiting | undefined {
    for (const rank of ranks) {
      const [first] = rank;
      if (first && mayBegin(first.work)) return first;
    }
    return undefined;
  }

  /** Gives free lanes away until none can be used. */
  function serve(): void {
    for (;;) {
      let chosen: Waiting | undefined;
      for (const [organizationId, ranks] of queues) {
        const fewest = chosen && shares.held(chosen.work.organizationId);
        if (fewest !== undefined && shares.held(organizationId) >= fewest) continue;
        chosen = firstOf(ranks) ?? chosen;
      }
      if (!chosen) return;
      leaveQueue(chosen);
      const { organizationId } = chosen.work;
      const ranks = queues.get(organizationId);
      if (ranks) {
        queues.delete(organizationId);
        queues.set(organizationId, ranks);
      }
      occupy(chosen.work);
      chosen.begin();
    }
  }

  function leaveQueue(waiting: Waiting): void {
    const { organizationId } = waiting.work;
    const ranks = queues.get(organizationId);
    ranks?.[rankOf(waiting.work)]?.delete(waiting);
    if (ranks?.every(({ size }) => size === 0)) queues.delete(organizationId);
  }

  function enterQueue(waiting: Waiting): void {
    const { organizationId } = waiting.work;
    const ranks = queues.get(organizationId) ?? Array.from({ length: 2 * PURPOSES.length }, () => new Set());
    queues.set(organizationId, ranks);
    ranks[rankOf(waiting.work)]?.add(waiting);
  }

  /** Resolves when the lane is this work's. */
  function begun(work: DecoderWork, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const waiting = {
        work,
        begin() {
          signal.removeEventListener("abort", leave);
          resolve();
        },
      };
      const leave = () => {
        leaveQueue(waiting);
        reject(signal.reason);
      };
      signal.addEventListener("abort", leave, { once: true });
      enterQueue(waiting);
      serve();
    });
  }

  return {
    async run(work, signal, decode) {
      await begun(work, signal);
      try {
        return await decode();
      } finally {
        vacate(work);
      }
    },
    status() {
      let waiting = 0;
      for (const ranks of queues.values()) for (const { size } of ranks) waiting += size;
      return { lanes, running: shares.taken(), waiting };
    },
  };
}
