/** Calls functions when something has happened to an identifier, as often as it happens. */
export type Watchers = {
  /** Adds a function. @returns a function that removes it */
  watch(id: string, onEvent: () => void): () => void;
  /** Calls the functions of this identifier. */
  notify(id: string): void;
};

/** @param onError receives what a function throws: those who wait for an event do not disturb what causes it */
export function createWatchers(onError: (error: unknown) => void): Watchers {
  const watching = new Map<string, Set<() => void>>();
  return {
    watch(id, onEvent) {
      const own = watching.get(id) ?? new Set();
      watching.set(id, own);
      // The same function may watch twice.
      const call = () => onEvent();
      own.add(call);
      return () => {
        own.delete(call);
        if (own.size === 0 && watching.get(id) === own) watching.delete(id);
      };
    },
    notify(id) {
      for (const call of [...(watching.get(id) ?? [])]) {
        try {
          call();
        } catch (error) {
          onError(error);
        }
      }
    },
  };
}
