import { resolve } from "node:path";
import type { Command } from "commander";
import { currentActor, runAs, SERVER } from "../../lib/actor.ts";
import { plainMessage } from "../../lib/system-error.ts";
import type { KnownKeys } from "../../services/backups/backup-signature.ts";
import type { VerifiedOne } from "../../services/backups/backup-verify.ts";
import type { MadeBackup } from "../../services/backups/backups.ts";
import { wholeNumber } from "../frame/arguments.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { cleanUpAtEnd } from "../frame/ending.ts";
import { counted } from "../frame/output.ts";
import { describeSignature, knownKeys, noteUnsigned, sayWhoSigned } from "./backup-keys.ts";
import { explainBackup, noteNames, type RestoreOptions, restoreEverything } from "./restore.ts";
import { accessJson, reportAccess, reportRepeated } from "./restored-access.ts";

type BackupOptions = {
  all?: true;
  to?: string;
  keep?: number;
  newStore?: true;
  withModels?: true;
  withSecrets?: true;
  json?: true;
};

type VerifyOptions = { key?: string; json?: true };

/** `shruti backup` and `shruti restore` */
export function registerBackup(program: Command, context: CliContext): void {
  const backup = program
    .command("backup")
    .description(
      "copy the database to a new file, or with --all or --to everything: recordings and config, too; also while the server runs",
    )
    .argument("[file]", "file to make; with --all a tar archive")
    .option("--all", "everything: database, recordings, config file without secrets, names of models")
    .option("--to <dir>", "everything, into a folder that holds each recording once for all its backups")
    .option(
      "--keep <n>",
      "with --to: remove all but the newest n backups of the folder",
      wholeNumber(1, 100_000),
    )
    .option(
      "--new-store",
      "with --to: make the folder also where its parent is missing, or begin again where an earlier store is gone",
    )
    .option("--with-models", "also the weights of installed models")
    .option(
      "--with-secrets",
      "also the secrets of the config file, the keys of a fleet, and the key that signs receipts",
    )
    .option("--json", "print JSON")
    .action(async (file: string | undefined, options: BackupOptions) => {
      checkOptions(file, options);
      if (options.all || options.to !== undefined) await backUpAll(context, file, options);
      else await backUpDatabaseAlone(context, file ?? "", options);
    });

  backup
    .command("verify")
    .description(
      "read a backup to its end and check every file and the database, as a restore would; changes nothing",
    )
    .argument(
      "<path>",
      "archive or folder of --all, folder of --to (all its backups), or file of `shruti backup`",
    )
    .option(
      "--key <file>",
      "public key that the backup must be signed with, as `shruti receipts key` prints it",
    )
    .option("--json", "print JSON")
    // `backup` has read --json already, because it has that option, too.
    .action((path: string, _options: VerifyOptions, command: Command) =>
      verify(context, path, command.optsWithGlobals<VerifyOptions>()),
    );

  registerRestore(program, context);
}

function registerRestore(program: Command, context: CliContext): void {
  program
    .command("restore")
    .description(
      "put a backup back while no server runs: the database, which is kept beside it, or everything of --all and --to",
    )
    .argument("<file>", "file or folder that `shruti backup` made; of a folder of --to the newest backup")
    .option(
      "--data <dir>",
      "data directory, where this machine has no config file yet (default: shruti-data in this folder, beside a new shruti.toml)",
    )
    .option(
      "--confirm-keys",
      "hold no keys back, although it is not known which of them were revoked after the backup",
    )
    .option(
      "--key <file>",
      "public key that the backup must be signed with, as `shruti receipts key` prints it",
    )
    .option(
      "--trust-config",
      "also take settings that choose programs from a backup that is not known to be yours",
    )
    .option("--json", "print JSON")
    .action(async (file: string, options: RestoreOptions) => {
      if (await isEverything(resolve(file))) return restoreEverything(context, file, options);
      if (options.data !== undefined || options.trustConfig)
        throw new CommandError("usage", "--data and --trust-config are only for backups of everything");
      await restoreDatabaseAlone(context, file, options);
    });
}

/** Reports whether a path holds a backup of everything. @throws CommandError `failed` for what cannot be any backup */
async function isEverything(path: string): Promise<boolean> {
  const { kindOfBackup, refuseOther } = await import("../../services/backups/backup-reader.ts");
  if (kindOfBackup(path) !== "other") return true;
  try {
    refuseOther(path);
  } catch (error) {
    explainBackup(path)(error);
  }
  return false;
}

