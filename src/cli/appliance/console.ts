import type { Command } from "commander";
import { toTimestamp } from "../../lib/time.ts";
import { addressOfConfig } from "../../server/listen-address.ts";
import { readServerStatus } from "../../server/status-file.ts";
import { hasServer } from "../../services/data-dir-lock.ts";
import { type CliContext, CommandError } from "../frame/context.ts";

/** `shruti console` */
export function registerConsole(program: Command, context: CliContext): void {
  program
    .command("console")
    .description("print a link that opens the console as an admin, once and within ten minutes")
    .option("--end-sessions", "end all admin sessions and links instead")
    .option("--json", "print JSON")
    .action(async (options: { endSessions?: true; json?: true }) => {
      const { config, dataDir, consoleSessions } = await context.openServices();
      if (options.endSessions) {
        const ended = consoleSessions.endAll();
        if (options.json) return context.printJson(ended);
        return context.printLine(`Ended: ${ended.sessions} sessions, ${ended.links} links.`);
      }
      if (!config.console.enabled) {
        throw new CommandError("failed", "the console is switched off (console.enabled)");
      }
      const server = readServerStatus(dataDir);
      const isLocal = config.console.admin_from.length === 0;
      const base = isLocal
        ? (server?.local_address ?? addressOfConfig(config))
        : config.server.base_url || (server?.address ?? addressOfConfig(config));
      const { secret, expiresAt } = consoleSessions.createLink();
      const url = `${base}/console#admin=${secret}`;
      if (options.json) return context.printJson({ url, expires_at: toTimestamp(expiresAt) });
      context.printLine(url);
      context.note("It works once, within ten minutes, and opens a session of twelve hours.");
      if (isLocal) {
        context.note(
          "It works on this machine only. From another one: ssh -L PORT:127.0.0.1:PORT, or console.admin_from.",
        );
      }
      if (!server && !hasServer(dataDir))
        context.note("No server runs on this data directory at the moment.");
    });
}
