import type { Log } from "./lib/log.ts";
import { type Database, dataVersion } from "./store/database.ts";

/** How often the database is asked whether another process, as the command line, has written to it. */
const LOOK_EVERY_MS = 250;

/**
 * Tells of what other processes have written to the database, until it is stopped. A look that fails is repeated.
 *
 * @param everyMs replaced in tests
 */
export function watchOutsideChanges(
  database: Database,
  log: Log,
  onChange: () => void,
  everyMs = LOOK_EVERY_MS,
): { stop(): void } {
  let version = dataVersion(database);
  const look = () => {
    try {
      const current = dataVersion(database);
      if (current === version) return;
      onChange();
      version = current;
    } catch (error) {
      // Nobody else could catch it: it would end the program.
      log.error({ err: error }, "what another process has written could not be looked at");
    }
  };
  const timer = setInterval(look, everyMs);
  return { stop: () => clearInterval(timer) };
}
