import type { Done } from "../messages.ts";

export type Result = NonNullable<Done["outcome"]>;
/** A result and the worker that has sent it. */
export type EarlyResult = { worker: string; result: Result };

/** Results of jobs that no caller wants yet, such as after a restart. They are in memory only. */
export type EarlyResults = {
  /** Keeps a result of this size. Returns false when there is one already, or no space. */
  put(job: string, early: EarlyResult, bytes: number): boolean;
  /** Returns and forgets a result. */
  take(job: string): EarlyResult | undefined;
  has(job: string): boolean;
  /** Forgets what is too old. @param now on the clock of `performance.now()` */
  sweep(now: number): void;
};

/** Results for which no caller asks are kept this long. After a restart, callers come within seconds. */
const KEPT_MS = 10 * 60_000;
/** A bound on memory, several times what the places of a large fleet can hold. */
const MAX_BYTES = 64 * 1024 * 1024;

export function createEarlyResults(): EarlyResults {
  const kept = new Map<string, EarlyResult & { at: number; bytes: number }>();
  let sum = 0;

  function take(job: string): EarlyResult | undefined {
    const found = kept.get(job);
    if (!found) return undefined;
    kept.delete(job);
    sum -= found.bytes;
    return found;
  }

  return {
    put(job, early, bytes) {
      if (kept.has(job) || sum + bytes > MAX_BYTES) return false;
      sum += bytes;
      kept.set(job, { ...early, at: performance.now(), bytes });
      return true;
    },
    take,
    has: (job) => kept.has(job),
    sweep(now) {
      for (const [job, { at }] of kept) if (now - at > KEPT_MS) take(job);
    },
  };
}
