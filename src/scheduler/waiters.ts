import { beginWait, type Wait } from "../lib/abort.ts";

/** Lets callers wait for a value of an identifier that comes later. */
export type Waiters<T> = {
  /** Waits for the next value of this identifier. Rejects with the signal's reason when it is aborted first. */
  wait(id: string, signal: AbortSignal): Promise<T>;
  /** Gives the value to all callers that wait for this identifier now. */
  settle(id: string, value: T): void;
  /** Returns the identifiers that callers wait for now. */
  ids(): string[];
};

export function createWaiters<T>(): Waiters<T> {
  const waiting = new Map<string, Set<Wait<T>>>();
  return {
    wait(id, signal) {
      const wait = beginWait<T>(signal, () => {
        others.delete(wait);
        if (others.size === 0) waiting.delete(id);
      });
      const others = waiting.get(id) ?? new Set();
      waiting.set(id, others.add(wait));
      return wait.promise;
    },
    settle(id, value) {
      const waits = waiting.get(id) ?? [];
      waiting.delete(id);
      for (const wait of waits) wait.resolve(value);
    },
    ids: () => [...waiting.keys()],
  };
}
