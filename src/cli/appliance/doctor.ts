import { accessSync, constants, existsSync } from "node:fs";
import { totalmem } from "node:os";
import type { Command } from "commander";
import { ConfigError } from "../../config/problems.ts";
import type { Config } from "../../config/schema.ts";
import type { Clock } from "../../lib/clock.ts";
import { freeBytesOf } from "../../lib/disk-space.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { toTimestamp } from "../../lib/time.ts";
import { problemOfSandbox, readUnit } from "../../server/service-sandbox.ts";
import { endingOf, readCertificate } from "../../server/tls.ts";
import type { Database } from "../../store/database.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { keysAre } from "../frame/output.ts";
import { becomeOwner } from "../frame/owner.ts";
import { describeDoubt } from "./clock.ts";
import { hasOpenMetrics, OPEN_METRICS } from "./open-metrics.ts";

type Finding = { check: string; ok: boolean; detail: string };

/** `shruti doctor`: checks whether machine, config and data directory can do the work, and how fast. */
export function registerDoctor(program: Command, context: CliContext): void {
  program
    .command("doctor")
    .description("Check config, data directory, engine and models, and measure the speed of this machine.")
    .option("--self", "check only that this executable is undamaged; needs no config")
    .option("--json", "print JSON")
    .action(async (options: { self?: true; json?: true }) => {
      const findings = options.self ? await self() : await examine(context);
      if (options.json) context.printJson(findings);
      else
        for (const { check, ok, detail } of findings)
          context.printLine(`${ok ? "ok " : "BAD"}  ${check.padEnd(10)} ${detail}`);
      if (findings.some(({ ok }) => !ok)) throw new CommandError("failed", "a check failed; see above");
    });
}

/** Compares the executable and its embedded parts with the build's checksums. */
async function self(): Promise<Finding[]> {
  const { examineSelf } = await import("../../executable/self-check.ts");
  return examineSelf();
}

async function examine(context: CliContext): Promise<Finding[]> {
  const { config, path, problems, warnings, knowsDataDir } = context.readConfig();
  for (const warning of warnings) context.note(`warning: ${warning}`);
  const error = problems.length > 0 ? new ConfigError(problems) : undefined;
  // What a file means that cannot be read, only another user can say.
  if (error?.isDenied) throw error;
  const ofConfig: Finding[] = error
    ? error.message.split("\n").map((detail) => ({ check: "config", ok: false, detail }))
    : [{ check: "config", ok: true, detail: path ?? "none found: defaults" }];
  if (error && !knowsDataDir) return [...ofConfig, await machine()];
  // Before root's rights are given up: afterwards the kernel does not show this process its own executable.
  const executable = Bun.isStandaloneExecutable ? await self() : [];
  const { dataDirOf } = await import("../../services/data-dir.ts");
  const dataDir = dataDirOf(config);
  const { examineFolders, placesOf } = await import("../../intake/folders/examine.ts");
  const watched = config.intake.folder.flatMap((settings) => placesOf(settings).map(([path]) => path));
  const backups = config.backup.to === "" ? [] : [config.backup.to];
  const service = sandbox([dataDir, ...backups, ...new Set(watched)]);
  // This comes before all checks, because the server does not have the rights of root.
  const user = becomeOwner(config);
  const findings: Finding[] = [...ofConfig, ...executable, await machine()];
  const folder = directory(dataDir, user);
  findings.push(folder, ...service);
  if (folder.ok) findings.push(...(await contentsOf(config, dataDir, context.io.environment)));
  findings.push(disk(dataDir, config.storage.reserve_bytes));
  if (hasOpenMetrics(config)) findings.push({ check: "metrics", ok: true, detail: OPEN_METRICS });
  findings.push(...certificate(config));
  findings.push(...examineFolders(config).map((finding) => ({ check: "folder", ...finding })));
  findings.push(...(await fleet(config, dataDir)));
  const version = await databaseVersion(dataDir);
  if (version) findings.push(version);
  if (version?.ok) findings.push(...(await ofDatabase(context, config, dataDir)));
  findings.push(...(await engine(context, config, version?.ok === false)));
  return findings;
}

