import type { DevicePreference, EngineOptions } from "../../domain/engine-options.ts";
import type { ModelFiles } from "../../domain/model.ts";
import type { DescribedFile } from "../../domain/model-hash.ts";
import { untilAborted } from "../../lib/abort.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { type BrokenVariants, createBrokenVariants } from "../../native/cpu-variants.ts";
import type { NativeFiles } from "../../native/native-files.ts";
import {
  EngineError,
  type EngineInfo,
  type WorkerPart,
  type WorkerReply,
  type WorkerRequest,
} from "../protocol.ts";
import { type CodeChoice, createCodeChoice } from "./code-choice.ts";
import { createStartBackoff, type StartBackoff } from "./start-backoff.ts";
import {
  failTasks,
  NO_CULPRIT,
  settleTask,
  sharersIn,
  startGeneration,
  type WorkerGeneration,
} from "./worker-generation.ts";
import { spawnWorker, type WorkerExit, type WorkerProcess } from "./worker-process.ts";

/** A worker process that has not started or loaded its model in this time is stuck, and is killed. */
const START_TIMEOUT_MS = 10 * 60_000;
/** So many ends in a row before the process was ready may be bad luck, such as a moment without free memory. */
const MAX_LOST_STARTS = 2;

export type HostState = "stopped" | "starting" | "ready" | "backoff";

export type HostOptions = {
  nativeFiles: NativeFiles;
  /** Folders with GPU backends. */
  backendDirs: string[];
  /** The parts that a process opens while it starts. */
  opens: WorkerPart[];
  /** The model to load, of a family that is opened; without it the process recognizes nothing. */
  load?: { files: ModelFiles; described?: DescribedFile[]; device: DevicePreference };
  /** Code for this processor that ended worker processes; shared by the hosts of a program. */
  brokenVariants?: BrokenVariants;
  /** The settings of the engine, which the process receives as they are. */
  engine: EngineOptions;
  log: (level: "info" | "warn", message: string, fields: Record<string, unknown>) => void;
  /** Starts a process; replaced in tests. */
  spawn?: typeof spawnWorker;
};

export type HostStatus = {
  state: HostState;
  /** Where the model runs, such as `cpu`; undefined before the first one was loaded. */
  device: string | undefined;
  /** How often the process ended unexpectedly. */
  restarts: number;
  pid: number | undefined;
  /** Number of running tasks. */
  running: number;
  info: EngineInfo | undefined;
  /** Why the last start failed; undefined once one has succeeded. */
  problem: string | undefined;
  /** Why the processor does the work for which `auto` chose a GPU. */
  gpuFailure: string | undefined;
};

/** The process died of code for this processor. Its tasks are repeated in a process with plainer code. */
export class PlainerCodeTakesOver extends EngineError {}

/** The generations of one worker process: each is started when it is needed, and replaced after it has ended. */
export type WorkerLifecycle = {
  /**
   * Returns the running process once it is ready, or starts one after the pause that follows an unexpected end.
   *
   * @throws EngineError: `aborted`; `interrupted` when closed, or when the process ended and the next one may succeed;
   *   `unusable_model` when no process can be started or load the model
   */
  alive(signal: AbortSignal): Promise<WorkerGeneration>;
  status(): HostStatus;
  /** Kills the process and waits for its end. Its tasks are interrupted. After `forGood` no process starts again. */
  stop(forGood: boolean): Promise<void>;
};

/** All that changes while a host lives. */
type State = {
  generation: WorkerGeneration | undefined;
  /** Ends in a row before a process was ready. */
  lostStarts: number;
  info: EngineInfo | undefined;
  device: string | undefined;
  problem: string | undefined;
  restarts: number;
  isClosed: boolean;
};

type Host = { options: HostOptions; code: CodeChoice; backoff: StartBackoff; state: State };

