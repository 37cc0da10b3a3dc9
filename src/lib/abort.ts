/** What the program does when a signal aborts. Other files add no listeners of their own. */

/**
 * Calls a function when a signal aborts, and at once where it has aborted already.
 *
 * @param signal undefined: nothing aborts
 * @returns a function that ends this, so that nothing is called any more
 */
export function onAbort(signal: AbortSignal | undefined, act: () => void): () => void {
  if (signal?.aborted) act();
  else signal?.addEventListener("abort", act, { once: true });
  return () => signal?.removeEventListener("abort", act);
}

/**
 * Waits for a promise, or until a signal aborts. Nothing can cancel the promise itself: its late outcome is dropped.
 *
 * @throws the signal's reason when it aborts first; what the promise rejects with
 */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = onAbort(signal, () => reject(signal.reason));
    promise.then(resolve, reject).finally(stop);
  });
}

/** One that waits in a queue until another caller gives it what it waits for. */
export type Wait<T> = {
  promise: Promise<T>;
  /** Ends the wait with a value. */
  resolve(value: T): void;
  /** Ends the wait with an error. */
  reject(error: unknown): void;
};

/**
 * Begins to wait in a queue. The caller puts the wait into its queue, and takes it out before it ends the wait.
 *
 * @param signal undefined: only the queue ends the wait
 * @param leave takes the wait out of its queue. It runs within the abort: what gets free in the same moment must not go to
 *   a caller that has left. The promise rejects with the signal's reason before it runs.
 * @throws the signal's reason when it has aborted already
 */
export function beginWait<T>(signal: AbortSignal | undefined, leave: () => void): Wait<T> {
  signal?.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const stop = onAbort(signal, () => {
    reject(signal?.reason);
    leave();
  });
  return {
    promise,
    resolve(value) {
      stop();
      resolve(value);
    },
    reject(error) {
      stop();
      reject(error);
    },
  };
}
