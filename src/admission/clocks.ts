/**
 * Gives parties fair turns by stride scheduling (Waldspurger and Weihl 1995). Each party has a clock of its served work
 * divided by its weight. The party whose clock is furthest behind is next.
 */
export type Clocks = {
  /** Returns the party whose turn it is, or undefined without parties. */
  next(parties: Iterable<string>): string | undefined;
  /** Counts served work of a party, in any unit that is the same for all. */
  account(party: string, weight: number, cost: number): void;
};

export function createClocks(): Clocks {
  const clocks = createMemory<number>();
  let virtualTime = 0;

  /** Returns a party's clock. Idle time earns no advantage: an idle clock is set to the present. */
  const clockOf = (party: string) => Math.max(clocks.get(party) ?? 0, virtualTime);

  return {
    next(parties) {
      let chosen: string | undefined;
      let lowest = Number.POSITIVE_INFINITY;
      for (const party of parties) {
        const clock = clockOf(party);
        if (clock < lowest || (clock === lowest && chosen !== undefined && party < chosen)) {
          chosen = party;
          lowest = clock;
        }
      }
      if (chosen !== undefined) virtualTime = lowest;
      return chosen;
    },
    account: (party, weight, cost) => clocks.set(party, clockOf(party) + cost / Math.max(1, weight)),
  };
}

/** A map that forgets the entry that was set longest ago when it has too many. */
export type Memory<T> = { get(key: string): T | undefined; set(key: string, value: T): void };

const MAX_REMEMBERED = 10_000;

export function createMemory<T>(): Memory<T> {
  const entries = new Map<string, T>();
  return {
    get: (key) => entries.get(key),
    set(key, value) {
      entries.delete(key);
      entries.set(key, value);
      if (entries.size <= MAX_REMEMBERED) return;
      const oldest = entries.keys().next().value;
      if (oldest !== undefined) entries.delete(oldest);
    },
  };
}
