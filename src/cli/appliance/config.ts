import type { Command } from "commander";
import { ConfigError, type ConfigProblem } from "../../config/problems.ts";
import { renderConfig } from "../../config/render.ts";
import { type Config, SECRET_SETTINGS } from "../../config/schema.ts";
import { isReadable } from "../../lib/regular-file.ts";
import type { CliContext } from "../frame/context.ts";
import { becomeOwner } from "../frame/owner.ts";
import { hasOpenMetrics, OPEN_METRICS } from "./open-metrics.ts";

/** `shruti config …` */
export function registerConfig(program: Command, context: CliContext): void {
  const config = program.command("config").description("the config file");

  config
    .command("check")
    .description("read the config as the server would; reports every mistake, with exit status 2")
    .option("--json", "print JSON")
    .action(async (options: { json?: true }) => {
      const { config, problems, warnings, path } = context.readConfig();
      // Root may read a key or certificate that the server's user may not.
      const user = becomeOwner(config);
      const all = [...problems, ...(await problemsOfSettings(config))];
      if (user !== undefined && path !== undefined && !isReadable(path))
        warnings.push(`${path}: user ${user}, who owns the data directory, cannot read this file`);
      if (hasOpenMetrics(config)) warnings.push(OPEN_METRICS);
      if (all.length === 0 && config.backup.schedule !== "") {
        const { problemOfFolder } = await import("../../services/backups/store-identity.ts");
        const problem = problemOfFolder(config.backup.to);
        if (problem !== undefined) warnings.push(`backup.to: ${problem}`);
      }
      if (options.json) {
        const isUsable = all.length === 0;
        const found = isUsable ? {} : { problems: all.map(toJson) };
        context.printJson({ ok: isUsable, config: path ?? null, ...found, warnings });
      }
      if (all.length > 0) throw new ConfigError(all);
      for (const warning of warnings) context.note(`warning: ${warning}`);
      if (options.json) return;
      context.printLine(`${path ?? "defaults and environment (no config file found)"}: ok`);
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

/** Returns what `checkSettings` finds. */
async function problemsOfSettings(config: Config): Promise<readonly ConfigProblem[]> {
  const { checkSettings } = await import("../../server/settings-check.ts");
  try {
    await checkSettings(config);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

const toJson = ({ where, message }: ConfigProblem) => ({ place: where ?? null, message });

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
