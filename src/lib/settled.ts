/** How long a passing failure may last, and the pause between two tries, milliseconds. */
const WITHIN_MS = 5_000;
const PAUSE_MS = 5;

/**
 * Does a piece of work again while it fails in a way that passes within moments. The thread waits for it, so this is for
 * the start of a program.
 *
 * @param isPassing reports whether a failure may pass
 * @throws the last failure
 */
export function whenSettled<T>(work: () => T, isPassing: (error: unknown) => boolean): T {
  const startedMs = performance.now();
  for (;;) {
    try {
      return work();
    } catch (error) {
      if (!isPassing(error) || performance.now() - startedMs > WITHIN_MS) throw error;
    }
    Bun.sleepSync(PAUSE_MS);
  }
}
