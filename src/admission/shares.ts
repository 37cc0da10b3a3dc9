/** Places that owners share. No owner can take all of them from the others. */
export type Shares = {
  /** Takes a place; false when this owner may not have another one now. */
  take(owner: string): boolean;
  /** Gives back a place that was taken. */
  giveBack(owner: string): void;
  mayTake(owner: string): boolean;
  held(owner: string): number;
  taken(): number;
};

/**
 * Divides places by dynamic thresholds (Choudhury and Hahne 1998): the more an owner holds, the more places must be
 * free before it gets another. An owner alone gets all but `spare`. An owner that holds none gets any free place.
 *
 * @param places at least 1; a function where the number changes
 * @param spare places that one owner leaves free; less than `places`; 0: no sharing
 */
export function createShares(places: number | (() => number), spare: number | (() => number)): Shares {
  const held = new Map<string, number>();
  let taken = 0;

  function mayTake(owner: string): boolean {
    const [all, left] = [numberOf(places), numberOf(spare)];
    const free = all - taken;
    return free > 0 && (held.get(owner) ?? 0) * left < free * (all - left);
  }

  return {
    mayTake,
    take(owner) {
      if (!mayTake(owner)) return false;
      held.set(owner, (held.get(owner) ?? 0) + 1);
      taken += 1;
      return true;
    },
    giveBack(owner) {
      const count = held.get(owner);
      if (count === undefined) throw new Error("a place was given back that was not taken");
      if (count > 1) held.set(owner, count - 1);
      else held.delete(owner);
      taken -= 1;
    },
    held: (owner) => held.get(owner) ?? 0,
    taken: () => taken,
  };
}

const numberOf = (value: number | (() => number)) => (typeof value === "number" ? value : value());

/** Returns the usual spare: a quarter of the places, at least 1 when there are 2 or more. */
export function usualSpare(places: number): number {
  return Math.min(places - 1, Math.max(1, Math.floor(places / 4)));
}
