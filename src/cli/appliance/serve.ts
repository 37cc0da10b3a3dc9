import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Server } from "bun";
import type { Command } from "commander";
import { ConfigError } from "../../config/problems.ts";
import type { Config } from "../../config/schema.ts";
import { otherDecoder } from "../../engine/other-decoder.ts";
import { isJournal, type Log, openLog } from "../../lib/log.ts";
import type { ProgramFileError } from "../../lib/program-file.ts";
import { notifyServiceManager, reloadingState, type ServiceState } from "../../lib/service-manager.ts";
import { toTimestamp } from "../../lib/time.ts";
import type { App } from "../../server/app.ts";
import { localAddress, namesNoHost, publicAddress } from "../../server/listen-address.ts";
import { type Listeners, openListeners } from "../../server/listeners.ts";
import { createReload } from "../../server/reload.ts";
import { STATUS_FILE } from "../../server/status-file.ts";
import { type Certificate, endingOf, readCertificate } from "../../server/tls.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { becomeOwnerForGood } from "../frame/owner.ts";
import { repeatedErrors } from "../frame/repeated-errors.ts";

const STATUS_EVERY_MS = 1_000;

export function registerServe(program: Command, context: CliContext): void {
  program
    .command("serve")
    .description("Run the server; SIGTERM drains, a second SIGTERM stops at once, SIGHUP reloads the config.")
    .action(async () => {
      const { config, path } = context.loadConfig({ isLogged: true });
      await serve(config, path, context);
    });
}

