import { ConfigError } from "../config/problems.ts";
import { changesBetween, takeOver } from "../config/reload.ts";
import type { Config } from "../config/schema.ts";
import type { Log } from "../lib/log.ts";
import type { Listeners } from "./listeners.ts";
import { type Certificate, endingOf, readCertificate } from "./tls.ts";

export type ReloadParts = {
  /** The config of the running server. Reloaded settings are written into it. */
  config: Config;
  certificate: Certificate | undefined;
  listeners: Listeners;
  log: Log;
  /** Reads the config as a start would. @throws ConfigError */
  read(): Config;
  /** Checks files and networks that a config names. @throws ConfigError */
  check(config: Config): Promise<void>;
  /** Is called after settings have changed. */
  onChange(): void;
};

/**
 * Makes the function that reloads the config: settings that can change in a running server, and the certificate. It runs
 * once at a time; a call during a run is followed by another run. A config with a mistake changes nothing. The log has the
 * outcome.
 */
export function createReload(parts: ReloadParts): () => Promise<void> {
  let { certificate } = parts;
  let running: Promise<void> | undefined;
  let isWanted = false;

  async function reload(): Promise<void> {
    const { config, log } = parts;
    let wanted: Config;
    let next: Certificate | undefined;
    try {
      wanted = parts.read();
      await parts.check(wanted);
      next = readCertificate(wanted);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      log.error({ problems: error.problems }, "the config was not reloaded: nothing has changed");
      return;
    }
    const changes = changesBetween(config, wanted);
    // Whether the server uses TLS is decided when it begins to listen.
    const isOther = (certificate === undefined) !== (next === undefined);
    const tls = ["server.tls_cert", "server.tls_key"];
    const reloaded = changes.reloaded.filter((setting) => !isOther || !tls.includes(setting));
    const needRestart = [
      ...changes.needRestart,
      ...changes.reloaded.filter((setting) => !reloaded.includes(setting)),
    ];
    const isRenewed = !isOther && next !== undefined && !Bun.deepEquals(next.tls, certificate?.tls);
    if (isRenewed && next) {
      parts.listeners.replaceCertificate(next);
      certificate = next;
    }
    takeOver(config, wanted, reloaded);
    parts.onChange();
    const level = log.levels.values;
    const isQuieter = (level[config.log.level] ?? Infinity) > (level[log.level] ?? Infinity);
    // These lines are for the more talkative of the two levels.
    if (!isQuieter) log.level = config.log.level;
    log.info({ changed: reloaded, new_certificate: isRenewed }, "the config was reloaded");
    if (needRestart.length > 0)
      log.warn({ settings: needRestart }, "these settings change at the next restart");
    const ending = isRenewed && next ? endingOf(next, Date.now()) : undefined;
    if (ending !== undefined) log.warn(ending);
    log.level = config.log.level;
  }

  async function run(): Promise<void> {
    do {
      isWanted = false;
      await reload().catch((error: unknown) =>
        parts.log.error({ err: error }, "the config was not reloaded"),
      );
    } while (isWanted);
    running = undefined;
  }

  return () => {
    isWanted = true;
    running ??= run();
    return running;
  };
}
