/**
 * Gives organizations fair turns by stride scheduling (Waldspurger and Weihl 1995). Each organization has a clock of its
 * served work divided by its weight. The organization whose clock is furthest behind is next.
 */
export type Turns = {
  /** Returns the organization whose turn it is, or undefined without candidates. */
  next(candidates: Iterable<{ organizationId: string; weight: number }>): string | undefined;
  /** Counts served work of an organization, in any unit that is the same for all. */
  account(organizationId: string, weight: number, cost: number): void;
};

/** Beyond this number the clock that was changed longest ago is forgotten. */
const MAX_REMEMBERED = 10_000;

export function createTurns(): Turns {
  const clocks = new Map<string, number>();
  let virtualTime = 0;

  /** Returns an organization's clock. Idle time earns no advantage: an idle clock is set to the present. */
  const clockOf = (organizationId: string) => Math.max(clocks.get(organizationId) ?? 0, virtualTime);

  return {
    next(candidates) {
      let chosen: string | undefined;
      let lowest = Number.POSITIVE_INFINITY;
      for (const { organizationId } of candidates) {
        const clock = clockOf(organizationId);
        if (clock < lowest || (clock === lowest && chosen !== undefined && organizationId < chosen)) {
          chosen = organizationId;
          lowest = clock;
        }
      }
      if (chosen !== undefined) virtualTime = lowest;
      return chosen;
    },
    account(organizationId, weight, cost) {
      const clock = clockOf(organizationId) + cost / Math.max(1, weight);
      clocks.delete(organizationId);
      clocks.set(organizationId, clock);
      if (clocks.size > MAX_REMEMBERED) {
        const oldest = clocks.keys().next().value;
        if (oldest !== undefined) clocks.delete(oldest);
      }
    },
  };
}