function checkOptions(file: string | undefined, options: BackupOptions): void {
  const isAll = options.all === true || options.to !== undefined;
  if (file === undefined && options.to === undefined) {
    throw new CommandError("usage", "name the file to make, or a folder with --to");
  }
  if (file !== undefined && options.to !== undefined) {
    throw new CommandError("usage", "give a file or --to, not both");
  }
  if (options.keep !== undefined && options.to === undefined) {
    throw new CommandError("usage", "--keep is only for --to");
  }
  if (options.newStore && options.to === undefined) {
    throw new CommandError("usage", "--new-store is only for --to");
  }
  if (!isAll && (options.withModels || options.withSecrets)) {
    throw new CommandError("usage", "--with-models and --with-secrets need --all or --to");
  }
}

async function backUpDatabaseAlone(context: CliContext, file: string, options: BackupOptions): Promise<void> {
  const { config } = context.loadConfig();
  const { backUpDatabase } = await import("../../services/backups/database-backup.ts");
  const { bytes, signer, unrecorded } = backUpDatabase({ config, clock: context.clock }, file);
  if (options.json) {
    const recorded = unrecorded === undefined;
    context.printJson({ file: resolve(file), bytes, signed: "key" in signer, recorded });
  } else context.printLine(`${resolve(file)}: ${bytes} bytes`);
  noteUnsigned(context, signer);
  noteUnrecorded(context, unrecorded);
}

async function backUpAll(
  context: CliContext,
  file: string | undefined,
  options: BackupOptions,
): Promise<void> {
  const { config, path } = context.loadConfig();
  const { backUpEverything } = await import("../../services/backups/backups.ts");
  // Commands that a scheduler has ended must not leave half an archive.
  const cleanUp = cleanUpAtEnd();
  const [{ isServer }, { dataDirOf }, { readServerStatus }] = await Promise.all([
    import("../../services/data-dir-lock.ts"),
    import("../../services/data-dir.ts"),
    import("../../server/status-file.ts"),
  ]);
  const dataDir = dataDirOf(config);
  // The server starts this command for its schedule. The audit log must not name a person then. Of a server that has given
  // up root's rights, the system does not show the open files.
  const isOfServer = isServer(process.ppid, dataDir) || readServerStatus(dataDir)?.pid === process.ppid;
  const actor = isOfServer ? SERVER : currentActor();
  const everything = () =>
    backUpEverything(
      {
        ...{ config, clock: context.clock, environment: context.io.environment },
        configPath: path === undefined ? undefined : resolve(path),
        weights: options.withModels === true,
        secrets: options.withSecrets === true,
      },
      options.to === undefined
        ? { file: file ?? "" }
        : { store: options.to, keep: options.keep, isNew: options.newStore === true },
    );
  const made = await runAs(actor, everything).finally(cleanUp.stop);
  if (options.json) context.printJson(backupJson(made));
  else {
    context.printLine(`${made.path}: ${counted(made.recordings, "recording")}, ${made.bytes} bytes`);
    if ("removed" in made)
      context.printLine(
        `${made.written} bytes written, ${counted(made.removed.length, "old backup")} removed`,
      );
  }
  noteUnsigned(context, made.signer);
  noteUnrecorded(context, made.unrecorded);
  noteNames(context, made.missing, "recordings are in the database and not on the disk");
  noteNames(context, made.damaged, "recordings are damaged: their bytes are not those that were uploaded");
  noteNames(context, made.unreadable, "files cannot be read");
  requireWhole(made);
}

function backupJson(made: MadeBackup) {
  const { path, files, bytes, recordings, missing, unreadable, damaged, lacking } = made;
  return {
    ...{ path, files, bytes, recordings },
    ...("removed" in made ? { written_bytes: made.written, removed: made.removed } : {}),
    deleted_meanwhile: made.deletedMeanwhile,
    signed: "key" in made.signer,
    recorded: made.unrecorded === undefined,
    ...{ missing, unreadable, damaged, complete: lacking.count === 0, lacking },
  };
}

/** A backup that was written counts as made, although the database could not note it. */
function noteUnrecorded({ note }: CliContext, failure: unknown): void {
  if (failure === undefined) return;
  note(
    `warning: the backup is whole, and the audit log has no entry of it: ${plainMessage(failure).split("\n", 1)[0]}`,
  );
}

