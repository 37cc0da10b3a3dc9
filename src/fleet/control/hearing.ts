/**
 * Measures for how long workers could have been heard. Their silence counts only while this process runs, its link is up and
 * the messaging server answers. When this process or that server is stopped, or the way between them is cut, no worker is
 * heard, and workers are not to blame.
 *
 * A single late tick does not count: this process was stopped. Of several late ones in a row, each after the first counts as
 * the usual time between two. So silent workers are lost after a number of ticks, however late those are.
 */
export type Hearing = {
  /**
   * Notes that this process runs. Called at intervals of `everyMs`.
   *
   * @param now on the clock of `performance.now()`
   * @param linkUpForMs for how long the link has been up; 0: it is down
   * @param isAnswered the messaging server has answered since the tick before
   */
  tick(now: number, linkUpForMs: number, isAnswered: boolean): void;
  /**
   * Returns the time at which a silence must have begun that has lasted this long by now. -Infinity: no silence can have
   * lasted so long.
   */
  silentSince(silenceMs: number, now: number): number;
};

/** Time that does not count. */
type Deafness = { from: number; to: number };

/** Ticks are never exact. */
const TOLERANCE = 1.5;

/**
 * @param startedAt on the clock of `performance.now()`
 * @param everyMs the usual time between two ticks
 * @param longestMs longest silence that is asked for
 */
export function createHearing(startedAt: number, everyMs: number, longestMs: number): Hearing {
  const deaf: Deafness[] = [];
  // Time that counts is between them, and nearly always a tick of it. So older ones are before every silence that is asked for.
  const maxEntries = Math.ceil(longestMs / everyMs) + 2;
  let lastTickAt = startedAt;
  let wasLate = false;
  let since = startedAt;

  return {
    tick(now, linkUpForMs, isAnswered) {
      const isLate = now - lastTickAt > everyMs * TOLERANCE;
      const from = lastTickAt + (isAnswered && wasLate ? everyMs : 0);
      const last = deaf.at(-1);
      if (isLate || !isAnswered) {
        if (last?.to === from) last.to = now;
        else deaf.push({ from, to: now });
      }
      if (deaf.length > maxEntries) deaf.shift();
      wasLate = isLate;
      lastTickAt = now;
      since = Math.max(since, now - linkUpForMs);
    },
    silentSince(silenceMs, now) {
      let left = silenceMs;
      let end = now;
      for (const { from, to } of deaf.toReversed()) {
        if (end - to >= left) break;
        left -= end - to;
        end = from;
      }
      return end - left > since ? end - left : Number.NEGATIVE_INFINITY;
    },
  };
}

/**
 * Asks the messaging server for signs of life, one after the other.
 *
 * @param ping resolves when the server has answered
 * @returns a function that asks, and returns whether the server has answered since it was called before
 */
export function createSignsOfLife(ping: () => Promise<unknown>): () => boolean {
  let isPinging = false;
  let hasAnswered = false;

  async function ask(): Promise<void> {
    isPinging = true;
    try {
      await ping();
      hasAnswered = true;
    } catch {
      // The link is down: the next call asks again.
    } finally {
      isPinging = false;
    }
  }

  return () => {
    const found = hasAnswered;
    hasAnswered = false;
    if (!isPinging) void ask();
    return found;
  };
}
