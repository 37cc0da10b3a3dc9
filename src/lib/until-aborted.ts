/**
 * Waits for work, but no longer than a signal allows. The work itself continues after an abort; its outcome is then
 * ignored.
 *
 * @throws the signal's reason once it is aborted, or what the work rejects with
 */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
    if (signal.aborted) onAbort();
  });
}