/** @throws CommandError `incomplete` when a file could not be taken from the data directory as it should be */
function requireWhole({ missing, unreadable, damaged, lacking }: MadeBackup): void {
  const faulty = missing.count + unreadable.count + damaged.count;
  if (faulty === 0) return;
  throw new CommandError(
    "incomplete",
    lacking.count === 0
      ? `${faulty} files cannot be read or are damaged; the backup has their copies of the backup before`
      : `the backup is incomplete: it lacks ${lacking.count} of its files, or has them only as they are now, damaged`,
  );
}

async function verify(context: CliContext, given: string, options: VerifyOptions): Promise<void> {
  const path = resolve(given);
  const keys = await knownKeys(context, options.key);
  if (!(await isEverything(path))) return verifyDatabaseAlone(context, path, keys, options);
  const { verifyAll } = await import("../../services/backups/backup-verify.ts");
  const outcomes = await verifyAll(path, keys).catch(explainBackup(path));
  const shown = outcomes.map((outcome) =>
    "problem" in outcome
      ? { path: outcome.path, ok: false, problem: outcome.problem }
      : {
          path: outcome.path,
          ok: outcome.verified.lacking === undefined,
          created_at: outcome.verified.description.created_at,
          files: outcome.verified.files,
          bytes: outcome.verified.bytes,
          recordings: outcome.verified.recordings,
          ledger_entries: outcome.verified.ledger.entries,
          signature: outcome.verified.signature,
          ...(outcome.verified.lacking ? { lacking: outcome.verified.lacking } : {}),
        },
  );
  const problems = shown.filter((one) => "problem" in one);
  if (options.json) context.printJson({ ok: shown.every(({ ok }) => ok), backups: shown });
  else for (const one of outcomes) context.printLine(`${one.path}: ${verdictOf(one)}`);
  if (problems.length > 0)
    throw new CommandError("failed", `${problems.length} of ${shown.length} backups cannot be used`);
  const incomplete = shown.filter(({ ok }) => !ok).length;
  if (incomplete > 0)
    throw new CommandError("incomplete", `${incomplete} of ${shown.length} backups are incomplete`);
}

function verdictOf(one: VerifiedOne): string {
  if ("problem" in one) return one.problem;
  const { lacking, recordings, bytes, signature } = one.verified;
  const has = `${counted(recordings, "recording")}, ${bytes} bytes, ${describeSignature(signature)}`;
  if (!lacking) return `ok, ${has}`;
  const { count, first } = lacking;
  return `incomplete, ${has}; it lacks ${count}: ${first.join(", ")}${count > first.length ? ", …" : ""}`;
}

/** Verifies a copy of the database alone. */
async function verifyDatabaseAlone(
  context: CliContext,
  path: string,
  keys: KnownKeys,
  options: { json?: true },
): Promise<void> {
  const { verifyDatabaseFile } = await import("../../services/backups/backup-verify.ts");
  const { ledger, signature } = verifyDatabaseFile(path, keys);
  const signed = describeSignature(signature);
  if (options.json) {
    context.printJson({ ok: true, backups: [{ path, ok: true, ledger_entries: ledger.entries, signature }] });
  } else context.printLine(`${path}: ok, the database alone, ${ledger.entries} ledger entries, ${signed}`);
}

async function restoreDatabaseAlone(
  context: CliContext,
  file: string,
  options: RestoreOptions,
): Promise<void> {
  const { config } = context.loadConfig();
  const [{ restoreDatabaseFile }, { dataDirOf }, { silentLog }] = await Promise.all([
    import("../../services/backups/database-restore.ts"),
    import("../../services/data-dir.ts"),
    import("../../lib/log.ts"),
  ]);
  const keys = await knownKeys(context, options.key, dataDirOf(config));
  const confirmKeys = options.confirmKeys === true;
  const deps = { config, clock: context.clock, log: silentLog, confirmKeys };
  const restored = restoreDatabaseFile(deps, file, keys);
  const { ledger, databasePath, previousPath, signature, access } = restored;
  const { repeatLaterDeletions } = await import("../../services/backups/backup-restore.ts");
  const repeated = await repeatLaterDeletions(deps);
  if (options.json) {
    context.printJson({
      deletions_repeated: repeated ?? null,
      database: databasePath,
      previous: previousPath ?? null,
      ledger: { ok: ledger.ok, entries: ledger.entries, head: ledger.head },
      access: accessJson(access),
      signature,
    });
  } else {
    context.printLine(`${databasePath}: restored, ${ledger.entries} ledger entries`);
    if (previousPath !== undefined) context.printLine(`${previousPath}: the previous database`);
    sayWhoSigned(context, signature);
    reportRepeated(context, repeated);
    reportAccess(context, access);
  }
}
