/** Chunks that clients wait for have threads beside those of the background. */
type Kind = "urgent" | "background";

/** Threads that chunks share, and how many of them one chunk may have for itself. */
type Share = { threadGroups: number; groupThreads: number };

type Times = Share & {
  running: number;
  /** Thread time of one chunk since the start: slower than the clock while chunks share threads. */
  shared: number;
};

/**
 * Measures how many threads each chunk had while several chunks shared threads.
 *
 * @param now returns milliseconds
 */
export function createSharedTime(now: () => number) {
  const times: Record<Kind, Times> = {
    urgent: { running: 0, shared: 0, threadGroups: 1, groupThreads: 1 },
    background: { running: 0, shared: 0, threadGroups: 1, groupThreads: 1 },
  };
  let lastMs = now();

  function advance(): void {
    const nowMs = now();
    const isMixed = times.urgent.running > 0 && times.background.running > 0;
    for (const kind of [times.urgent, times.background]) {
      if (kind.running === 0) continue;
      const most = isMixed ? 1 : kind.groupThreads;
      kind.shared += (nowMs - lastMs) * Math.min(most, kind.threadGroups / kind.running);
    }
    lastMs = nowMs;
  }

  return {
    /** Begins a chunk. The returned function ends it, and returns the mean of its threads; the first call counts. */
    enter(kind: Kind, share: Share): () => number {
      advance();
      const own = Object.assign(times[kind], share);
      own.running++;
      const [startMs, startShared] = [lastMs, own.shared];
      let threads: number | undefined;
      return () => {
        if (threads !== undefined) return threads;
        advance();
        own.running--;
        threads = lastMs > startMs ? (own.shared - startShared) / (lastMs - startMs) : 1;
        return threads;
      };
    },
  };
}
