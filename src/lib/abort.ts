/**
 * Waits for a promise, or until a signal aborts. Nothing can cancel the promise itself: its late outcome is dropped.
 *
 * @throws the signal's reason when it aborts first; what the promise rejects with
 */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
