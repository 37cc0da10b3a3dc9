import type { Shares } from "./shares.ts";

/** Work of one owner that waits, what is to begin first at the front. */
export type Waiting<T> = { owner: string; items: readonly T[] };

/**
 * Begins as much of the waiting work as there are places, one piece of each owner in turn. First come the owners that hold the
 * fewest places, and of these the one that has not begun anything for longest: so each owner's turn comes, however many others
 * have work that never ends.
 *
 * @param begin is called with a place of its owner taken; its end gives the place back
 */
export type StartInTurn = <T>(waiting: readonly Waiting<T>[], begin: (item: T) => void) => void;

/** @param shares the places */
export function createSharedTurns(shares: Pick<Shares, "take" | "held">): StartInTurn {
  /** Counts what has begun. An owner without work is forgotten, and is a new one when it comes back. */
  let count = 0;
  const lastOf = new Map<string, number>();
  return (waiting, begin) => {
    const owners = new Set(waiting.map(({ owner }) => owner));
    for (const owner of lastOf.keys())
      if (!owners.has(owner) && shares.held(owner) === 0) lastOf.delete(owner);
    let inTurn = waiting
      .map(({ owner, items }) => ({ owner, items: [...items] }))
      .sort(
        (a, b) =>
          shares.held(a.owner) - shares.held(b.owner) ||
          (lastOf.get(a.owner) ?? 0) - (lastOf.get(b.owner) ?? 0),
      );
    while (inTurn.length > 0) {
      inTurn = inTurn.filter(({ owner, items }) => {
        const next = items.shift();
        if (next === undefined || !shares.take(owner)) return false;
        count += 1;
        lastOf.set(owner, count);
        begin(next);
        return true;
      });
    }
  };
}
