import { existsSync, mkdirSync, rmdirSync, rmSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Command } from "commander";
import packageJson from "../../package.json" with { type: "json" };
import { renderConfigToEdit } from "../config/render.ts";
import { writeNewFileNow } from "../lib/durable-files.ts";
import { type CliContext, CommandError } from "./context.ts";

type InitOptions = { data?: string; name: string; json?: true };
const DEFAULT_CONFIG = "./shruti.toml";
const DEFAULT_DATA = "./shruti-data";
const HEADING = `Shruti ${packageJson.version} wrote this file. Remove the # before a setting to change it.`;

/** `shruti init`: creates all that a first request needs, and overwrites nothing. */
export function registerInit(program: Command, context: CliContext): void {
  program
    .command("init")
    .description("Make config file, data directory, first organization, project and key.")
    .option("--data <dir>", `data directory (default: ${DEFAULT_DATA})`)
    .option("--name <name>", "name of the first organization", "default")
    .option("--json", "print JSON")
    .action(async (options: InitOptions, command: Command) => {
      const { SHRUTI_CONFIG, SHRUTI_STORAGE_DATA_DIR } = context.io.environment;
      // Later commands look in the same places.
      const config = command.optsWithGlobals<{ config?: string }>().config || SHRUTI_CONFIG || DEFAULT_CONFIG;
      const data = options.data || SHRUTI_STORAGE_DATA_DIR || DEFAULT_DATA;
      await init(context, resolve(config), resolve(data), options);
    });
}

async function init(
  context: CliContext,
  configPath: string,
  dataDir: string,
  options: InitOptions,
): Promise<void> {
  const { databasePath } = await import("../store/database.ts");
  if (existsSync(configPath))
    throw new CommandError("conflict", `${configPath} exists already; init does not overwrite it`);
  if (existsSync(databasePath(dataDir))) throw hasDatabase(dataDir);
  const isNewFolder = mkdirSync(dataDir, { recursive: true, mode: 0o700 }) !== undefined;
  await claim(databasePath(dataDir), dataDir);
  try {
    const records = await makeRecords(context, databasePath(dataDir), options.name);
    mkdirSync(dirname(configPath), { recursive: true });
    // The file may later hold a token, so only its owner may read it.
    writeNewFileNow(configPath, renderConfigToEdit(HEADING, { storage: { data_dir: dataDir } }), 0o600);
    report(context, options, { configPath, dataDir, ...records });
  } catch (error) {
    // Otherwise the next `init` would refuse to overwrite the incomplete database.
    for (const suffix of ["", "-wal", "-shm", "-journal"]) {
      rmSync(databasePath(dataDir) + suffix, { force: true });
    }
    if (isNewFolder) rmdirSync(dataDir);
    throw error;
  }
}

/**
 * Makes the file of the database, empty. Another `init` on the same directory then fails, and does not take this one's
 * database for the remains of its own.
 *
 * @throws CommandError `conflict` when there is one already
 */
async function claim(path: string, dataDir: string): Promise<void> {
  const [{ makePrivateFile }, { giveToOwner }] = await Promise.all([
    import("../store/private-file.ts"),
    import("../lib/give-to-owner.ts"),
  ]);
  try {
    makePrivateFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") throw hasDatabase(dataDir);
    throw error;
  }
  giveToOwner(path);
}

const hasDatabase = (dataDir: string) =>
  new CommandError("conflict", `${dataDir} holds a database already; init does not overwrite it`);

/** Creates a database with an organization, a project and a key. */
async function makeRecords(context: CliContext, path: string, name: string) {
  const [{ openDatabase }, { createAccountService }, { createApiKeyService }] = await Promise.all([
    import("../store/database.ts"),
    import("../services/accounts.ts"),
    import("../services/api-keys.ts"),
  ]);
  const database = openDatabase(path);
  try {
    const accounts = createAccountService({ database, clock: context.clock });
    const organization = accounts.createOrganization({ name });
    const project = accounts.createProject({ organizationId: organization.id, name: "default" });
    const apiKeys = createApiKeyService({ database, clock: context.clock });
    const { key } = apiKeys.createKey({ projectId: project.id, name: "first" });
    apiKeys.close();
    return { organizationId: organization.id, projectId: project.id, key };
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
  context.note("The key is shown only now. Next: shruti credit grant --org … --paise …, then shruti serve.");
}