/** Examines the fleet that the config names, from this machine's side. */
async function fleet(config: Config, dataDir: string): Promise<Finding[]> {
  if (config.fleet.nats.length === 0) return [];
  const [{ examineFleet }, { default: project }] = await Promise.all([
    import("../../fleet/checks.ts"),
    import("../../../package.json"),
  ]);
  return examineFleet({ config, dataDir, version: project.version });
}

async function machine(): Promise<Finding> {
  const { measureMachine } = await import("../../engine/machine.ts");
  const { cores, availableMemoryBytes } = measureMachine();
  const gib = (bytes: number) => (bytes / 1024 ** 3).toFixed(1);
  return {
    check: "machine",
    ok: true,
    detail: `${cores} cores, ${gib(availableMemoryBytes)} of ${gib(totalmem())} GiB of memory free`,
  };
}

function directory(dataDir: string, user: number | undefined): Finding {
  if (!existsSync(dataDir))
    return { check: "data", ok: false, detail: `${dataDir} does not exist; \`shruti init\` makes it` };
  try {
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
    const owner = user === undefined ? "" : `, looked at as its owner, user ${user}`;
    return { check: "data", ok: true, detail: `${dataDir}${owner}` };
  } catch {
    const advice = process.geteuid?.() === 0 || user !== undefined ? "" : "; run doctor with sudo";
    return { check: "data", ok: false, detail: `${dataDir} cannot be written${advice}` };
  }
}

/** Looks at the files and folders of the data directory, with the rights of the server's user. */
async function contentsOf(
  config: Config,
  dataDir: string,
  environment: CliContext["io"]["environment"],
): Promise<Finding[]> {
  const [{ databasePath }, { unusableParts }, { ballastState }, { requireServerRights }] = await Promise.all([
    import("../../store/database.ts"),
    import("../../services/data-parts.ts"),
    import("../../services/ballast.ts"),
    import("../../server/server-rights.ts"),
  ]);
  if (!existsSync(dataDir)) return [];
  const bad = (detail: string): Finding => ({ check: "data", ok: false, detail });
  const findings = unusableParts(dataDir).map(bad);
  try {
    if (existsSync(databasePath(dataDir))) requireServerRights(config, environment);
  } catch (error) {
    findings.push(bad(errorMessage(error)));
  }
  if (ballastState(dataDir).isForeign)
    findings.push(bad(`${dataDir}/ballast is not the server's own file, so nothing is kept for a full disk`));
  return findings;
}

/** Reports whether the unit of the service, where there is one, lets the service use its folders. */
function sandbox(folders: readonly string[]): Finding[] {
  const unit = readUnit();
  if (unit === undefined) return [];
  return folders
    .map((folder) => problemOfSandbox(unit, folder))
    .filter((problem) => problem !== undefined)
    .map((detail) => ({ check: "service", ok: false, detail }));
}

function disk(dataDir: string, reserveBytes: number): Finding {
  if (!existsSync(dataDir)) return { check: "disk", ok: true, detail: "not looked at" };
  const freeBytes = freeBytesOf(dataDir);
  const detail = `${(freeBytes / 1024 ** 3).toFixed(1)} GiB free, reserve ${(reserveBytes / 1024 ** 3).toFixed(1)} GiB`;
  return { check: "disk", ok: freeBytes >= reserveBytes, detail };
}

/** Reports the database's version; undefined where there is none. Nothing is changed. */
async function databaseVersion(dataDir: string): Promise<Finding | undefined> {
  const [{ databasePath }, { DatabaseVersionError, describeVersion }, { versionOf }] = await Promise.all([
    import("../../store/database.ts"),
    import("../../store/database-version.ts"),
    import("../../store/upgrade.ts"),
  ]);
  const path = databasePath(dataDir);
  if (!existsSync(path)) return undefined;
  try {
    const version = versionOf(path);
    if (version.state !== "current") throw new DatabaseVersionError(path, version);
    return { check: "database", ok: true, detail: `version ${describeVersion(version.needed)}` };
  } catch (error) {
    return { check: "database", ok: false, detail: errorMessage(error) };
  }
}

