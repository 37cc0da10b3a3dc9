/** The least pace of a body that arrives. */
export type PaceLimits = {
  /** Average rate; 0: any pace will do. */
  bytesPerSecond: number;
  /** How long nothing at all may come; as long a body may stay behind the rate. */
  slowMs: number;
};

export type Pace = {
  /** So many bytes have arrived. */
  arrived(bytes: number): void;
  /** Waits for work of the receiver, during which the sender may have been held up by it. */
  during<T>(work: Promise<T>): Promise<T>;
  isTooSlow(): boolean;
  /** Ends the watch. */
  end(): void;
};

/**
 * Watches the pace of a body. It starts with `slowMs` in hand; each byte earns the time that it takes at the least
 * rate, up to `slowMs` again. So a body that was fast may pause for `slowMs`, and one that trickles ends after it.
 *
 * @param onTooSlow is called once, when the time in hand is used up
 */
export function watchPace({ bytesPerSecond, slowMs }: PaceLimits, onTooSlow: () => void): Pace {
  /** When the time in hand is used up, should nothing arrive. */
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
