import type { Config } from "../config/schema.ts";
import type { Log } from "../lib/log.ts";
import { fillBallast } from "../services/ballast.ts";

/** Keeps the ballast of a data directory at its size. */
export type BallastUpkeep = {
  start(): void;
  /** Stops, and waits until a write under way has ended. */
  stop(): Promise<void>;
};

const EVERY_MS = 60_000;

/** @param everyMs pause between two looks */
export function createBallastUpkeep(
  { config, dataDir, log }: { config: Config; dataDir: string; log: Log },
  everyMs = EVERY_MS,
): BallastUpkeep {
  let timer: Timer | undefined;
  let running: Promise<void> = Promise.resolve();
  let problem: string | undefined;

  /** Logs each problem once. */
  function report(found: string | undefined): void {
    if (found !== undefined && found !== problem)
      log.warn({ reason: found }, "commands have no ballast to free on a full disk");
    problem = found;
  }

  async function look(): Promise<void> {
    try {
      const { isForeign } = await fillBallast(dataDir, config.storage.ballast_bytes);
      report(isForeign ? "something else has its name, ballast, in the data directory" : undefined);
    } catch (error) {
      report(error instanceof Error ? error.message : String(error));
    }
  }

  const lookNow = () => {
    running = running.then(look);
  };
  return {
    start() {
      lookNow();
      timer = setInterval(lookNow, everyMs);
    },
    stop() {
      clearInterval(timer);
      return running;
    },
  };
}
