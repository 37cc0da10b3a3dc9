import type { Command } from "commander";
import type { DatabaseVersion } from "../../store/database-version.ts";
import type { CliContext } from "../frame/context.ts";
import { CommandError } from "../frame/context.ts";
import { becomeOwner } from "../frame/owner.ts";

type MigrateOptions = { check?: true; undo?: true; keep?: true; json?: true };

/** `shruti migrate`: besides a start of the server, the only command that changes the version of a database. */
export function registerMigrate(program: Command, context: CliContext): void {
  program
    .command("migrate")
    .description(
      "Upgrade the database to this program's version while no server runs, after a backup beside it.",
    )
    .option("--check", "only report the version; changes nothing")
    .option("--undo", "put the backup of the last upgrade back, if nothing has been written since")
    .option("--keep", "keep the last upgrade: a server that starts does not wait until it is ready")
    .option("--json", "print JSON")
    .action(async (options: MigrateOptions) => {
      const chosen = [options.check, options.undo, options.keep].filter((each) => each).length;
      if (chosen > 1) throw new CommandError("usage", "--check, --undo and --keep exclude each other");
      const { config } = context.loadConfig();
      const { dataDirOf, requireDatabase } = await import("../../services/data-dir.ts");
      const path = requireDatabase(config);
      // The new files must belong to the server's user, and nothing of that user's may run with root's rights.
      becomeOwner(config);
      if (options.check) return check(context, path, options);
      const { lockDataDir } = await import("../../services/data-dir-lock.ts");
      const lock = lockDataDir(dataDirOf(config));
      try {
        if (options.undo) await undo(context, path, options);
        else if (options.keep) await keep(context, path, options);
        else await upgrade(context, path, options);
      } finally {
        lock.release();
      }
    });
}

async function check(context: CliContext, path: string, options: MigrateOptions): Promise<void> {
  const [{ DatabaseVersionError, describeVersion }, { unconfirmedUpgrade, versionOf }] =
    await versionModules();
  const version = versionOf(path);
  const unconfirmed = unconfirmedUpgrade(path);
  if (options.json) {
    context.printJson({
      database: path,
      state: version.state,
      found: version.found ?? null,
      needed: version.needed,
      unconfirmed_backup: unconfirmed?.backup ?? null,
    });
  } else context.printLine(sentenceOf(path, version, describeVersion));
  const isUsable = version.state !== "newer" && version.state !== "foreign";
  if (!isUsable) throw new DatabaseVersionError(path, version);
}

const versionModules = () =>
  Promise.all([import("../../store/database-version.ts"), import("../../store/upgrade.ts")]);

function sentenceOf(
  path: string,
  { state, found, needed }: DatabaseVersion,
  describe: (migration: string) => string,
): string {
  const has = found === undefined ? "no version yet" : `version ${describe(found)}`;
  if (state === "older") return `${path}: ${has}; \`shruti migrate\` would upgrade it to ${describe(needed)}`;
  return `${path}: ${has}`;
}

async function upgrade(context: CliContext, path: string, options: MigrateOptions): Promise<void> {
  const [{ describeVersion }, { upgradeDatabase }] = await versionModules();
  const made = await upgradeDatabase(path, { nowMs: context.clock.now() });
  if (options.json) {
    context.printJson({
      database: path,
      upgraded: made !== undefined,
      from: made?.from ?? null,
      to: made?.to ?? null,
      backup: made?.backup ?? null,
    });
  } else if (made) {
    context.printLine(
      `${path}: upgraded from version ${describeVersion(made.from)} to ${describeVersion(made.to)}`,
    );
    context.printLine(`${made.backup}: the database from before`);
  } else context.printLine(`${path}: has this program's version already`);
}

async function undo(context: CliContext, path: string, options: MigrateOptions): Promise<void> {
  const [{ describeVersion }, { undoUpgrade }] = await versionModules();
  const { from, isRecorded } = await undoUpgrade(path, context.clock.now());
  if (!isRecorded) context.note("The disk is full, so the audit log has no entry of this.");
  if (options.json) context.printJson({ database: path, version: from });
  else context.printLine(`${path}: has version ${describeVersion(from)} again`);
}

async function keep(context: CliContext, path: string, options: MigrateOptions): Promise<void> {
  const [, { keepUpgrade }] = await versionModules();
  keepUpgrade(path, context.clock.now());
  if (options.json) context.printJson({ database: path, kept: true });
  else context.printLine(`${path}: the upgrade is kept`);
}
