import { existsSync, mkdirSync, rmdirSync, rmSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Command } from "commander";
import packageJson from "../../../package.json" with { type: "json" };
import { loadConfig, readConfig } from "../../config/load.ts";
import { renderConfigToEdit } from "../../config/render.ts";
import { writeNewFileNow } from "../../lib/durable-files.ts";
import { asOwnerOf, asWriterOf } from "../../lib/rights.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { readMirror } from "../models/models-fetch.ts";
import { answersFor, type InitOptions, type NewAppliance } from "./init-answers.ts";
import { readLanguageCodes } from "./init-languages.ts";
import { configOption, laterCommands, obtainModel } from "./init-model.ts";
import type { InitAnswers } from "./init-questions.ts";
import { makeRecords, type Records, requireNoKeyFile } from "./init-records.ts";

const DEFAULT_CONFIG = "./shruti.toml";
const DEFAULT_DATA = "./shruti-data";
const HEADING = `Shruti ${packageJson.version} wrote this file. Remove the # before a setting to change it.`;

/** `shruti init`: creates all that a first request needs, as far as it is lacking, and overwrites nothing. */
export function registerInit(program: Command, context: CliContext): void {
  program
    .command("init")
    .description(
      "Make what is lacking of config file, data directory, first organization, project and key, and install a model. On a terminal it asks for what no option says.",
    )
    .option("--data <dir>", `data directory (default: ${DEFAULT_DATA})`)
    .option("--name <name>", "name of the first organization", "default")
    .option("--project-name <name>", "name of its project", "default")
    .option("--key-name <name>", "name of the project's key", "first")
    .option(
      "--key-file <file>",
      "write the key to this new file, which only its owner may read, and do not print it",
    )
    .option(
      "--languages <languages>",
      "languages of the recordings, codes or names, separated by commas; a new project takes the first for requests that name none",
      readLanguageCodes,
    )
    .option(
      "--model <model>",
      "ID of a model that is here, name of `models catalogue`, which is fetched, or path of weights or of a bundle",
    )
    .option("--bundle-key <file>", "public key of the bundle's signer, Ed25519, PEM")
    .option("--accept-unverified", "also fetch files of the model whose SHA-256 is not known")
    .option("--mirror <url>", "address that takes the place of the catalogue's", readMirror)
    .option("--openai", "serve programs that were written for OpenAI's audio API")
    .option("--no-openai", "do not serve them, which is the default")
    .option("--unless-exists", "succeed where all is there, and make what is lacking: it can be repeated")
    .option("--service", "a service manager starts the server, so the last line does not name `shruti serve`")
    .option("--no-service", "no service manager starts it, which is the default")
    .option("--yes", "ask nothing on a terminal")
    .option("--json", "print JSON, and ask nothing")
    .action(async (options: InitOptions, command: Command) => {
      const { SHRUTI_CONFIG } = context.io.environment;
      // Later commands look in the same places.
      const config = command.optsWithGlobals<{ config?: string }>().config || SHRUTI_CONFIG || DEFAULT_CONFIG;
      const appliance = await newAppliance(context, resolve(config), options);
      if (!options.unlessExists) await requireNothing(appliance.dataDir, options);
      const answers = await answersFor(context, appliance, options);
      await init(context, { ...appliance, dataDir: answers.dataDir }, answers, options);
    });
}

/** @throws CommandError `conflict` when a config that is there says another thing than the options */
async function newAppliance(
  context: CliContext,
  configPath: string,
  { data, openai }: InitOptions,
): Promise<NewAppliance> {
  const { environment } = context.io;
  if (!existsSync(configPath)) {
    const dataDir = resolve(data || environment.SHRUTI_STORAGE_DATA_DIR || DEFAULT_DATA);
    return { configPath, dataDir, config: undefined };
  }
  const { dataDirOf } = await import("../../services/data-dir.ts");
  const config = loadConfig(configPath, environment);
  const dataDir = dataDirOf(config);
  if (data !== undefined && resolve(data) !== dataDir) {
    throw new CommandError(
      "conflict",
      `${configPath} exists already, and its data directory is ${dataDir}: leave --data out`,
    );
  }
  if (openai !== undefined && openai !== config.openai.enabled) {
    throw new CommandError(
      "conflict",
      `${configPath} exists already, and its openai.enabled is ${config.openai.enabled}: leave --${openai ? "" : "no-"}openai out, or change the file`,
    );
  }
  return { configPath, dataDir, config };
}

