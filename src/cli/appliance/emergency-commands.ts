import type { Command } from "commander";
import { pathOf } from "../frame/command-tree.ts";

/**
 * Commands of an emergency: they close a door, free space or show what is there, and must work where little else does.
 * Of the config they need `storage.data_dir` alone.
 */
const EMERGENCY_COMMANDS: ReadonlySet<string> = new Set([
  ...["orgs list", "orgs show", "orgs disable", "orgs purge", "projects list", "projects show"],
  ...["keys list", "keys revoke", "console"],
  ...["webhooks list", "webhooks disable", "webhooks remove"],
  ...["transcriptions list", "transcriptions show", "transcriptions cancel", "transcriptions delete"],
  ...["uploads list", "uploads show", "uploads delete", "storage", "storage prune"],
  ...[
    "credit show",
    "credit audit",
    "audit list",
    "audit verify",
    "clock show",
    "receipts list",
    "receipts show",
  ],
  ...["backup", "status"],
]);

/** The commands among them that write, and others that free space or close a door. */
const WRITING_COMMANDS: ReadonlySet<string> = new Set([
  ...["orgs disable", "orgs purge", "keys revoke", "console", "webhooks disable", "webhooks remove"],
  ...["transcriptions cancel", "transcriptions delete", "uploads delete", "storage prune"],
  ...["models remove", "fleet drain", "fleet remove"],
]);

/**
 * Says when a command may use the ballast: `always` before it writes where there is hardly any space, and `full`, only once
 * it has met a full disk; undefined: never.
 */
export function ballastUse(command: Command): "always" | "full" | undefined {
  const path = pathOf(command);
  if (WRITING_COMMANDS.has(path)) return "always";
  // What a backup has written stays; it uses the ballast by itself.
  return EMERGENCY_COMMANDS.has(path) && path !== "backup" ? "full" : undefined;
}

/** Reports whether a command works also with a config that has mistakes. */
export function needsOnlyData(command: Command): boolean {
  const { all, to, endSessions } = command.opts<{ all?: true; to?: string; endSessions?: true }>();
  const path = pathOf(command);
  // A backup of everything has the config in it, and a link to the console has the server's address.
  if (path === "backup") return all === undefined && to === undefined;
  if (path === "console") return endSessions === true;
  return EMERGENCY_COMMANDS.has(path);
}
