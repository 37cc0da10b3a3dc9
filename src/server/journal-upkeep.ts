import type { Config } from "../config/schema.ts";
import { runAs, SERVER } from "../lib/actor.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import { within } from "../lib/within.ts";
import { createJournalCopier } from "../services/backups/journal-copies.ts";
import { mirrorClosings } from "../services/journal/closings.ts";
import type { Database } from "../store/database.ts";

/** Keeps the file of closings, and the copies of both files in the folders of backups. */
export type JournalUpkeep = {
  start(): void;
  /** Stops. A disk of another machine that does not answer is not waited for. */
  stop(): Promise<void>;
};

type Deps = { config: Config; clock: Clock; log: Log; database: Database; dataDir: string };

const EVERY_MS = 10_000;
const STOPS_WITHIN_MS = 1_000;

/**
 * Looks for new lines every ten seconds, in the background: a request never waits for another disk. A folder that cannot be
 * reached is in the log once, until it can be reached again.
 *
 * @param everyMs pause between two looks
 */
export function createJournalUpkeep(deps: Deps, everyMs = EVERY_MS): JournalUpkeep {
  const { log } = deps;
  const copier = createJournalCopier(deps);
  const unreached = new Set<string>();
  let running: Promise<void> | undefined;
  let timer: Timer | undefined;

  async function run(): Promise<void> {
    try {
      mirrorClosings(deps);
      const { reached, failed } = await copier.copy();
      for (const path of reached) unreached.delete(path);
      for (const { path, reason } of failed) {
        if (!unreached.has(path))
          log.warn(
            { path, reason },
            "the files of deletions and closings cannot be copied to a folder of backups",
          );
        unreached.add(path);
      }
    } catch (error) {
      log.error({ err: error }, "the file of closings could not be written and is tried again later");
    }
  }

  function look(): void {
    running ??= runAs({ ...SERVER, via: "journal" }, run).finally(() => {
      running = undefined;
    });
  }

  return {
    start() {
      timer = setInterval(look, everyMs);
      look();
    },
    async stop() {
      clearInterval(timer);
      if (running) await within(STOPS_WITHIN_MS, running);
    },
  };
}
