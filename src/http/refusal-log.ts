import type { Log } from "../lib/log.ts";

/** Requests without a valid key that one address may have in the log within an interval, each with its own line. */
const LOGGED_EACH = 5;
const INTERVAL_MS = 60_000;
/** Addresses that are counted apart; those beyond share one count. */
const MAX_ADDRESSES = 1000;
/** The most lines at an interval's end: one for each address that sent most. */
const MAX_LINES = 20;

export type RefusalLog = {
  /** Whether the request that was refused gets a line of its own; otherwise it is counted. */
  hasOwnLine(client: string | undefined): boolean;
  /** Writes what was counted so far. */
  flush(): void;
};

/**
 * Keeps a flood of requests without a valid key out of the log: the first few of an address get a line each, and
 * the rest of its minute one line together. Memory and lines are bounded, however many addresses there are.
 *
 * @param now milliseconds on a clock that never goes back
 */
export function createRefusalLog(log: Log, now: () => number = () => performance.now()): RefusalLog {
  const counts = new Map<string, number>();
  let others = 0;
  let startedMs = now();
  let timer: ReturnType<typeof setTimeout> | undefined;

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    const seconds = Math.max(1, Math.round((now() - startedMs) / 1000));
    const flooded = [...counts]
      .map(([client, count]) => ({ client, count: count - LOGGED_EACH }))
      .filter(({ count }) => count > 0)
      .sort((a, b) => b.count - a.count);
    for (const { client, count } of flooded.slice(0, MAX_LINES))
      log.warn({ client, count, seconds }, "more requests without a valid key");
    const rest = flooded.slice(MAX_LINES).reduce((sum, { count }) => sum + count, others);
    if (rest > 0) log.warn({ count: rest, seconds }, "more requests without a valid key, of other addresses");
    counts.clear();
    others = 0;
  }

  return {
    hasOwnLine(client) {
      if (now() - startedMs >= INTERVAL_MS) flush();
      if (timer === undefined) {
        startedMs = now();
        timer = setTimeout(flush, INTERVAL_MS);
        timer.unref();
      }
      const name = client ?? "unknown";
      const count = counts.get(name);
      if (count === undefined && counts.size >= MAX_ADDRESSES) {
        others++;
        return false;
      }
      counts.set(name, (count ?? 0) + 1);
      return (count ?? 0) < LOGGED_EACH;
    },
    flush,
  };
}
