import { accessSync, constants } from "node:fs";
import type { Command } from "commander";
import { modelStatesJson } from "../../engine/model-states.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { printableJson } from "../../lib/printable.ts";
import { describeDuration } from "../../lib/time.ts";
import { type BrokenVariant, describeBroken } from "../../native/cpu-variants.ts";
import { addressOfConfig } from "../../server/listen-address.ts";
import { queueNumbersOf } from "../../server/numbers/program-numbers.ts";
import { readServerStatus, type ServerStatus } from "../../server/status-file.ts";
import type { BackupState } from "../../services/backups/backup-state.ts";
import type { ClockVerdict } from "../../services/clock-trust.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { keysAre, renderFields } from "../frame/output.ts";
import { becomeOwner } from "../frame/owner.ts";
import { clockJson, describeDoubt } from "./clock.ts";
import { describeWorker } from "./fleet.ts";

export function registerStatus(program: Command, context: CliContext): void {
  program
    .command("status")
    .description(
      "Queue, workers, speed and an estimate of when the queue is empty; fails when no server runs.",
    )
    .option("--ready", "only ask the running server whether it can take work; opens no database")
    .option("--watch", "show it again every two seconds, until Ctrl-C")
    .option("--json", "print JSON; with --watch a line each time")
    .action(async (options: StatusOptions) => {
      if (options.ready) return reportReadiness(context, options.json ?? false);
      if (options.watch) return watch(context, options);
      const status = await readStatus(context);
      if (options.json) context.printJson(toJson(status));
      else context.io.out(render(status));
      requireRunning(status);
    });
}

type StatusOptions = { json?: true; ready?: true; watch?: true };

const WATCH_EVERY_MS = 2_000;

/** Shows the status until a signal ends the command, also while no server runs. */
async function watch(context: CliContext, { json }: StatusOptions): Promise<never> {
  for (;;) {
    const status = await readStatus(context);
    if (json) context.printLine(printableJson(toJson(status)));
    else {
      const text = render(status);
      context.clearScreen();
      context.io.out(text);
    }
    await Bun.sleep(WATCH_EVERY_MS);
  }
}

type Status = {
  dataDir: string;
  /** Also true while the server cannot write its status file, such as on a full disk. */
  isRunning: boolean;
  server: ServerStatus | undefined;
  states: { state: string; count: number; audioMs: number }[];
  /** Keys that a restore holds back. */
  heldKeys: number;
  clock: ClockVerdict;
  backups: BackupState;
  /** The same in one line; undefined: none are scheduled, and none was made. */
  backupLine: string | undefined;
};

async function readStatus(context: CliContext): Promise<Status> {
  const { dataDir, database, config, trust } = await context.openServices();
  const [{ countUnfinishedByState }, { countHeldKeys }, { describeBackups, readBackupState }, { hasServer }] =
    await Promise.all([
      import("../../store/transcriptions.ts"),
      import("../../store/held-keys.ts"),
      import("../../services/backups/backup-state.ts"),
      import("../../services/data-dir-lock.ts"),
    ]);
  const server = readServerStatus(dataDir);
  const backups = readBackupState(database, config);
  return {
    ...{ dataDir, server },
    isRunning: server !== undefined || hasServer(dataDir),
    states: countUnfinishedByState(database.store),
    heldKeys: countHeldKeys(database, context.clock.now()),
    clock: trust.verdict(),
    backups,
    backupLine: describeBackups(backups),
  };
}

function toJson({ dataDir, isRunning, server, states, heldKeys, backups, clock }: Status) {
  return {
    running: isRunning,
    data_dir: dataDir,
    transcriptions: Object.fromEntries(states.map(({ state, count }) => [state, count])),
    keys_held: heldKeys,
    backup: {
      scheduled: backups.isScheduled,
      last_at: backups.lastAt ?? null,
      last_path: backups.lastPath ?? null,
      failed_at: backups.failedAt ?? null,
      problem: backups.problem ?? null,
    },
    clock: clockJson(clock),
    ...(server ? { server: wire(server) } : {}),
  };
}

const NO_STATUS = "its status file is old or missing, as on a full disk";

function render({ isRunning, server, states, heldKeys, backupLine, clock }: Status): string {
  const queue = states.map(
    ({ state, count, audioMs }) =>
      [state, `${count} (${(audioMs / 3_600_000).toFixed(2)} h of audio)`] as const,
  );
  return renderFields([
    server
      ? ["running", `${server.address}, process ${server.pid}, since ${server.started_at}`]
      : ["running", isRunning ? `yes; ${NO_STATUS}` : "no"],
    ...(clock.isDoubtful ? [["clock", `in doubt: ${describeDoubt(clock)}`] as const] : []),
    ...(queue.length === 0 ? [["queue", "empty"] as const] : queue),
    ...(heldKeys === 0
      ? []
      : [["keys", `${keysAre(heldKeys)} refused since a restore, until \`shruti keys confirm\``] as const]),
    ...(backupLine === undefined ? [] : [["backup", backupLine] as const]),
    ...(server ? describe(server) : []),
  ]);
}

const READY_TIMEOUT_MS = 5_000;

