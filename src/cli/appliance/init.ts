import { existsSync, mkdirSync, rmdirSync, rmSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Command } from "commander";
import packageJson from "../../../package.json" with { type: "json" };
import { loadConfig, readConfig } from "../../config/load.ts";
import { renderConfigToEdit } from "../../config/render.ts";
import { writeNewFileNow } from "../../lib/durable-files.ts";
import { asOwnerOf, asWriterOf } from "../../lib/rights.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { makeRecords, type Records } from "./init-records.ts";

type InitOptions = {
  data?: string;
  name: string;
  projectName: string;
  keyName: string;
  keyFile?: string;
  unlessExists?: true;
  service?: true;
  json?: true;
};
const DEFAULT_CONFIG = "./shruti.toml";
const DEFAULT_DATA = "./shruti-data";
const HEADING = `Shruti ${packageJson.version} wrote this file. Remove the # before a setting to change it.`;

/** Where config and database are, or will be. */
type NewAppliance = {
  configPath: string;
  /** Text of the config file, which is made when the rest is there; undefined: there is one, which stays as it is. */
  text: string | undefined;
  dataDir: string;
};

/** `shruti init`: creates all that a first request needs, as far as it is lacking, and overwrites nothing. */
export function registerInit(program: Command, context: CliContext): void {
  program
    .command("init")
    .description("Make what is lacking of config file, data directory, first organization, project and key.")
    .option("--data <dir>", `data directory (default: ${DEFAULT_DATA})`)
    .option("--name <name>", "name of the first organization", "default")
    .option("--project-name <name>", "name of its project", "default")
    .option("--key-name <name>", "name of the project's key", "first")
    .option(
      "--key-file <file>",
      "write the key to this new file, which only its owner may read, and do not print it",
    )
    .option("--unless-exists", "succeed where all is there, and make what is lacking: it can be repeated")
    .option("--service", "a service manager starts the server, so the last line does not name `shruti serve`")
    .option("--json", "print JSON")
    .action(async (options: InitOptions, command: Command) => {
      const { SHRUTI_CONFIG } = context.io.environment;
      // Later commands look in the same places.
      const config = command.optsWithGlobals<{ config?: string }>().config || SHRUTI_CONFIG || DEFAULT_CONFIG;
      await init(context, await newAppliance(context, resolve(config), options), options);
    });
}

/** @throws CommandError `conflict` when a config that is there names another data directory than `--data` */
async function newAppliance(
  context: CliContext,
  configPath: string,
  { data }: InitOptions,
): Promise<NewAppliance> {
  const { environment } = context.io;
  if (!existsSync(configPath)) {
    const dataDir = resolve(data || environment.SHRUTI_STORAGE_DATA_DIR || DEFAULT_DATA);
    return { configPath, dataDir, text: renderConfigToEdit(HEADING, { storage: { data_dir: dataDir } }) };
  }
  const { dataDirOf } = await import("../../services/data-dir.ts");
  const dataDir = dataDirOf(loadConfig(configPath, environment));
  if (data !== undefined && resolve(data) !== dataDir) {
    throw new CommandError(
      "conflict",
      `${configPath} exists already, and its data directory is ${dataDir}: leave --data out`,
    );
  }
  return { configPath, dataDir, text: undefined };
}

async function init(context: CliContext, appliance: NewAppliance, options: InitOptions): Promise<void> {
  const { databasePath } = await import("../../store/database.ts");
  const path = databasePath(appliance.dataDir);
  const keyFile = options.keyFile === undefined ? undefined : resolve(options.keyFile);
  const names = { organization: options.name, project: options.projectName, key: options.keyName };
  const makeAll = async () => {
    // A folder that is there may belong to the service's user, who could have put links into it.
    const made = await asOwnerOf(appliance.dataDir, () => makeRecords(path, context.clock, names, keyFile));
    writeConfig(appliance);
    return made;
  };
  const hasOne = existsSync(path);
  if (hasOne && !options.unlessExists) throw hasDatabase(appliance.dataDir);
  const records = hasOne ? await makeAll() : await makeDatabase(path, makeAll);
  await makeBallast(context, appliance);
  report(context, options, appliance, records);
}

function writeConfig({ configPath, text }: NewAppliance): void {
  if (text === undefined) return;
  asWriterOf(configPath, () => {
    mkdirSync(dirname(configPath), { recursive: true });
    // The file may later hold a token, so only its owner may read it.
    writeNewFileNow(configPath, text, 0o600);
  });
}

/** Keeps space for commands on a full disk. What fails here, the server tries again. */
async function makeBallast({ io }: CliContext, { configPath, dataDir }: NewAppliance): Promise<void> {
  const { fillBallast } = await import("../../services/ballast.ts");
  const { config } = readConfig(configPath, io.environment);
  await fillBallast(dataDir, config.storage.ballast_bytes).catch(() => {});
}

/**
 * Makes a database and what belongs to it, or nothing: an incomplete database would keep the next `init` from its work.
 *
 * @param make makes it at a path where an empty file is; what it throws is thrown once all is removed
 */
async function makeDatabase<T>(path: string, make: () => Promise<T>): Promise<T> {
  const dataDir = dirname(path);
  const makeDataDir = () => mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const isNewFolder = asWriterOf(dataDir, makeDataDir) !== undefined;
  await asOwnerOf(dataDir, () => claim(path, dataDir));
  try {
    return await make();
  } catch (error) {
    asOwnerOf(dataDir, () => {
      for (const suffix of ["", "-wal", "-shm", "-journal"]) rmSync(path + suffix, { force: true });
    });
    if (isNewFolder) asWriterOf(dataDir, () => rmdirSync(dataDir));
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
    import("../../store/private-file.ts"),
    import("../../lib/give-to-owner.ts"),
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

function report(context: CliContext, options: InitOptions, appliance: NewAppliance, records: Records): void {
  const { organizationId, projectId, key } = records;
  const shown = options.keyFile === undefined ? key : null;
  if (options.json) {
    context.printJson({
      config: appliance.configPath,
      data_dir: appliance.dataDir,
      organization_id: organizationId,
      project_id: projectId,
      key: shown,
    });
    return;
  }
  context.printLine(`config        ${appliance.configPath}`);
  context.printLine(`data          ${appliance.dataDir}`);
  context.printLine(`organization  ${organizationId}`);
  context.printLine(`project       ${projectId}`);
  context.printLine(`key           ${key === null ? "(there already)" : (shown ?? options.keyFile)}`);
  if (shown !== null) context.note("The key is shown only now.");
  const grant = `shruti credit grant --org ${organizationId} --paise 100000`;
  context.note(options.service ? `Next: ${grant}` : `Next: ${grant}, then shruti serve.`);
}
