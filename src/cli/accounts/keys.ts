import type { Command } from "commander";
import { SCOPES, type Scope } from "../../domain/api-key.ts";
import { toKey } from "../../http/console/views.ts";
import { toTimestamp } from "../../lib/time.ts";
import type { Admin } from "../../services/admin.ts";
import { duration } from "../frame/arguments.ts";
import { type CliContext, CommandError } from "../frame/context.ts";

type ApiKey = ReturnType<Admin["apiKeys"]["listKeys"]>[number];

/** `shruti keys …` */
export function registerKeys(program: Command, context: CliContext): void {
  const keys = program.command("keys").description("API keys of projects");

  registerCreate(keys, context);
  registerConfirm(keys, context);

  keys
    .command("list")
    .description("keys of a project, of an organization or of all, revoked and expired ones included")
    .option("--project <id>", "project")
    .option("--org <id>", "organization")
    .option("--json", "print JSON")
    .action(async (options: { project?: string; org?: string; json?: true }) => {
      const { apiKeys, accounts } = await context.openServices();
      if (options.org !== undefined) accounts.showOrganization(options.org);
      const all = apiKeys.listKeys({
        ...(options.project === undefined ? {} : { projectId: options.project }),
        ...(options.org === undefined ? {} : { organizationId: options.org }),
      });
      if (options.json) {
        context.printJson(all.map((key) => toJson(key, context)));
        return;
      }
      const rows = all.map((key) => [
        key.id,
        key.name,
        key.hint,
        key.projectId,
        toJson(key, context).state,
        time(key.lastUsedAt),
        time(key.expiresAt),
      ]);
      context.printTable(["ID", "NAME", "KEY", "PROJECT", "STATE", "LAST USED", "EXPIRES"], rows);
    });

  keys
    .command("revoke")
    .description("refuse a key from now on")
    .argument("<id>", "key, by its ID")
    .option("--json", "print JSON")
    .action(async (id: string, options: { json?: true }) => {
      const { apiKeys } = await context.openServices();
      const key = apiKeys.revokeKey(id);
      if (options.json) context.printJson(toJson(key, context));
      else context.printLine(`${key.id} was revoked on ${time(key.revokedAt)}.`);
    });
}

function registerConfirm(keys: Command, context: CliContext): void {
  keys
    .command("confirm")
    .description(
      "accept keys again that a restore holds back, because it is not known whether they were revoked after the backup",
    )
    .argument("[id...]", "keys, by their IDs")
    .option("--all", "all that are held")
    .option("--json", "print JSON")
    .action(async (ids: string[], options: { all?: true; json?: true }) => {
      if (ids.length > 0 === (options.all === true))
        throw new CommandError("usage", "name the keys, or give --all");
      const { apiKeys, dataDir } = await context.openServices();
      const confirmed = apiKeys.confirmKeys(options.all ? undefined : ids);
      if (options.all) {
        const { releaseWorkers } = await import("../../services/backups/held-workers.ts");
        for (const name of releaseWorkers(dataDir)) context.note(`The worker ${name} is accepted again.`);
      }
      if (options.json) context.printJson(confirmed.map((key) => toJson(key, context)));
      else for (const { id, name } of confirmed) context.printLine(`${id} (${name}) is accepted again.`);
      const others = ids.length - confirmed.length;
      if (options.all ? confirmed.length === 0 : others > 0)
        context.note(options.all ? "No key is held." : `${others} of them were not held.`);
    });
}

function registerCreate(keys: Command, context: CliContext): void {
  keys
    .command("create")
    .description("make a key; it is printed this once and cannot be shown again")
    .requiredOption("--project <id>", "project")
    .requiredOption("--name <name>", "name, for people")
    .option(
      "--scopes <scopes>",
      `what it may do, comma-separated: ${SCOPES.join(", ")} (default: all)`,
      listOf,
    )
    .option(
      "--expires <duration>",
      "how long it is valid, such as 90d, 12h or 1y (default: for ever)",
      duration,
    )
    .option("--json", "print JSON")
    .action(
      async (options: {
        project: string;
        name: string;
        scopes?: string[];
        expires?: number;
        json?: true;
      }) => {
        const { apiKeys } = await context.openServices();
        const created = apiKeys.createKey({
          projectId: options.project,
          name: options.name,
          // Unknown names are refused by the service.
          ...(options.scopes === undefined ? {} : { scopes: options.scopes as Scope[] }),
          ...(options.expires === undefined ? {} : { expiresAt: context.clock.now() + options.expires }),
        });
        if (options.json) {
          context.printJson({ ...toJson(created, context), key: created.key });
          return;
        }
        context.note(`Key ${created.id}; note it now, it is not shown again:`);
        context.printLine(created.key);
      },
    );
}

function listOf(text: string): string[] {
  return text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

const time = (epochMs: number | null) => (epochMs === null ? null : toTimestamp(epochMs));

const toJson = (key: ApiKey, { clock }: CliContext) => toKey(key, clock.now());
