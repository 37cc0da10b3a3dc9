/** Promises of what will happen to an identifier, kept until it does. */
export type Waiters<T> = {
  /** Settles with what `tell` says of this identifier; rejects with the signal's reason. */
  wait(id: string, signal: AbortSignal): Promise<T>;
  tell(id: string, value: T): void;
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
    tell(id, value) {
      for (const settle of [...(waiting.get(id) ?? [])]) settle(value);
    },
  };
}
