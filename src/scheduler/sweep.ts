import { createRetentionService, type RetentionDeps } from "../services/retention.ts";
import type { UploadService } from "../services/uploads/uploads.ts";

const EVERY_MS = 60_000;

export type SweeperDeps = Omit<RetentionDeps, "uploads"> & {
  uploads: Pick<UploadService, "expire" | "removeAudioFile" | "sweepOrphans">;
};

/**
 * Compares the recordings on disk with the records once at the start. Then removes, each minute, all data whose
 * retention time has passed. Failures are logged, and the work is tried again in the next minute.
 */
export type Sweeper = {
  start(): void;
  /** Stops, and waits until the round under way has ended. */
  stop(): Promise<void>;
};

/** @param everyMs pause between two rounds */
export function createSweeper(deps: SweeperDeps, everyMs = EVERY_MS): Sweeper {
  const retention = createRetentionService(deps);
  const stopping = new AbortController();
  let timer: Timer | undefined;
  let running: Promise<void> = Promise.resolve();

  async function guarded(what: string, work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      deps.log.error({ err: error }, `${what} failed and is tried again later`);
    }
  }

  async function round(): Promise<void> {
    await guarded("a round of retention", async () => {
      const report = await retention.run();
      if (Object.values(report).some((count) => count > 0)) deps.log.info(report, "retention");
    });
    if (!stopping.signal.aborted) timer = setTimeout(next, everyMs);
  }

  function next(): void {
    running = round();
  }

  return {
    start() {
      running = guarded("the sweep of recordings", deps.uploads.sweepOrphans).then(round);
    },
    async stop() {
      stopping.abort();
      clearTimeout(timer);
      await running;
    },
  };
}
