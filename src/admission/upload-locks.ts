/** Releases the lock of an upload's file. A second call does nothing. */
export type ReleaseLock = () => void;

export type UploadLocks = {
  /**
   * Takes the lock of an upload. The present holder is asked to release it: a client waits for its newest request, and
   * the older one is on a connection that broke.
   *
   * @param letGo is called at most once, when another request wants the lock; this one must then release it soon
   */
  acquire(uploadId: string, letGo: () => void): Promise<ReleaseLock>;
  /** Takes the lock; undefined when another request holds it. */
  tryAcquire(uploadId: string, letGo: () => void): ReleaseLock | undefined;
  isHeld(uploadId: string): boolean;
  /** Returns how many uploads are locked. */
  held(): number;
  /** Asks each holder to release its lock, and waits until all have. */
  close(): Promise<void>;
};

type Hold = { letGo: () => void; released: Promise<void> };

/** Creates the locks: each upload has one writer. They are in memory, because one process serves a data directory. */
export function createUploadLocks(): UploadLocks {
  const holds = new Map<string, Hold>();

  function tryAcquire(uploadId: string, letGo: () => void): ReleaseLock | undefined {
    if (holds.has(uploadId)) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    let asked = false;
    const hold: Hold = {
      letGo() {
        if (asked) return;
        asked = true;
        letGo();
      },
      released: promise,
    };
    holds.set(uploadId, hold);
    return () => {
      if (holds.get(uploadId) === hold) holds.delete(uploadId);
      resolve();
    };
  }

  return {
    async acquire(uploadId, letGo) {
      for (;;) {
        const release = tryAcquire(uploadId, letGo);
        if (release) return release;
        const hold = holds.get(uploadId);
        hold?.letGo();
        await hold?.released;
      }
    },
    tryAcquire,
    isHeld: (uploadId) => holds.has(uploadId),
    held: () => holds.size,
    async close() {
      const open = [...holds.values()];
      for (const hold of open) hold.letGo();
      await Promise.all(open.map((hold) => hold.released));
    },
  };
}
