import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, writeSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Command } from "commander";
import { renderConfig } from "../config/load.ts";
import { type CliContext, CommandError } from "./context.ts";

type InitOptions = { data?: string; name: string; json?: true };
const DEFAULT_CONFIG = "./shruti.toml";
const DEFAULT_DATA = "./shruti-data";

/** `shruti init`: everything a first request needs; what exists is never overwritten. */
export function registerInit(program: Command, context: CliContext): void {
  program
    .command("init")
    .description("Make config file, data directory, first organization, project and key.")
    .option("--data <dir>", `data directory (default: ${DEFAULT_DATA})`)
    .option("--name <name>", "name of the first organization", "default")
    .option("--json", "print JSON")
    .action(async (options: InitOptions, command: Command) => {
      const configPath = resolve(command.optsWithGlobals<{ config?: string }>().config ?? DEFAULT_CONFIG);
      await init(context, configPath, resolve(options.data ?? DEFAULT_DATA), options);
    });
}

async function init(
  context: CliContext,
  configPath: string,
  dataDir: string,
  options: InitOptions,
): Promise<void> {
  const { databasePath, openDatabase } = await import("../store/database.ts");
  if (existsSync(configPath))
    throw new CommandError("conflict", `${configPath} exists already; init never overwrites`);
  if (existsSync(databasePath(dataDir))) {
    throw new CommandError("conflict", `${dataDir} holds a database already; init never overwrites`);
  }
  const [{ createAccountService }, { createApiKeyService }] = await Promise.all([
    import("../services/accounts.ts"),
    import("../services/api-keys.ts"),
  ]);
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const database = openDatabase(databasePath(dataDir));
  try {
    const accounts = createAccountService({ database, clock: context.clock });
    const organization = accounts.createOrganization({ name: options.name });
    const project = accounts.createProject({ organizationId: organization.id, name: "default" });
    const apiKeys = createApiKeyService({ database, clock: context.clock });
    const { key } = apiKeys.createKey({ projectId: project.id, name: "first" });
    apiKeys.close();
    writeNew(configPath, renderConfig({ storage: { data_dir: dataDir } }));
    report(context, options, {
      configPath,
      dataDir,
      organizationId: organization.id,
      projectId: project.id,
      key,
    });
  } finally {
    database.close();
  }
}

type Made = { configPath: string; dataDir: string; organizationId: string; projectId: string; key: string };

function report(context: CliContext, options: InitOptions, made: Made): void {
  if (options.json) {
    context.printJson({
      config: made.configPath,
      data_dir: made.dataDir,
      organization_id: made.organizationId,
      project_id: made.projectId,
      key: made.key,
    });
    return;
  }
  context.printLine(`config        ${made.configPath}`);
  context.printLine(`data          ${made.dataDir}`);
  context.printLine(`organization  ${made.organizationId}`);
  context.printLine(`project       ${made.projectId}`);
  context.printLine(`key           ${made.key}`);
  context.note("The key is shown this once. Next: shruti credit grant --org … --paise …, then shruti serve.");
}

/** The config may come to hold a token, so that only its owner reads it. */
function writeNew(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  const file = openSync(path, "wx", 0o600);
  try {
    writeSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
