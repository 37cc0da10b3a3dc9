import { Command, CommanderError } from "commander";
import { ConfigError } from "../config/problems.ts";
import { AppError, type ErrorCode } from "../domain/errors.ts";
import { type Actor, runAs, SERVER, systemUser } from "../lib/actor.ts";
import type { Clock } from "../lib/clock.ts";
import { printable } from "../lib/printable.ts";
import { ProgramFileError } from "../lib/program-file.ts";
import { isOtherKind, plainMessage } from "../lib/system-error.ts";
import { DatabaseVersionError, UpgradeError } from "../store/database-version.ts";
import { isDiskFull, isLocked, SPACE_ADVICE } from "../store/disk-full.ts";
import { isNotAllowed } from "../store/with-path.ts";
import { registerAudit } from "./accounts/audit.ts";
import { registerBuckets } from "./accounts/buckets.ts";
import { registerCredit } from "./accounts/credit.ts";
import { registerKeys } from "./accounts/keys.ts";
import { registerOrgs } from "./accounts/orgs.ts";
import { registerProjects } from "./accounts/projects.ts";
import { registerReceipts } from "./accounts/receipts.ts";
import { registerTranscriptions } from "./accounts/transcriptions.ts";
import { registerUploads } from "./accounts/uploads.ts";
import { registerUsage } from "./accounts/usage.ts";
import { registerWebhooks } from "./accounts/webhooks.ts";
import { registerBundle } from "./appliance/bundle.ts";
import { registerClock } from "./appliance/clock.ts";
import { registerConfig } from "./appliance/config.ts";
import { registerConsole } from "./appliance/console.ts";
import { registerDoctor } from "./appliance/doctor.ts";
import { needsOnlyData } from "./appliance/emergency-commands.ts";
import { createEmergencySpace, type EmergencySpace } from "./appliance/emergency-space.ts";
import { registerEvidence } from "./appliance/evidence.ts";
import { registerFleet } from "./appliance/fleet.ts";
import { registerFolder } from "./appliance/folder.ts";
import { registerInit } from "./appliance/init.ts";
import { registerLicenses } from "./appliance/licenses.ts";
import { registerMcp } from "./appliance/mcp.ts";
import { registerServe } from "./appliance/serve.ts";
import { registerStatus } from "./appliance/status.ts";
import { registerStorage } from "./appliance/storage.ts";
import { registerVerify } from "./appliance/verify.ts";
import { registerVersion } from "./appliance/version.ts";
import { registerWorker } from "./appliance/worker.ts";
import { registerBackup } from "./backups/backup.ts";
import { registerMigrate } from "./backups/migrate.ts";
import { registerBenchmark } from "./benchmark/benchmark.ts";
import { pathOf } from "./frame/command-tree.ts";
import { registerCompletion } from "./frame/completion.ts";
import { confirm, offerYes } from "./frame/confirmation.ts";
import { type CliContext, type CliIo, CommandError, createCliContext } from "./frame/context.ts";
import { commandStyle } from "./frame/error-line.ts";
import { EXIT } from "./frame/exit-statuses.ts";
import { registerHelp } from "./frame/help.ts";
import { registerMan } from "./frame/man.ts";
import { replaceNames } from "./frame/names.ts";
import { registerModels } from "./models/models.ts";
import { registerText } from "./text/text.ts";
import { registerTranscribe } from "./transcribe/transcribe.ts";

/** All commands, one file for each noun or verb, in the order of `shruti help` (docs/decisions/commands.md). */
const COMMANDS: readonly ((program: Command, context: CliContext) => void)[] = [
  registerInit,
  registerServe,
  registerMcp,
  registerWorker,
  registerFleet,
  registerFolder,
  registerTranscribe,
  registerBenchmark,
  registerText,
  registerOrgs,
  registerProjects,
  registerKeys,
  registerCredit,
  registerModels,
  registerTranscriptions,
  registerUploads,
  registerWebhooks,
  registerBuckets,
  registerUsage,
  registerStorage,
  registerClock,
  registerConsole,
  registerAudit,
  registerReceipts,
  registerEvidence,
  registerBackup,
  registerMigrate,
  registerBundle,
  registerConfig,
  registerDoctor,
  registerStatus,
  registerVersion,
  registerLicenses,
  registerVerify,
  registerCompletion,
  registerMan,
];

/** Exit statuses of services' errors. The table has every code, so that a new one is not forgotten. */
const EXIT_BY_CODE: Record<ErrorCode, number> = {
  invalid_request: EXIT.usage,
  not_found: EXIT.not_found,
  conflict: EXIT.conflict,
  content_deleted: EXIT.conflict,
  // The arguments ask for something that the model cannot do.
  capability_unavailable: EXIT.usage,
  unsupported_language: EXIT.usage,
  unsupported_mode: EXIT.usage,
  unauthorized: EXIT.failed,
  forbidden: EXIT.failed,
  organization_disabled: EXIT.failed,
  method_not_allowed: EXIT.failed,
  unknown_parameter: EXIT.failed,
  upload_incomplete: EXIT.failed,
  result_not_ready: EXIT.failed,
  idempotency_conflict: EXIT.failed,
  audio_too_large: EXIT.failed,
  audio_too_long: EXIT.failed,
  too_many_channels: EXIT.failed,
  audio_decode_failed: EXIT.failed,
  upload_rejected: EXIT.failed,
  capacity_unavailable: EXIT.failed,
  insufficient_credits: EXIT.failed,
  rate_limited: EXIT.failed,
  spend_limit_reached: EXIT.failed,
  too_many_queued: EXIT.failed,
  timeout: EXIT.failed,
  transcription_failed: EXIT.failed,
  internal_error: EXIT.failed,
};