/** Looks into a database of this program's version. Nothing is changed. */
async function ofDatabase(context: CliContext, config: Config, dataDir: string): Promise<Finding[]> {
  const { databasePath, openDatabase } = await import("../../store/database.ts");
  try {
    const database = openDatabase(databasePath(dataDir));
    try {
      return [
        ...(await heldKeys(database, context.clock.now())),
        ...(await backups(database, config, dataDir)),
        await clock(database, context.clock),
      ];
    } finally {
      database.close();
    }
  } catch (error) {
    return [{ check: "database", ok: false, detail: errorMessage(error) }];
  }
}

/** Reports keys that a restore holds back: their clients are refused. */
async function heldKeys(database: Database, nowMs: number): Promise<Finding[]> {
  const { countHeldKeys } = await import("../../store/held-keys.ts");
  const count = countHeldKeys(database, nowMs);
  const detail = `${keysAre(count)} refused since a restore; \`shruti keys confirm\` accepts them`;
  return count === 0 ? [] : [{ check: "keys", ok: false, detail }];
}

/** Reports the last backups, and looks at the folder of the schedule with the rights of the server's user. */
async function backups(database: Database, config: Config, dataDir: string): Promise<Finding[]> {
  const { describeBackups, readBackupState } = await import("../../services/backups/backup-state.ts");
  const state = readBackupState(database, config, dataDir);
  const detail = describeBackups(state);
  return detail === undefined ? [] : [{ check: "backups", ok: state.problem === undefined, detail }];
}

/** Compares the clock with what the database knows of it. */
async function clock(database: Database, machine: Clock): Promise<Finding> {
  const [{ createClockTrust }, { silentLog }] = await Promise.all([
    import("../../services/clock-trust.ts"),
    import("../../lib/log.ts"),
  ]);
  const found = createClockTrust({ database, clock: machine, log: silentLog }).verdict();
  const detail = found.isDoubtful ? describeDoubt(found) : toTimestamp(found.atMs);
  return { check: "clock", ok: !found.isDoubtful, detail };
}

/** Checks the certificate with the rights of the server's user. Returns no check without TLS. */
function certificate(config: Config): Finding[] {
  try {
    const found = readCertificate(config);
    if (!found) return [];
    const ending = endingOf(found, Date.now());
    const detail = ending ?? `the certificate is valid until ${toTimestamp(found.endsAtMs)}`;
    return [{ check: "tls", ok: ending === undefined, detail }];
  } catch (error) {
    return [{ check: "tls", ok: false, detail: errorMessage(error) }];
  }
}

async function engine(context: CliContext, config: Config, ignoresDatabase: boolean): Promise<Finding[]> {
  const { examineEngine } = await import("../../programs/doctor.ts");
  try {
    const { environment } = context.io;
    const report = await examineEngine({ config, clock: context.clock, environment, ignoresDatabase });
    return [
      {
        check: "engine",
        ok: true,
        detail:
          report.whisperVersion === ""
            ? report.cpuVariant
            : `whisper.cpp ${report.whisperVersion}, processor code ${report.cpuVariant}`,
      },
      ...report.devices.map((detail) => ({ check: "device", ok: true, detail })),
      ...report.backendFailures.map((detail) => ({ check: "backend", ok: false, detail })),
      ...report.avoidedCode.map((detail) => ({ check: "processor", ok: false, detail })),
      { check: "model", ok: true, detail: report.model },
      ...report.damagedModels.map((detail) => ({ check: "model", ok: false, detail })),
      ...report.unreadModels.map((detail) => ({ check: "model", ok: true, detail })),
      ...report.routeProblems.map((detail) => ({ check: "languages", ok: false, detail })),
      ...(report.draft === undefined ? [] : [{ check: "draft", ok: true, detail: report.draft }]),
      ...report.draftProblems.map((detail) => ({ check: "draft", ok: false, detail })),
      { check: "workers", ok: true, detail: report.workers },
      ...report.speeds.map((detail) => ({ check: "speed", ok: true, detail })),
    ];
  } catch (error) {
    return [{ check: "engine", ok: false, detail: errorMessage(error) }];
  }
}
