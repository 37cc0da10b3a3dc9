/** The right to write one upload's file; calling it twice does nothing. */
export type ReleaseLock = () => void;

export type UploadLocks = {
  /**
   * Takes the right to write an upload. Whoever holds it is asked to let go: the newest request of a client
   * is the one that it waits for, and an older one hangs on a connection that broke.
   *
   * @param letGo called at most once, when somebody else asks; the holder must then release soon
   */
  acquire(uploadId: string, letGo: () => void): Promise<ReleaseLock>;
  /** Takes it only when nobody holds it. */
  tryAcquire(uploadId: string, letGo: () => void): ReleaseLock | undefined;
  isHeld(uploadId: string): boolean;
  /** How many uploads are being written. */
  held(): number;
  /** Asks every holder to let go and waits until all have. */
  close(): Promise<void>;
};

type Hold = { letGo: () => void; released: Promise<void> };

/** One writer an upload, whichever protocol it speaks; in memory, because one process serves a data directory. */
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
