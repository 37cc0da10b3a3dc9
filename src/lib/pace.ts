/** The least pace of a body that arrives. */
export type PaceLimits = {
  /** Least average rate; 0: no limit. */
  bytesPerSecond: number;
  /** How long a body may pause, or stay behind the rate. */
  slowMs: number;
};

export type Pace = {
  /** Counts bytes that have arrived. */
  arrived(bytes: number): void;
  /** Waits for work of the receiver. That time does not count, because the work may have delayed the sender. */
  during<T>(work: Promise<T>): Promise<T>;
  isTooSlow(): boolean;
  /** Ends the watch. */
  end(): void;
};

/**
 * Watches the pace of a body. The body has a budget of `slowMs`. Time uses it up, and each byte adds the time that it
 * takes at the least rate, up to `slowMs`. So a fast body may pause for `slowMs`, and a slow one ends after it.
 *
 * @param onTooSlow is called once, when the budget is used up
 */
export function watchPace({ bytesPerSecond, slowMs }: PaceLimits, onTooSlow: () => void): Pace {
  /** When the budget will be used up, unless bytes arrive; on the clock of `performance.now()`. */
  let endsAtMs = performance.now() + slowMs;
  let isTooSlow = false;
  let working = 0;
  let timer: Timer | undefined;

  function look(): void {
    const leftMs = endsAtMs - performance.now();
    if (leftMs > 0 || working > 0) {
      timer = setTimeout(look, Math.max(leftMs, 1));
      return;
    }
    isTooSlow = true;
    onTooSlow();
  }

  if (bytesPerSecond > 0) timer = setTimeout(look, slowMs);
  return {
    arrived(bytes) {
      if (bytesPerSecond === 0) return;
      const earnedMs = (bytes * 1000) / bytesPerSecond;
      endsAtMs = Math.min(endsAtMs + earnedMs, performance.now() + slowMs);
    },
    async during(work) {
      const startedMs = performance.now();
      working += 1;
      try {
        return await work;
      } finally {
        working -= 1;
        endsAtMs += performance.now() - startedMs;
      }
    },
    isTooSlow: () => isTooSlow,
    end: () => clearTimeout(timer),
  };
}