export function createWorkerLifecycle(options: HostOptions): WorkerLifecycle {
  const brokenVariants = options.brokenVariants ?? createBrokenVariants();
  const code = createCodeChoice({ ...options, device: options.load?.device, brokenVariants });
  const backoff = createStartBackoff();
  const state: State = {
    generation: undefined,
    lostStarts: 0,
    info: undefined,
    device: undefined,
    problem: undefined,
    restarts: 0,
    isClosed: false,
  };
  const host: Host = { options, code, backoff, state };

  function stateNow(): HostState {
    if (state.generation) return state.generation.isReady ? "ready" : "starting";
    return backoff.remainingMs() > 0 ? "backoff" : "stopped";
  }

  return {
    async alive(signal) {
      while (true) {
        if (state.isClosed) throw new EngineError("interrupted", "the engine is closing");
        if (signal.aborted) throw new EngineError("aborted", "aborted");
        const waitMs = backoff.remainingMs();
        if (state.generation || waitMs <= 0) break;
        await Bun.sleep(Math.min(waitMs, 100));
      }
      state.generation ??= start(host);
      const current = state.generation;
      await untilReady(current, signal);
      return current;
    },

    status: () => ({
      state: stateNow(),
      device: state.device,
      restarts: state.restarts,
      pid: state.generation?.process.pid,
      running: state.generation?.tasks.size ?? 0,
      info: state.info,
      problem: state.problem,
      gpuFailure: code.gpuFailure(),
    }),

    async stop(forGood) {
      state.isClosed ||= forGood;
      const current = state.generation;
      if (!current) return;
      current.killed ??= { culprit: NO_CULPRIT, kind: "interrupted", message: "the worker was stopped" };
      current.process.kill();
      await current.process.exited;
    },
  };
}

/** @throws EngineError `unusable_model` when no process can be started */
function start(host: Host): WorkerGeneration {
  const generation = startGeneration(
    (pass) => spawnOrExplain(host, pass),
    (current, reply) => onReply(host, current, reply),
  );
  for (const request of startRequests(host)) generation.process.send(request);
  const stuck = setTimeout(() => generation.process.kill(), START_TIMEOUT_MS);
  const calm = () => clearTimeout(stuck);
  void generation.ready.promise.then(calm, calm);
  void generation.process.exited.then((exit) => onEnd(host, generation, exit));
  return generation;
}

function spawnOrExplain(
  { options, backoff, state }: Host,
  onReply: (reply: WorkerReply) => void,
): WorkerProcess {
  const spawn = options.spawn ?? spawnWorker;
  try {
    return spawn(onReply, (line) => options.log("warn", "worker wrote to standard error", { line }));
  } catch (error) {
    backoff.lengthen();
    state.problem = `no worker can be started: ${errorMessage(error)}`;
    throw new EngineError("unusable_model", state.problem, error);
  }
}

/** Returns the requests that a process begins with. */
function startRequests({ options, code: choice }: Host): WorkerRequest[] {
  const { nativeFiles, load, opens, engine } = options;
  const code = { backendDirs: choice.backendDirs(), avoidedVariants: choice.avoidedVariants(), engine };
  const start = { type: "start", nativeFiles, ...code, opens } as const;
  if (!load) return [start];
  return [start, { type: "load", ...load, ...(choice.isGpuGivenUp() ? { device: "cpu" } : {}) }];
}

/** @throws EngineError: why the process will never be ready, or `aborted` */
async function untilReady({ ready }: WorkerGeneration, signal: AbortSignal): Promise<void> {
  try {
    await untilAborted(ready.promise, signal);
  } catch (error) {
    throw error instanceof EngineError ? error : new EngineError("aborted", "aborted", error);
  }
}