/** Asks `GET /readyz` of the server on this data directory. Works with a server and a database of any version. */
async function reportReadiness(context: CliContext, isJson: boolean): Promise<void> {
  const { config } = context.loadConfig();
  // The status file belongs to the server's user, and names the address that is asked.
  becomeOwner(config);
  const { dataDirOf } = await import("../../services/data-dir.ts");
  const dataDir = dataDirOf(config);
  requireReadable(dataDir);
  const { hasServer } = await import("../../services/data-dir-lock.ts");
  const server = readServerStatus(dataDir);
  const reasons = server
    ? await askReadiness(server)
    : hasServer(dataDir)
      ? await askReadiness({ local_address: addressOfConfig(config), unready: [] })
      : [`no server runs on ${dataDir}`];
  const isReady = reasons.length === 0;
  if (isJson) context.printJson({ ready: isReady, pid: server?.pid ?? null, reasons });
  else if (isReady) context.printLine("ready");
  if (!isReady) throw new CommandError("failed", reasons.join("; "));
}

/** Otherwise a server that runs would be reported as not running. @throws Error when this user may not look into the folder */
function requireReadable(dataDir: string): void {
  try {
    accessSync(dataDir, constants.R_OK | constants.X_OK);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code !== "EACCES" && code !== "EPERM") return;
    throw new Error(`${dataDir} cannot be read by this user (${code}); run the command with sudo`, { cause });
  }
}

/** @returns why the server is not ready; empty: it is */
async function askReadiness({
  local_address,
  unready,
}: Pick<ServerStatus, "local_address" | "unready">): Promise<string[]> {
  if (local_address === undefined) return unready;
  try {
    const answer = await fetch(`${local_address}/readyz`, {
      signal: AbortSignal.timeout(READY_TIMEOUT_MS),
      // The certificate is for the name that clients use.
      tls: { rejectUnauthorized: false },
    });
    if (answer.ok) return [];
    const { reasons } = (await answer.json()) as { reasons?: string[] };
    return reasons ?? [`${local_address}/readyz answers ${answer.status}`];
  } catch (error) {
    return [`${local_address} does not answer: ${errorMessage(error)}`];
  }
}

/** Ends the command with an exit status for scripts, after the findings are printed. */
function requireRunning({ isRunning, dataDir }: Status): void {
  if (!isRunning) throw new CommandError("failed", `no server runs on ${dataDir}`);
}

function wire(server: ServerStatus) {
  const { engine } = server;
  const queue = queueNumbersOf(server);
  return {
    pid: server.pid,
    address: server.address,
    started_at: server.started_at,
    updated_at: server.updated_at,
    ready: server.unready.length === 0,
    unready_reasons: server.unready,
    workers: queue.places,
    workers_busy: queue.placesBusy,
    chunks_waiting: queue.chunksWaiting,
    ...(queue.realTimeFactor === null ? {} : { real_time_factor: queue.realTimeFactor }),
    empty_in_seconds: queue.emptyInSeconds,
    models: modelStatesJson(engine.models),
    ...(server.fleet ? { fleet: server.fleet } : {}),
    avoided_processor_code: avoidedCode(server).map(({ variant, signal }) => ({ name: variant, signal })),
  };
}

/** A server of an older version that still runs after an upgrade does not report this. */
function avoidedCode({ engine }: ServerStatus): BrokenVariant[] {
  const { brokenVariants = [] }: Partial<ServerStatus["engine"]> = engine;
  return brokenVariants;
}

function describe(server: ServerStatus): [name: string, value: string][] {
  const { engine } = server;
  const { places, placesBusy, chunksWaiting, realTimeFactor: speed } = queueNumbersOf(server);
  return [
    ["ready", server.unready.length === 0 ? "yes" : `no: ${server.unready.join("; ")}`],
    ["workers", `${placesBusy} of ${places} busy, ${chunksWaiting} chunks waiting`],
    ["speed", speed === null ? "not known yet" : `${speed.toFixed(1)} × real time, all workers together`],
    // Without a measured speed the estimate is that of real time, which is usually far too long.
    [
      "empty in",
      speed === null && server.emptyInMs > 0 ? "not known yet" : describeDuration(server.emptyInMs),
    ],
    ...engine.models.map((model): [string, string] => ["model", describeModel(model)]),
    ...fleetFields(server.fleet),
    ...avoidedCode(server).map((broken): [string, string] => ["avoided", describeBroken(broken)]),
  ];
}

function describeModel(model: ServerStatus["engine"]["models"][number]): string {
  const { modelId, state, device, gpuFailure, pid, restarts, problem } = model;
  const where = `${device ? ` on ${device}` : ""}${gpuFailure ? ` (the GPU: ${gpuFailure})` : ""}`;
  const process = pid ? `, process ${pid}` : "";
  const again = restarts === 0 ? "" : `, restarted ${restarts} ${restarts === 1 ? "time" : "times"}`;
  return `${modelId}: ${state}${where}${process}${again}${describeDraft(model)}${problem ? `; ${problem}` : ""}`;
}

function describeDraft({ draftId, draft, draftFailure }: ServerStatus["engine"]["models"][number]): string {
  if (draftId === undefined) return "";
  if (draftFailure !== undefined) return `, without the draft model ${draftId}: ${draftFailure}`;
  const { drafted = 0, accepted = 0 } = draft ?? {};
  const share = drafted === 0 ? "" : `, ${Math.round((100 * accepted) / drafted)} % of them accepted`;
  return `, ${draftId} drafted ${drafted} tokens${share}`;
}

function fleetFields(fleet: ServerStatus["fleet"]): [string, string][] {
  if (!fleet) return [];
  const { server, workers } = fleet;
  const where = server.connected ? `connected to ${server.address}` : `not connected: ${server.problem}`;
  return [
    [
      "fleet",
      `${where}, ${fleet.chunks} chunks at work, ${fleet.preparing} recordings prepared, ${fleet.interrupted_chunks} repeated`,
    ],
    ...workers.map((worker): [string, string] => ["worker", `${worker.name}: ${describeWorker(worker)}`]),
  ];
}
