import { ConfigError } from "../config/problems.ts";
import { changesBetween, takeOver } from "../config/reload.ts";
import type { Config } from "../config/schema.ts";
import type { Log } from "../lib/log.ts";

/** What a running worker reads from its config each time. All else is read when it starts. */
const RELOADED = ["log.level", "server.drain_seconds"];

/**
 * Reloads the config of a running worker: settings that it can take over are written into `config`. A config with a mistake
 * changes nothing. The log has the outcome, and names the settings that need a restart.
 *
 * @param read reads the config as a start would, and throws what is wrong with it
 */
export function reloadWorker(config: Config, log: Log, read: () => Config): void {
  let wanted: Config;
  try {
    wanted = read();
  } catch (error) {
    const reason = error instanceof ConfigError ? { problems: error.problems } : { err: error };
    log.error(reason, "the config was not reloaded: nothing has changed");
    return;
  }
  const { reloaded, needRestart } = changesBetween(config, wanted);
  const changed = reloaded.filter((setting) => RELOADED.includes(setting));
  const later = [...needRestart, ...reloaded.filter((setting) => !RELOADED.includes(setting))];
  takeOver(config, wanted, changed);
  log.info({ changed }, "the config was reloaded");
  if (later.length > 0) log.warn({ settings: later }, "these settings change at the next restart");
  log.level = config.log.level;
}
