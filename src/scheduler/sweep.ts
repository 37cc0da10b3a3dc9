import { createRetentionService, type RetentionDeps } from "../services/retention.ts";
import type { UploadService } from "../services/uploads.ts";

const EVERY_MS = 60_000;

export type SweeperDeps = Omit<RetentionDeps, "uploads"> & {
  uploads: Pick<UploadService, "expire" | "removeAudioFile" | "sweepOrphans">;
};
export type Sweeper = ReturnType<typeof createSweeper>;

/** Reconciles files with records once at the start, then removes each minute what has been kept long enough. */
export function createSweeper(deps: SweeperDeps, everyMs = EVERY_MS) {
  const retention = createRetentionService(deps);
  const stopping = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
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
    start(): void {
      running = guarded("the sweep of recordings", deps.uploads.sweepOrphans).then(round);
    },
    /** Resolves when the round under way has ended. */
    async stop(): Promise<void> {
      stopping.abort();
      clearTimeout(timer);
      await running;
    },
  };
}
