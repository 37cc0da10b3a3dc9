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
  const waiting = new Map<string, Set<(value: T) => void>>();
  return {
    wait(id, signal) {
      signal.throwIfAborted();
      return new Promise((resolve, reject) => {
        const listeners = waiting.get(id) ?? new Set();
        waiting.set(id, listeners);
        const leave = () => {
          listeners.delete(settle);
          if (listeners.size === 0) waiting.delete(id);
          signal.removeEventListener("abort", onAbort);
        };
        const settle = (value: T) => {
          leave();
          resolve(value);
        };
        const onAbort = () => {
          leave();
          reject(signal.reason);
        };
        listeners.add(settle);
        signal.addEventListener("abort", onAbort, { once: true });
      });
    },
    settle(id, value) {
      for (const settle of [...(waiting.get(id) ?? [])]) settle(value);
    },
    ids: () => [...waiting.keys()],
  };
}