function onReply(host: Host, generation: WorkerGeneration, reply: WorkerReply): void {
  const { options, code, backoff, state } = host;
  switch (reply.type) {
    case "started":
      generation.info = reply.engine;
      if (reply.engine) noteInfo(host, reply.engine);
      if (!options.load) becomeReady(state, generation);
      return;
    case "loaded": {
      const { device, gpuFailure: reason } = reply;
      const { pid } = generation.process;
      state.device = device;
      if (reason !== undefined) {
        code.noteGpuFailure(reason);
        options.log("warn", "the GPU cannot be used, the processor takes its place", { reason, pid });
      }
      options.log("info", "model loaded", { device, pid });
      becomeReady(state, generation);
      return;
    }
    case "unusable":
      state.problem = reply.reason;
      generation.ready.reject(new EngineError("unusable_model", reply.reason));
      generation.process.kill();
      return;
    default:
      if (!settleTask(generation, reply)) return;
      backoff.reset();
      generation.hasDelivered = true;
      code.prove(generation);
  }
}

function becomeReady(state: State, generation: WorkerGeneration): void {
  state.lostStarts = 0;
  state.problem = undefined;
  generation.isReady = true;
  generation.ready.resolve();
}

function noteInfo({ options, code, state }: Host, found: EngineInfo): void {
  if (state.info === undefined) {
    for (const { path, reason } of found.backendFailures) {
      options.log("warn", "a GPU backend cannot be used", { path, reason });
    }
  }
  state.info = code.isGpuGivenUp() ? { ...found, backendFailures: code.givenUpBackends() } : found;
}

/** Finds what ended a process, and fails its tasks accordingly. */
function onEnd(host: Host, generation: WorkerGeneration, exit: WorkerExit): void {
  const { options, code, backoff, state } = host;
  generation.isGone = true;
  if (state.generation === generation) state.generation = undefined;
  const how = exit.signal ?? `status ${exit.code}`;
  const { killed, process, tasks } = generation;
  if (!killed || killed.kind === "hung") state.restarts++;
  const isUnexpected = !killed && !state.isClosed;
  if (isUnexpected) options.log("warn", "worker ended", { pid: process.pid, how, tasks: tasks.size });
  const mayBlameGpu = !killed && state.problem === undefined;
  const isGpusFault = mayBlameGpu && code.blameGpu(generation, state.device);
  const takesPlainerCode = isUnexpected && !isGpusFault && code.blameVariant(generation, exit, state.device);
  // A process with plainer code may start at once.
  if (isUnexpected && !takesPlainerCode) backoff.lengthen();
  const handover = new PlainerCodeTakesOver("interrupted", `the worker ended (${how})`);
  generation.ready.reject(takesPlainerCode ? handover : lostStart(state, generation, how, isGpusFault));
  const isSharedHang = killed?.kind === "hung" && killed.culprit === NO_CULPRIT;
  const hasSuspects = isSharedHang || (isUnexpected && sharersIn(generation) > 1);
  failTasks(generation, (id, sharesSteps) => {
    if (takesPlainerCode) return handover;
    if (hasSuspects && !isGpusFault && sharesSteps) return suspect(how);
    // Each of them is repeated alone, as after a crash, and the one that hangs is found.
    if (killed?.culprit === id) return new EngineError(killed.kind, killed.message);
    if (killed || state.isClosed || isGpusFault) {
      return new EngineError("interrupted", "the worker was stopped");
    }
    return new EngineError("crashed", `the worker ended (${how})`);
  });
}

/** Returns the error for a chunk that may have ended the process, or another one whose steps were made with its own. */
function suspect(how: string): EngineError {
  const error = new EngineError("interrupted", `the worker ended (${how}) with several chunks`);
  error.isSuspect = true;
  return error;
}

/**
 * Returns the error for callers that wait for a process that ended before it was ready. The first ends in a row may be
 * bad luck; further ones are the fault of the weights or of the device.
 */
function lostStart(
  state: State,
  generation: WorkerGeneration,
  how: string,
  isGpusFault: boolean,
): EngineError {
  if (generation.isReady || generation.killed || state.isClosed) {
    return new EngineError("interrupted", "the worker was stopped");
  }
  state.problem ??= `the worker ended while starting (${how})`;
  const isBadLuck = isGpusFault || ++state.lostStarts <= MAX_LOST_STARTS;
  return new EngineError(isBadLuck ? "interrupted" : "unusable_model", state.problem);
}
