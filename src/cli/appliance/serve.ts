import type { Command } from "commander";
import type { Config } from "../../config/schema.ts";
import { isJournal, openLog } from "../../lib/log.ts";
import { notifyServiceManager } from "../../lib/service-manager.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { becomeOwnerForGood } from "../frame/owner.ts";
import { repeatedErrors } from "../frame/repeated-errors.ts";

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
  const { environment } = context.io;
  const [{ checkSettings }, { requireServerRights }] = await Promise.all([
    import("../../server/settings-check.ts"),
    import("../../server/server-rights.ts"),
  ]);
  await checkSettings(config);
  requireServerRights(config, environment);
  const user = becomeOwnerForGood(config);
  if (user !== undefined) requireServerRights(config, environment);
  // Other users may be able to read the data directory. New files are only for the server's user.
  process.umask(0o077);
  const write = (line: string) => void context.io.err(line);
  const hasPriorities = isJournal(environment.JOURNAL_STREAM);
  const log = openLog(config.log.level, config.log.format, write, hasPriorities, await repeatedErrors());
  if (user !== undefined) log.info({ user }, "started by root: continues as the owner of the data directory");
  const { runServer } = await import("../../server/run-server.ts");
  await runServer({
    ...{ config, configPath, log },
    notify: (state) => void notifyServiceManager(environment.NOTIFY_SOCKET, state),
    readConfig: () => context.loadConfig({ isLogged: true }).config,
    unfit: (reason) => new CommandError("machine", `this machine cannot run the engine: ${reason}`),
  }).catch(explainStart);
}

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
