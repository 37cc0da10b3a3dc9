/** Equal places for a bounded number of callers. The others wait, and get places in the order in which they came. */
export type Places = {
  /**
   * Waits for a place.
   *
   * @returns gives the place back; the caller calls it once
   */
  enter(): Promise<() => void>;
};

/** @param count of callers that have a place at once */
export function createPlaces(count: number): Places {
  let free = count;
  const waiting: (() => void)[] = [];
  function leave(): void {
    const next = waiting.shift();
    if (next) next();
    else free++;
  }
  return {
    async enter() {
      if (free > 0) free--;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      return leave;
    },
  };
}
