import { resolve } from "node:path";
import type { Command } from "commander";
import { default as project } from "../../../package.json";
import { openLog } from "../../lib/log.ts";
import { notifyServiceManager } from "../../lib/service-manager.ts";
import type { CliContext } from "../frame/context.ts";
import { becomeOwnerForGood } from "../frame/owner.ts";
import { repeatedErrors } from "../frame/repeated-errors.ts";

/** The first connection is waited for this long before the service manager counts the worker as started. */
const CONNECT_WITHIN_MS = 30_000;

/** `shruti worker`: recognizes chunks for the control plane of a fleet. */
export function registerWorker(program: Command, context: CliContext): void {
  program
    .command("worker")
    .description(
      "Recognize for a fleet; SIGTERM finishes running chunks, a second SIGTERM stops at once, SIGHUP reloads the config.",
    )
    .action(() => runWorker(context));
}

async function runWorker(context: CliContext): Promise<void> {
  const { config, path } = context.loadConfig({ isLogged: true });
  becomeOwnerForGood(config);
  // Other users may be able to read the data directory.
  process.umask(0o077);
  const { environment } = context.io;
  const write = (line: string) => void context.io.err(line);
  const log = openLog(config.log.level, config.log.format, write, false, await repeatedErrors());
  const [{ openFleetWorker }, { reloadWorker }, { handleSignals }] = await Promise.all([
    import("../../programs/fleet-worker.ts"),
    import("../../programs/worker-reload.ts"),
    import("../../server/signals.ts"),
  ]);
  const worker = await openFleetWorker(config, context.clock, log, project.version);
  const stopped = Promise.withResolvers<void>();
  const onSignal = handleSignals(stopped.resolve);
  try {
    log.info(
      {
        ...{ worker: config.fleet.worker, fleet: config.fleet.name, pid: process.pid },
        config_file: path === undefined ? null : resolve(path),
      },
      "the worker has started",
    );
    onSignal.reload = async () =>
      reloadWorker(config, log, () => context.loadConfig({ isLogged: true }).config);
    void worker
      .whenConnected(CONNECT_WITHIN_MS)
      .then(() =>
        notifyServiceManager(environment.NOTIFY_SOCKET, { READY: 1, STATUS: "working for the fleet" }),
      );
    await stopped.promise;
    await notifyServiceManager(environment.NOTIFY_SOCKET, { STOPPING: 1, STATUS: "running chunks finish" });
    log.info("stopping: running chunks finish");
    await worker.drain(config.server.drain_seconds * 1000);
  } finally {
    onSignal.stop();
    await worker.close();
  }
}
