import { untilAborted } from "../lib/abort.ts";

/** Runs work under one name after another, different names side by side. */
export function createKeyLocks() {
  const tails = new Map<string, Promise<void>>();

  return {
    /**
     * Waits for the name's earlier work, then does this; a failure is the caller's alone.
     *
     * @throws the signal's reason when it aborts before the work has begun
     */
    async run<T>(name: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
      const before = tails.get(name) ?? Promise.resolve();
      const { promise: mine, resolve } = Promise.withResolvers<void>();
      tails.set(name, mine);
      const end = () => {
        resolve();
        if (tails.get(name) === mine) tails.delete(name);
      };
      try {
        await untilAborted(before, signal);
      } catch (error) {
        // Those behind it wait for what it waited for.
        void before.then(end);
        throw error;
      }
      try {
        return await work();
      } finally {
        end();
      }
    },
    /** Names in use. */
    size: () => tails.size,
  };
}
