import { resolve } from "node:path";
import type { Server } from "bun";
import type { Config } from "../config/schema.ts";
import type { Log } from "../lib/log.ts";
import { reloadingState, type ServiceState } from "../lib/service-manager.ts";
import { type App, openApp, REQUESTS_END_WITHIN_MS } from "./app.ts";
import { backupProcess } from "./backup-process.ts";
import { namesNoHost, publicAddress } from "./listen-address.ts";
import { type Listeners, openListeners } from "./listeners.ts";
import { createReload } from "./reload.ts";
import { checkSettings } from "./settings-check.ts";
import { handleSignals, type SignalHandling } from "./signals.ts";
import { keepStatusFile } from "./status-file.ts";
import { type Certificate, endingOf, readCertificate } from "./tls.ts";

export type RunOptions = {
  config: Config;
  /** The config file; undefined: there is none. */
  configPath: string | undefined;
  log: Log;
  /** Reports states of the server to the service manager. */
  notify: (state: ServiceState) => void;
  /** Reads the config again, for a reload. */
  readConfig: () => Config;
  /** Makes the error of a machine that cannot run the engine. */
  unfit: (reason: string) => Error;
};

/** What is open only once the server listens. */
type Late = { listeners?: Listeners };

/**
 * Runs the server until a signal stops it: opens everything, listens, and closes everything in reverse order.
 *
 * @throws what `openApp`, `readCertificate` and `openListeners` throw; the error of `unfit`
 */
export async function runServer(options: RunOptions): Promise<void> {
  const { config, configPath, log, notify } = options;
  const late: Late = {};
  const stopped = Promise.withResolvers<void>();
  const app = await openApp({
    ...{ config, log },
    makeBackup: backupProcess(config, configPath),
    baseUrl: () => (late.listeners ? addressOf(late.listeners.current(), config) : ""),
    onUpgrade: (bytes) =>
      notify({ STATUS: "upgrading the database", EXTEND_TIMEOUT_USEC: upgradeMicroseconds(bytes) }),
    onUnfit: (reason) => stopped.reject(options.unfit(reason)),
  });
  // It is awaited only once the server listens.
  stopped.promise.catch(() => {});
  const onSignal = handleSignals(() => {
    notify({ STOPPING: 1, STATUS: "stopping: running chunks finish" });
    log.info("stopping: running chunks finish, the rest continues after the next start");
    app.startDraining();
    stopped.resolve();
  });
  try {
    await listen(options, app, onSignal, stopped.promise, late);
  } finally {
    onSignal.stop();
  }
}

/** Answers requests until the promise settles, and closes everything then. */
async function listen(
  { config, configPath, log, notify, readConfig }: RunOptions,
  app: App,
  onSignal: SignalHandling,
  stopped: Promise<void>,
  late: Late,
): Promise<void> {
  let endStatus: (() => void) | undefined;
  try {
    const certificate = readCertificate(config);
    const listeners = openListeners(config, app, certificate, log);
    late.listeners = listeners;
    const server = listeners.current();
    const reload = createReload({
      ...{ config, certificate, listeners, log, check: checkSettings, onChange: app.onConfigChange },
      read: readConfig,
    });
    onSignal.reload = announced(reload, notify);
    app.start();
    // The model is still being loaded: `GET /readyz` reports that. Requests are answered from now on.
    notify({ READY: 1, STATUS: `listening on ${addressOf(server, config)}` });
    log.info({ address: addressOf(server, config), ...factsOf(app, configPath) }, "listening");
    warnAtStart(config, certificate, log);
    endStatus = keepStatusFile(app, server, config);
    await stopped;
    // The server reports that it is not ready, and still answers requests.
    await app.drain();
    onSignal.reload = undefined;
    await listeners.stop(REQUESTS_END_WITHIN_MS);
    endStatus();
    await app.close();
  } catch (error) {
    // Otherwise the listening server and a timer would keep the process alive.
    await late.listeners?.abort();
    endStatus?.();
    await app.close().catch((failure: unknown) => log.error({ err: failure }, "closing failed"));
    throw error;
  }
}

/** What the log says of a server that has started. */
const factsOf = ({ dataDir }: App, configPath: string | undefined) => ({
  data_dir: dataDir,
  config_file: configPath === undefined ? null : resolve(configPath),
  pid: process.pid,
});

/** Makes a reload report its begin and its end, so that the service manager shows it and can wait for it. */
function announced(reload: () => Promise<void>, notify: (state: ServiceState) => void): () => Promise<void> {
  return () => {
    notify(reloadingState());
    return reload().finally(() => notify({ READY: 1 }));
  };
}

function warnAtStart(config: Config, certificate: Certificate | undefined, log: Log): void {
  if (hasUnknownAddress(config)) {
    log.warn(
      "upload addresses contain no host name, so clients on other machines cannot use them: set server.base_url",
    );
  }
  const ending = certificate && endingOf(certificate, Date.now());
  if (ending !== undefined) log.warn(ending);
}

/** A backup, the migrations and the hash of the result: at least 5 MB of the database in a second, and a minute. */
const upgradeMicroseconds = (bytes: number) => Math.round((60 + bytes / 5_000_000) * 1_000_000);

/** Reports whether the address for clients is unknown: the server listens on all addresses, and no base URL is set. */
function hasUnknownAddress({ server }: Config): boolean {
  return server.base_url === "" && namesNoHost(server.listen);
}

function addressOf({ port }: Server<unknown>, { server }: Config): string {
  return server.base_url || publicAddress(server.listen, server.tls_cert !== "", port);
}
