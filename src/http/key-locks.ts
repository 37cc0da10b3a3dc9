/** Runs work under one name after another, different names side by side. */
export function createKeyLocks() {
  const tails = new Map<string, Promise<void>>();

  return {
    /** Waits for the name's earlier work, then does this; a failure is the caller's alone. */
    async run<T>(name: string, work: () => Promise<T>): Promise<T> {
      const before = tails.get(name) ?? Promise.resolve();
      const { promise: mine, resolve } = Promise.withResolvers<void>();
      tails.set(name, mine);
      await before;
      try {
        return await work();
      } finally {
        resolve();
        if (tails.get(name) === mine) tails.delete(name);
      }
    },
    /** Names in use. */
    size: () => tails.size,
  };
}