async function serve(config: Config, configPath: string | undefined, context: CliContext): Promise<void> {
  await checkSettings(config);
  const { requireServerRights } = await import("../../server/server-rights.ts");
  requireServerRights(config, context.io.environment);
  const user = becomeOwnerForGood(config);
  if (user !== undefined) requireServerRights(config, context.io.environment);
  const notify = (state: ServiceState) =>
    void notifyServiceManager(context.io.environment.NOTIFY_SOCKET, state);
  // Other users may be able to read the data directory. New files are only for the server's user.
  process.umask(0o077);
  const write = (line: string) => void context.io.err(line);
  const hasPriorities = isJournal(context.io.environment.JOURNAL_STREAM);
  const log = openLog(config.log.level, config.log.format, write, hasPriorities, await repeatedErrors());
  if (user !== undefined) log.info({ user }, "started by root: continues as the owner of the data directory");
  const [{ openApp, REQUESTS_END_WITHIN_MS }, { backupProcess }] = await Promise.all([
    import("../../server/app.ts"),
    import("../../server/backup-process.ts"),
  ]);
  let listeners: Listeners | undefined;
  let status: { stop(): void } | undefined;
  const stopped = Promise.withResolvers<void>();
  const app = await openApp({
    ...{ config, log },
    makeBackup: backupProcess(config, configPath),
    baseUrl: () => (listeners ? addressOf(listeners.current(), config) : ""),
    onUpgrade: (bytes) =>
      notify({ STATUS: "upgrading the database", EXTEND_TIMEOUT_USEC: upgradeMicroseconds(bytes) }),
    onUnfit: (reason) =>
      stopped.reject(new CommandError("machine", `this machine cannot run the engine: ${reason}`)),
  }).catch(explainStart);
  // It is awaited only once the server listens.
  stopped.promise.catch(() => {});
  const onSignal = handleSignals(() => {
    notify({ STOPPING: 1, STATUS: "stopping: running chunks finish" });
    log.info("stopping: running chunks finish, the rest continues after the next start");
    app.startDraining();
    stopped.resolve();
  });
  try {
    const certificate = readCertificate(config);
    listeners = openListeners(config, app, certificate, log);
    const server = listeners.current();
    const reload = createReload({
      ...{ config, certificate, listeners, log, check: checkSettings, onChange: app.onConfigChange },
      read: () => context.loadConfig({ isLogged: true }).config,
    });
    onSignal.reload = announced(reload, notify);
    app.start();
    // The model is still being loaded: `GET /readyz` reports that. Requests are answered from now on.
    notify({ READY: 1, STATUS: `listening on ${addressOf(server, config)}` });
    log.info({ address: addressOf(server, config), ...factsOf(app, configPath) }, "listening");
    warnAtStart(config, certificate, log);
    status = keepStatusFile(app, server, config);
    await stopped.promise;
    // The server reports that it is not ready, and still answers requests.
    await app.drain();
    onSignal.reload = undefined;
    await listeners.stop(REQUESTS_END_WITHIN_MS);
    status.stop();
    await app.close();
  } catch (error) {
    // Otherwise the listening server and a timer would keep the process alive.
    await listeners?.abort();
    status?.stop();
    await app.close().catch((failure: unknown) => log.error({ err: failure }, "closing failed"));
    throw error;
  } finally {
    onSignal.stop();
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

/** Native files that cannot be used here will not be usable at the next try, unless the disk was full. */
async function explainStart(error: unknown): Promise<never> {
  const [{ NativeFilesError }, { isDiskFull }] = await Promise.all([
    import("../../native/native-files.ts"),
    import("../../store/disk-full.ts"),
  ]);
  if (!(error instanceof NativeFilesError) || isDiskFull(error)) throw error;
  const code = (error.cause as NodeJS.ErrnoException | undefined)?.code ?? "";
  throw new CommandError(/^(EACCES|EPERM|EROFS)$/.test(code) ? "rights" : "machine", error.message);
}

/**
 * Checks what the schema of the config cannot: whether the files and networks that it names can be used.
 *
 * @throws ConfigError with every mistake
 */
export async function checkSettings(config: Config): Promise<void> {
  const [{ checkWebhookSettings }, { trustedProxies }, { checkBackupSettings }] = await Promise.all([
    import("../../webhooks/sender.ts"),
    import("../../services/trusted-proxies.ts"),
    import("../../server/scheduled-backups.ts"),
  ]);
  const checks = [checkWebhookSettings, trustedProxies, checkBackupSettings, readCertificate, checkDecoder];
  const problems = checks.flatMap((check) => {
    try {
      check(config);
      return [];
    } catch (error) {
      if (error instanceof ConfigError) return error.problems;
      throw error;
    }
  });
  if (problems.length > 0) throw new ConfigError(problems);
}

/** @throws ConfigError when `engine.decoder` is not a program */
function checkDecoder({ engine }: Config): void {
  try {
    otherDecoder(engine);
  } catch (cause) {
    throw new ConfigError((cause as ProgramFileError).message, { cause });
  }
}

/** Reports whether the address for clients is unknown: the server listens on all addresses, and no base URL is set. */
function hasUnknownAddress({ server }: Config): boolean {
  return server.base_url === "" && namesNoHost(server.listen);
}

function addressOf({ port }: Server<unknown>, { server }: Config): string {
  return server.base_url || publicAddress(server.listen, server.tls_cert !== "", port);
}

type SignalHandling = {
  /** Is called at SIGHUP; undefined: SIGHUP does nothing yet, or any more. */
  reload: (() => Promise<void>) | undefined;
  stop(): void;
};

/**
 * Drains at the first SIGTERM or SIGINT, and ends the process at the second. The database loses nothing. SIGHUP reloads
 * the config; on a terminal it says that the terminal was closed, and drains.
 */
function handleSignals(drain: () => void): SignalHandling {
  let hasDrained = false;
  const listener = () => {
    if (hasDrained) process.exit(1);
    hasDrained = true;
    drain();
  };
  const handling: SignalHandling = {
    reload: undefined,
    stop() {
      for (const signal of signals) process.off(signal, listener);
      process.off("SIGHUP", onHangUp);
    },
  };
  const onHangUp = () => {
    if (process.stdin.isTTY) listener();
    else void handling.reload?.();
  };
  const signals = ["SIGTERM", "SIGINT"] as const;
  for (const signal of signals) process.on(signal, listener);
  process.on("SIGHUP", onHangUp);
  return handling;
}

/** Writes the status of this process to a small file, regularly. `shruti status` reads it. */
function keepStatusFile(app: App, server: Server<unknown>, config: Config): { stop(): void } {
  const path = join(app.dataDir, STATUS_FILE);
  const startedAt = toTimestamp(Date.now());
  const write = () => {
    const status = {
      pid: process.pid,
      address: addressOf(server, config),
      local_address: localAddress(config.server.listen, config.server.tls_cert !== "", server.port),
      started_at: startedAt,
      updated_at: toTimestamp(Date.now()),
      ...app.status(),
    };
    writeFileSync(`${path}.tmp`, JSON.stringify(status), { mode: 0o600 });
    renameSync(`${path}.tmp`, path);
  };
  const tryToWrite = () => {
    try {
      write();
    } catch {
      // A full disk must not end the server. `updated_at` shows that the file is old.
    }
  };
  const timer = setInterval(tryToWrite, STATUS_EVERY_MS);
  tryToWrite();
  return {
    stop() {
      clearInterval(timer);
      rmSync(path, { force: true });
    },
  };
}
