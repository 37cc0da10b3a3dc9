import { existsSync, mkdirSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { loadConfig } from "../../config/load.ts";
import { renderConfigToEdit } from "../../config/render.ts";
import type { Config } from "../../config/schema.ts";
import { writeNewFileNow } from "../../lib/durable-files.ts";
import { giveToOwner } from "../../lib/give-to-owner.ts";
import { asOwnerOf, asWriterOf } from "../../lib/rights.ts";
import type { Names } from "../../services/backups/backup-create.ts";
import { BackupError } from "../../services/backups/backup-format.ts";
import type { RestoredAll } from "../../services/backups/backup-restore.ts";
import type { KnownKeys } from "../../services/backups/backup-signature.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { counted } from "../frame/output.ts";
import { knownKeys, sayWhoSigned } from "./backup-keys.ts";
import { accessJson, reportAccess, reportRepeated } from "./restored-access.ts";
import { configOfBackup, namedPlaces } from "./restored-config.ts";

export type RestoreOptions = {
  data?: string;
  confirmKeys?: true;
  key?: string;
  trustConfig?: true;
  json?: true;
};
const DEFAULT_CONFIG = "./shruti.toml";
const HEADING = "Made by shruti restore: the backup has no config file. Lines with # are defaults.";
const DEFAULT_DATA = "./shruti-data";
/** The config of the backup, where this machine keeps its own. */
const OTHER_CONFIG = "shruti.toml.from-backup";

/** The config that a restore works with. */
type Setup = {
  config: Config;
  dataDir: string;
  /** Path of the config file. */
  path: string;
  /** Text of the config file to write; undefined: this machine has one, which is kept. */
  text: string | undefined;
  /** Settings of the backup's config that were commented out. */
  notTaken: string[];
  keys: KnownKeys;
};

/** `shruti restore` of a backup of everything. */
export async function restoreEverything(
  context: CliContext,
  given: string,
  options: RestoreOptions,
): Promise<void> {
  const path = resolve(given);
  const [{ restoreAll }, { silentLog }] = await Promise.all([
    import("../../services/backups/backup-restore.ts"),
    import("../../lib/log.ts"),
  ]);
  const setup = await setUp(context, path, options).catch(explainBackup(path));
  const { config, dataDir, keys } = setup;
  const confirmKeys = options.confirmKeys === true;
  const deps = { config, dataDir, keys, clock: context.clock, log: silentLog, confirmKeys };
  const restored = await restoreAll(path, deps).catch(explainBackup(path));
  report(context, options, setup, restored, placeConfig(setup, restored.configText));
}

/** Finds the config of this machine; where it has none, makes it of the backup's. */
async function setUp(context: CliContext, path: string, options: RestoreOptions): Promise<Setup> {
  const found = context.configPath();
  const configPath = resolve(found ?? DEFAULT_CONFIG);
  if (found === undefined && existsSync(configPath))
    throw new CommandError(
      "usage",
      `${configPath} is not this user's own file: name the config file with --config`,
    );
  const { dataDirOf } = await import("../../services/data-dir.ts");
  if (existsSync(configPath)) {
    const { config } = context.loadConfig();
    const dataDir = dataDirOf(config);
    if (options.data !== undefined && resolve(options.data) !== dataDir) {
      throw new CommandError("usage", `${configPath} names the data directory ${dataDir}: leave --data out`);
    }
    const keys = await knownKeys(context, options.key, dataDir);
    return { config, dataDir, path: configPath, text: undefined, notTaken: [], keys };
  }
  const { environment } = context.io;
  const dataDir = resolve(options.data ?? environment.SHRUTI_STORAGE_DATA_DIR ?? DEFAULT_DATA);
  const keys = await knownKeys(context, options.key, dataDir);
  const brought = await configOfBackup(path, { keys, dataDir, isTrusted: options.trustConfig === true });
  const text = brought.text ?? renderConfigToEdit(HEADING, { storage: { data_dir: dataDir } });
  const config = parse(text, configPath, environment);
  return { config, dataDir, path: configPath, text, notTaken: brought.notTaken, keys };
}

/** Loads a text as the config file that it will be. */
function parse(text: string, configPath: string, environment: CliContext["io"]["environment"]): Config {
  const draft = `${configPath}.${process.pid}.unfinished`;
  return asWriterOf(configPath, () => {
    mkdirSync(dirname(configPath), { recursive: true });
    writeNewFileNow(draft, text, 0o600);
    try {
      return loadConfig(draft, environment);
    } finally {
      rmSync(draft, { force: true });
    }
  });
}

/** @returns the file that was written; undefined: none */
function placeConfig({ path, text, dataDir }: Setup, fromBackup: string | undefined): string | undefined {
  if (text !== undefined) {
    asWriterOf(path, () => writeNewFileNow(path, text, 0o600));
    return path;
  }
  if (fromBackup === undefined) return undefined;
  const other = join(dataDir, OTHER_CONFIG);
  asOwnerOf(dataDir, () => {
    // It replaces the one of an earlier restore, and a link that the service's user may have put there.
    rmSync(other, { force: true });
    writeNewFileNow(other, fromBackup, 0o600);
    giveToOwner(other);
  });
  return other;
}

/** Lists what the admin must bring to this machine, one sentence each. */
function missingThings(context: CliContext, { config, text }: Setup, restored: RestoredAll): string[] {
  const { verified, missingModels, missingBackends, otherFiles } = restored;
  const { emptied, variables } = verified.description.config;
  const files = [
    ["server.tls_cert", config.server.tls_cert],
    ["server.tls_key", config.server.tls_key],
    ["webhooks.ca_file", config.webhooks.ca_file],
    ["engine.decoder", config.engine.decoder],
  ] as const;
  return [
    ...missingModels.map(
      ({ id, version, sha256, source }) =>
        `model ${id}, version ${version}, SHA-256 ${sha256} (source: ${source}): add it with \`shruti models add\``,
    ),
    ...otherFiles.map((name) => `${name} of this machine differs from the backup's and was kept`),
    ...restored.missingKeys.map(
      (name) => `${name}, a key or certificate of the old machine; \`backup --with-secrets\` copies it`,
    ),
    ...missingBackends.map(
      (name) => `GPU backend ${name}: build it for this machine (scripts/build-backend.sh)`,
    ),
    ...files
      .filter(([, path]) => path !== "" && !existsSync(path))
      .map(([setting, path]) => `file ${path}, which ${setting} names`),
    ...(text === undefined
      ? []
      : emptied.map((setting) => `the value of ${setting}, a secret that is not in the backup`)),
    ...variables
      .filter((name) => context.io.environment[name] === undefined)
      .map((name) => `the variable ${name}, which the old machine's server may have had`),
  ];
}

function report(
  context: CliContext,
  options: RestoreOptions,
  setup: Setup,
  restored: RestoredAll,
  configFile: string | undefined,
): void {
  const { ledger, databasePath, previousPath, verified, missingRecordings } = restored;
  const missing = missingThings(context, setup, restored);
  if (options.json) {
    context.printJson({
      database: databasePath,
      previous: previousPath ?? null,
      ledger: { ok: ledger.ok, entries: ledger.entries, head: ledger.head },
      created_at: verified.description.created_at,
      recordings: verified.recordings,
      files_written: restored.written,
      files_kept: restored.kept,
      config: configFile ?? null,
      access: accessJson(restored.access),
      workers_held: restored.workersHeld,
      deletions_repeated: restored.deletionsRepeated ?? null,
      ...configJson(setup),
      signature: verified.signature,
      missing_recordings: missingRecordings,
      ...(verified.lacking ? { lacking: verified.lacking } : {}),
      missing,
    });
    return;
  }
  context.printLine(`${databasePath}: restored, ${ledger.entries} ledger entries`);
  if (previousPath !== undefined) context.printLine(`${previousPath}: the previous database`);
  context.printLine(
    `${counted(verified.recordings, "recording")} of ${verified.description.created_at}: ${counted(restored.written, "file")} written, ${restored.kept} were there`,
  );
  if (configFile !== undefined) context.printLine(`${configFile}: the config file of the backup`);
  sayWhoSigned(context, verified.signature);
  noteConfig(context, setup, verified.description.host);
  noteNames(context, missingRecordings, "recordings are missing: the backup does not have them");
  const { lacking } = verified;
  if (lacking) noteNames(context, lacking, "files were missing or damaged when the backup was made");
  for (const each of missing) context.note(`missing: ${each}`);
  if (missing.length === 0 && missingRecordings.count === 0 && !lacking)
    context.note("no recording, model or key of the backup is missing");
  reportRepeated(context, restored.deletionsRepeated);
  reportAccess(context, restored.access);
  if (restored.workersHeld > 0)
    context.note(
      `${counted(restored.workersHeld, "worker of the fleet is", "workers of the fleet are")} refused until you confirm all keys: \`shruti keys confirm --all\``,
    );
}

/** What a config that this machine did not have names; nothing where its own was kept. */
function configJson({ text, config, notTaken }: Setup) {
  if (text === undefined) return {};
  const names = Object.fromEntries(namedPlaces(config).map(({ setting, value }) => [setting, value]));
  return { config_names: names, config_not_taken: notTaken };
}

function noteConfig(context: CliContext, { text, config, notTaken, path }: Setup, host: string): void {
  if (text === undefined) return;
  for (const { setting, value } of namedPlaces(config))
    context.note(`the config comes from the machine ${host} and names: ${setting} = ${value}`);
  for (const setting of notTaken) {
    context.note(
      `not taken: ${setting}, which chooses a program, is a comment in ${path}; --trust-config takes it, and so does --key with the signer's public key`,
    );
  }
}

/** Prints a number of things on standard error, with the first of them. */
export function noteNames(context: CliContext, { count, first }: Names, what: string): void {
  if (count === 0) return;
  context.note(`${count} ${what}: ${first.join(", ")}${count > first.length ? ", …" : ""}`);
}

/** Makes a handler that ends a command with a backup's problem after the backup's name. */
export function explainBackup(path: string): (error: unknown) => never {
  return (error) => {
    if (error instanceof BackupError)
      throw new CommandError("failed", `${path} cannot be used: ${error.message}`);
    throw error;
  };
}