/** Finds out before any question whether there is something that `init` would overwrite. @throws CommandError `conflict` */
async function requireNothing(dataDir: string, { keyFile }: InitOptions): Promise<void> {
  const { databasePath } = await import("../../store/database.ts");
  if (existsSync(databasePath(dataDir))) throw hasDatabase(dataDir);
  if (keyFile !== undefined) requireNoKeyFile(resolve(keyFile));
}

async function init(
  context: CliContext,
  appliance: NewAppliance,
  answers: InitAnswers,
  options: InitOptions,
): Promise<void> {
  const { databasePath } = await import("../../store/database.ts");
  const path = databasePath(appliance.dataDir);
  const keyFile = options.keyFile === undefined ? undefined : resolve(options.keyFile);
  const [language] = answers.languages;
  const names = { organization: options.name, project: options.projectName, key: options.keyName, language };
  const makeAll = async () => {
    // A folder that is there may belong to the service's user, who could have put links into it.
    const made = await asOwnerOf(appliance.dataDir, () => makeRecords(path, context.clock, names, keyFile));
    if (appliance.config === undefined) writeConfig(appliance, answers);
    return made;
  };
  const hasOne = existsSync(path);
  if (hasOne && !options.unlessExists) throw hasDatabase(appliance.dataDir);
  if (hasOne && options.service && !options.json && (await isLeftToServer(context, path))) return;
  const records = hasOne ? await makeAll() : await makeDatabase(path, makeAll);
  await makeBallast(context, appliance);
  report(context, options, appliance, records);
  try {
    await makeModel(context, appliance, answers);
  } finally {
    if (!options.json) noteNext(context, answers, records);
  }
}

/**
 * Finds out whether a database is of an older version, and then says that nothing is made: the server that comes after this
 * command upgrades it, with a backup. In a container, a failure of this command would keep that server from its start.
 */
async function isLeftToServer(context: CliContext, path: string): Promise<boolean> {
  const [{ describeVersion }, { versionOf }] = await Promise.all([
    import("../../store/database-version.ts"),
    import("../../store/upgrade.ts"),
  ]);
  const { state, found } = asOwnerOf(path, () => versionOf(path));
  if (state !== "older") return false;
  const version = found === undefined ? "an older version" : `version ${describeVersion(found)}`;
  context.note(`${path} has ${version}. The server upgrades it when it starts. Nothing was made.`);
  return true;
}

/** Installs the model that was chosen, or says how that is done later. */
async function makeModel(
  context: CliContext,
  appliance: NewAppliance,
  { model, later, obtaining, languages }: InitAnswers,
): Promise<void> {
  if (model === undefined && later === undefined) return;
  const option = configOption(context, appliance.configPath);
  if (later) for (const line of await laterCommands(later, option)) context.note(`Later: ${line}`);
  if (model) await obtainModel(context, appliance, model, { ...obtaining, languages });
}

function writeConfig({ configPath, dataDir }: NewAppliance, { openai }: InitAnswers): void {
  const given = { storage: { data_dir: dataDir }, ...(openai ? { openai: { enabled: true } } : {}) };
  const text = renderConfigToEdit(HEADING, given);
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
}

function noteNext(context: CliContext, { service }: InitAnswers, { organizationId }: Records): void {
  const grant = `shruti credit grant --org ${organizationId} --paise 100000`;
  context.note(service ? `Next: ${grant}` : `Next: ${grant}, then shruti serve.`);
}
