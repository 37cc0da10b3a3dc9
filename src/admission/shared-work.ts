import { untilAborted } from "../lib/abort.ts";

type Shared<T> = { outcome: Promise<T>; stop: AbortController; waiting: number };

/**
 * Runs work once for all who ask for it at the same time. It is aborted when none of them waits any more.
 *
 * @returns a function that waits for the work of a name; it rejects with the signal's reason when that aborts first
 */
export function createSharedWork<T>(begin: (name: string, signal: AbortSignal) => Promise<T>) {
  const running = new Map<string, Shared<T>>();

  function start(name: string): Shared<T> {
    const stop = new AbortController();
    const shared: Shared<T> = { stop, waiting: 0, outcome: begin(name, stop.signal) };
    const forget = () => {
      if (running.get(name) === shared) running.delete(name);
    };
    shared.outcome.then(forget, forget);
    running.set(name, shared);
    return shared;
  }

  return async (name: string, signal: AbortSignal): Promise<T> => {
    signal.throwIfAborted();
    const shared = running.get(name) ?? start(name);
    shared.waiting += 1;
    try {
      return await untilAborted(shared.outcome, signal);
    } finally {
      shared.waiting -= 1;
      if (shared.waiting === 0) {
        if (running.get(name) === shared) running.delete(name);
        shared.stop.abort(new Error("no request waits for this any more"));
      }
    }
  };
}