/** Builds the command line. Nothing is opened before a command needs it. */
export function buildProgram(
  io: CliIo,
  clock?: Clock,
): { program: Command; context: CliContext; space: EmergencySpace } {
  const program = new Command("shruti");
  const context = createCliContext(io, () => program.opts<{ config?: string }>().config, clock);
  const space = createEmergencySpace(context);
  program
    .description("Self-hosted speech transcription in one executable.")
    .option("--config <file>", "config file; else $SHRUTI_CONFIG, ./shruti.toml, /etc/shruti/shruti.toml")
    .exitOverride()
    .showSuggestionAfterError(true)
    .configureOutput({
      writeOut: (text) => void context.io.out(text),
      writeErr: (text) => void context.io.err(text),
      // What a parser of an argument says is a sentence, behind what the library says.
      outputError: (text, write) => write(text.replace(/\.\n$/, "\n")),
    });
  for (const register of COMMANDS) register(program, context);
  offerYes(program);
  registerHelp(program, context);
  program.hook("preAction", async (_, command) => {
    if (needsOnlyData(command)) context.ignoreMistakes();
    await space.allow(command);
    await replaceNames(command, context);
    await confirm(command, context);
  });
  return { program, context, space };
}

/**
 * Runs one command.
 *
 * @param argv the arguments after the program's name
 * @returns the exit status. It throws nothing: an error becomes one line on standard error, and each mistake in the
 * config one
 */
export async function runCli(argv: readonly string[], io: CliIo, clock?: Clock): Promise<number> {
  let status = await runOnce(argv, io, clock);
  // Each repetition has used a part of the ballast. A person has confirmed the command already.
  while (status === "repeat")
    status = await runOnce(argv, { ...io, ask: undefined, converse: undefined }, clock);
  return status;
}

/** Runs one command once. @returns its exit status; `repeat`: the disk was full, and has some space now */
async function runOnce(argv: readonly string[], io: CliIo, clock?: Clock): Promise<number | "repeat"> {
  const { program, context, space } = buildProgram(io, clock);
  // Noted now: some commands give up root's rights.
  const user = systemUser(io.environment);
  let via: string | null = null;
  program.hook("preAction", (_, command) => {
    via = pathOf(command);
  });
  const actor = (): Actor => (via === "serve" ? SERVER : { source: "command_line", name: user, via });
  try {
    await runAs(actor, () => program.parseAsync([...argv], { from: "user" }));
    await space.refill();
    return EXIT.done;
  } catch (error) {
    if (isDiskFull(error) && (await space.free())) {
      context.note("The disk is full: a part of the ballast was freed, and the command is repeated.");
      return "repeat";
    }
    // Commander has printed its own message already.
    if (!(error instanceof CommanderError)) {
      for (const line of linesOf(error)) context.io.err(`error: ${printable(line)}\n`);
    }
    return exitStatusOf(error);
  } finally {
    await context.finish();
    context.close();
  }
}

function exitStatusOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
  if (error instanceof CommandError) return EXIT[error.failure];
  if (error instanceof ConfigError) return error.isDenied ? EXIT.rights : EXIT.usage;
  if (error instanceof ProgramFileError) return EXIT.usage;
  if (isOtherKind(error)) return EXIT.usage;
  if (error instanceof AppError) return EXIT_BY_CODE[error.code];
  if (error instanceof DatabaseVersionError) return EXIT.version;
  // A full disk passes, and the next try may succeed. Anything else would fail again in the same way.
  if (error instanceof UpgradeError) return error.isPassing ? EXIT.failed : EXIT.version;
  return isDenied(error) ? EXIT.rights : EXIT.failed;
}

/** Reports whether the system refused an access for want of rights. */
function isDenied(error: unknown): boolean {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: { code?: unknown } };
  return [code, cause?.code].some(
    (each) => each === "EACCES" || each === "EPERM" || each === "EROFS" || isNotAllowed(each),
  );
}

/** A config can have several mistakes, each on a line of its own. */
function linesOf(error: unknown): string[] {
  return error instanceof ConfigError ? error.message.split("\n") : [messageOf(error)];
}

function messageOf(error: unknown): string {
  if (isLocked(error)) {
    return "another program has locked the database, and nothing was changed; end its transaction (`fuser -v shruti.db` names it), or try again";
  }
  const message = commandStyle(plainMessage(error).split("\n", 1)[0] ?? "");
  if (isDiskFull(error)) return `${message}; ${SPACE_ADVICE}`;
  // The default message does not name the capability.
  if (error instanceof AppError && error.code === "capability_unavailable")
    return `${error.detail}: ${message}`;
  return message || "unknown";
}
