import { accessSync, constants } from "node:fs";
import type { Command } from "commander";
import { renderConfig } from "../config/load.ts";
import { type Config, SECRET_SETTINGS } from "../config/schema.ts";
import type { CliContext } from "./context.ts";
import { becomeOwner } from "./owner.ts";
import { checkSettings } from "./serve.ts";

/** `shruti config …` */
export function registerConfig(program: Command, context: CliContext): void {
  const config = program.command("config").description("the config file");

  config
    .command("check")
    .description("read the config as the server would; exit status 2 when it cannot be used")
    .option("--json", "print JSON")
    .action(async (options: { json?: true }) => {
      const { config, path } = context.loadConfig();
      // Root may read a key or certificate that the server's user may not.
      const user = becomeOwner(config);
      await checkSettings(config);
      if (user !== undefined && path !== undefined && !isReadable(path)) {
        context.note(`${path}: user ${user}, who owns the data directory, cannot read this file`);
      }
      if (options.json) context.printJson({ ok: true, config: path ?? null });
      else context.printLine(`${path ?? "defaults and environment (no config file found)"}: ok`);
    });

  config
    .command("show")
    .description("the settings in force, secrets hidden")
    .option("--json", "print JSON")
    .action((options: { json?: true }) => {
      const loaded = context.loadConfig();
      if (options.json) context.printJson(withoutSecrets(loaded.config));
      else context.io.out(renderConfig(loaded.config, true));
    });

  config
    .command("defaults")
    .description("a whole config file with every setting, its default and its meaning")
    .action(() => void context.io.out(renderConfig()));
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

function withoutSecrets(config: Config): Record<string, Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(config).map(([section, settings]) => [
      section,
      Object.fromEntries(
        Object.entries(settings).map(([name, value]) => [
          name,
          SECRET_SETTINGS.includes(`${section}.${name}`) && value !== "" ? "(hidden)" : value,
        ]),
      ),
    ]),
  );
}
