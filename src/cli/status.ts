import type { Command } from "commander";
import { type BrokenVariant, describeBroken } from "../engine/cpu-variants.ts";
import { errorMessage } from "../lib/error-message.ts";
import { type CliContext, CommandError } from "./context.ts";
import { becomeOwner } from "./owner.ts";
import { readServerStatus, type ServerStatus } from "./status-file.ts";

export function registerStatus(program: Command, context: CliContext): void {
  program
    .command("status")
    .description(
      "Queue, workers, speed and an estimate of when the queue is empty; fails when no server runs.",
    )
    .option("--ready", "only ask the running server whether it can take work; opens no database")
    .option("--json", "print JSON")
    .action(async (options: { json?: boolean; ready?: true }) => {
      if (options.ready) return reportReadiness(context, options.json ?? false);
      const services = await context.openServices();
      const { countUnfinishedByState } = await import("../store/transcriptions.ts");
      const server = readServerStatus(services.dataDir);
      const states = countUnfinishedByState(services.database.store);
      if (options.json) {
        context.printJson({
          running: server !== undefined,
          data_dir: services.dataDir,
          transcriptions: Object.fromEntries(states.map(({ state, count }) => [state, count])),
          ...(server ? { server: wire(server) } : {}),
        });
        return requireRunning(server, services.dataDir);
      }
      context.printLine(
        server
          ? `running   ${server.address}, process ${server.pid}, since ${server.started_at}`
          : "not running",
      );
      for (const { state, count, audioMs } of states) {
        context.printLine(`${state.padEnd(9)} ${count} (${(audioMs / 3_600_000).toFixed(2)} h of audio)`);
      }
      if (states.length === 0) context.printLine("queue     empty");
      if (server) for (const line of describe(server)) context.printLine(line);
      requireRunning(server, services.dataDir);
    });
}

const READY_TIMEOUT_MS = 5_000;

/** Asks `GET /readyz` of the server on this data directory. Works with a server and a database of any version. */
async function reportReadiness(context: CliContext, isJson: boolean): Promise<void> {
  const { config } = context.loadConfig();
  // The status file belongs to the server's user, and names the address that is asked.
  becomeOwner(config);
  const { dataDirOf } = await import("../services/admin.ts");
  const dataDir = dataDirOf(config);
  const server = readServerStatus(dataDir);
  const reasons = server ? await askReadiness(server) : [`no server runs on ${dataDir}`];
  const isReady = reasons.length === 0;
  if (isJson) context.printJson({ ready: isReady, pid: server?.pid ?? null, reasons });
  else if (isReady) context.printLine("ready");
  if (!isReady) throw new CommandError("failed", reasons.join("; "));
}

/** @returns why the server is not ready; empty: it is */
async function askReadiness({ local_address, unready }: ServerStatus): Promise<string[]> {
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
function requireRunning(server: ServerStatus | undefined, dataDir: string): void {
  if (!server) throw new CommandError("failed", `no server runs on ${dataDir}`);
}

function wire(server: ServerStatus) {
  const { slots, engine } = server;
  return {
    pid: server.pid,
    address: server.address,
    started_at: server.started_at,
    updated_at: server.updated_at,
    ready: server.unready.length === 0,
    unready_reasons: server.unready,
    workers: slots.workers,
    workers_busy: slots.running,
    chunks_waiting: slots.waiting,
    ...(server.realTimeFactor === undefined ? {} : { real_time_factor: server.realTimeFactor }),
    empty_in_seconds: Math.round(server.emptyInMs / 1000),
    models: engine.models.map(({ modelId, state, device, gpuFailure, pid, restarts, running, problem }) => ({
      id: modelId,
      state,
      ...(device === undefined ? {} : { device }),
      ...(gpuFailure === undefined ? {} : { gpu_failure: gpuFailure }),
      ...(pid === undefined ? {} : { pid }),
      restarts,
      running,
      ...(problem === undefined ? {} : { problem }),
    })),
    avoided_processor_code: avoidedCode(server).map(({ variant, signal }) => ({ name: variant, signal })),
  };
}

/** A server of an older version that still runs after an upgrade does not report this. */
function avoidedCode({ engine }: ServerStatus): BrokenVariant[] {
  const { brokenVariants = [] }: Partial<ServerStatus["engine"]> = engine;
  return brokenVariants;
}

function describe(server: ServerStatus): string[] {
  const { slots, engine } = server;
  const speed = server.realTimeFactor;
  return [
    `ready     ${server.unready.length === 0 ? "yes" : `no: ${server.unready.join("; ")}`}`,
    `workers   ${slots.running} of ${slots.workers} busy, ${slots.waiting} chunks waiting`,
    `speed     ${speed === undefined ? "not known yet" : `${speed.toFixed(1)} × real time, all workers together`}`,
    `empty in  ${Math.round(server.emptyInMs / 1000)} s`,
    ...engine.models.map(
      ({ modelId, state, device, gpuFailure, pid, restarts, problem }) =>
        `model     ${modelId}: ${state}${device ? ` on ${device}` : ""}${gpuFailure ? ` (the GPU: ${gpuFailure})` : ""}${pid ? `, process ${pid}` : ""}, ${restarts} restarts${problem ? `; ${problem}` : ""}`,
    ),
    ...avoidedCode(server).map((broken) => `avoided   ${describeBroken(broken)}`),
  ];
}
