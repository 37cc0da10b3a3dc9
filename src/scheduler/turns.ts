/**
 * Fair turns between organizations: stride scheduling (Waldspurger and Weihl 1995). Each organization has a clock
 * of served work divided by its weight; the one whose clock is behind is next.
 */
export type Turns = {
  /** Whose turn it is among those that have something to do. */
  next(candidates: Iterable<{ organizationId: string; weight: number }>): string | undefined;
  /** Counts served work, in any unit that is the same for all. */
  account(organizationId: string, weight: number, cost: number): void;
};

/** Clocks of organizations that have been idle are forgotten beyond this number. */
const MAX_REMEMBERED = 10_000;

export function createTurns(): Turns {
  const clocks = new Map<string, number>();
  let virtualTime = 0;

  /** Time spent idle earns nothing: who comes back starts at the present. */
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
