import type { Log } from "../lib/log.ts";
import { type Database, dataVersion } from "../store/database.ts";

/** How often the database is checked for changes by other processes, such as the command line. */
const LOOK_EVERY_MS = 250;

/**
 * Calls `onChange` after other processes have written to the database, until it is stopped. A check that fails is logged
 * and repeated.
 *
 * @param everyMs milliseconds between two checks; replaced in tests
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
      // No caller could catch this error, so it would end the program.
      log.error({ err: error }, "what another process has written could not be looked at");
    }
  };
  const timer = setInterval(look, everyMs);
  return { stop: () => clearInterval(timer) };
}
