import { availableParallelism } from "node:os";
import { beginWait } from "../lib/abort.ts";
import { createShares } from "./shares.ts";

/** Work that runs a decoder or finds speech, and the organization that it runs for. */
export type DecoderWork = {
  organizationId: string;
  /** Order within an organization: synchronous requests, then recordings of transcriptions, then new uploads. */
  purpose: "synchronous" | "transcription" | "upload";
  /** True for work that takes much longer than usual. Such work never takes all places from small work. */
  isLarge: boolean;
};

export type DecoderPlaces = {
  /**
   * Runs the work once a place is free for its organization.
   *
   * @throws the signal's reason when it aborts before the work has begun; what the work throws
   */
  run<T>(work: DecoderWork, signal: AbortSignal, decode: () => Promise<T>): Promise<T>;
  /** Gives places that have been added to work that waits. */
  wake(): void;
  status(): { places: number; running: number; waiting: number };
};

type Waiting = { work: DecoderWork; begin: () => void };

const PURPOSES = ["synchronous", "transcription", "upload"] as const;

/** Returns how many places one organization can have on a machine with this many cores. */
export function placesOfOne(cores = availableParallelism()): number {
  return Math.max(2, Math.floor(cores / 2));
}

function sizesOf(most: number | (() => number)) {
  const own = typeof most === "number" ? () => most : most;
  const spare = () => Math.max(2, Math.floor(own() / 4));
  return { own, spare, places: () => own() + spare() };
}

/**
 * Bounds how many decoders run at once, and shares the places between organizations. Finding speech has places of its own.
 *
 * - An organization gets at most `own` places, and fewer while others decode. The other places are for organizations that
 *   have none, so that each finds a place whatever files the others send.
 * - The next place goes to the organization that has the fewest. Equals take turns.
 * - Large work gets at most half of an organization's places, and half of all.
 *
 * Work holds its place for one decoding only. So no work that has a place waits for another place.
 *
 * @param most returns the most places of one organization, at least 1; a number where that does not change
 */
export function createDecoderPlaces(most: number | (() => number) = placesOfOne()): DecoderPlaces {
  const { own, spare, places } = sizesOf(most);
  const shares = createShares(places, spare);
  /** Number of large runs by organization. */
  const large = new Map<string, number>();
  let runningLarge = 0;
  /** Waiting work by organization, in order of rank. The organization that was served last is last. */
  const queues = new Map<string, Set<Waiting>[]>();

  const rankOf = ({ purpose, isLarge }: DecoderWork) =>
    PURPOSES.indexOf(purpose) + (isLarge ? PURPOSES.length : 0);

  function mayBegin({ organizationId, isLarge }: DecoderWork): boolean {
    if (!shares.mayTake(organizationId)) return false;
    if (!isLarge) return true;
    const ownLarge = large.get(organizationId) ?? 0;
    return ownLarge < Math.max(1, Math.floor(own() / 2)) && runningLarge < Math.floor(places() / 2);
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

  /** Finds the first of an organization's work that may begin now. */
  function firstOf(ranks: readonly Set<Waiting>[]): Waiting | undefined {
    for (const rank of ranks) {
      const [first] = rank;
      if (first && mayBegin(first.work)) return first;
    }
    return undefined;
  }

  /** Gives free places away until none can be used. */
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

  /** Resolves once the work has a place. */
  async function begun(work: DecoderWork, signal: AbortSignal): Promise<void> {
    const wait = beginWait<void>(signal, () => leaveQueue(waiting));
    const waiting = { work, begin: () => wait.resolve() };
    enterQueue(waiting);
    serve();
    await wait.promise;
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
    wake: serve,
    status() {
      let waiting = 0;
      for (const ranks of queues.values()) for (const { size } of ranks) waiting += size;
      return { places: places(), running: shares.taken(), waiting };
    },
  };
}
