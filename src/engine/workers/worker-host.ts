import { createGate } from "../../admission/gate.ts";
import type { DevicePreference, EngineOptions } from "../../domain/engine-options.ts";
import { onAbort, untilAborted } from "../../lib/abort.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { LONGEST_TIMER_MS } from "../../lib/time.ts";
import { type BrokenVariants, createBrokenVariants, createVariantTrial } from "../../native/cpu-variants.ts";
import type { NativeFiles } from "../../native/native-files.ts";
import {
  EngineError,
  type EngineErrorKind,
  type EngineInfo,
  type LoadRequest,
  type OnSpeakersHeard,
  type OnSpeechFound,
  type SpeechRegion,
  type WorkerPart,
  type WorkerReply,
  type WorkerRequest,
} from "../protocol.ts";
import { spawnWorker, type WorkerExit, type WorkerProcess } from "./worker-process.ts";

/**
 * The life of one worker process, as one state machine. The host is what stays: it starts a process when work asks for it,
 * and the next one after an unexpected end. A generation is one process from its start to its end, with the tasks that run
 * in it. After an end, the code choice decides whether native code is to blame, and the backoff how long the next start
 * waits.
 */

/** A worker process that has not started or loaded its model in this time is stuck, and is killed. */
const START_TIMEOUT_MS = 10 * 60_000;
/** So many ends in a row before the process was ready may be bad luck, such as a moment without free memory. */
const MAX_LOST_STARTS = 2;

/**
 * An abort that the worker process does not obey within this time is enforced (docs/decisions/transcriptions.md,
 * "Cancel, delete, retry": 2 s).
 */
const ABORT_GRACE_MS = 1_700;

export type HostState = "stopped" | "starting" | "ready" | "backoff";

export type HostOptions = {
  nativeFiles: NativeFiles;
  /** Folders with GPU backends. */
  backendDirs: string[];
  /** The parts that a process opens while it starts. */
  opens: WorkerPart[];
  /** The model to load, of a family that is opened; without it the process recognizes nothing. */
  load?: LoadRequest;
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
  /** Why the draft model that was named is not used; undefined: it is, or there is none, or nothing was loaded yet. */
  draftFailure: string | undefined;
};

/** A request for work in a worker process; the host adds the number under which the process answers. */
export type HostRequest =
  | Omit<Extract<WorkerRequest, { type: "transcribe" }>, "id">
  | Omit<Extract<WorkerRequest, { type: "detect_speech" }>, "id">
  | Omit<Extract<WorkerRequest, { type: "diarize" }>, "id">
  | Omit<Extract<WorkerRequest, { type: "punctuate" }>, "id">;

export type TaskOptions = {
  signal: AbortSignal;
  /** Milliseconds after which the process counts as hung and is killed. */
  timeoutMs: number;
  /** Receives the regions that are final while the detector still reads the file. */
  onFound?: OnSpeechFound;
  /** Receives how much of the audio was heard while the nets hear the rest. */
  onHeard?: OnSpeakersHeard;
};

export type RunOptions = TaskOptions & {
  /** The task waits until no other runs in the process, and others wait until it has ended. */
  isAlone: boolean;
};

/**
 * Keeps one worker process running: starts it when it is needed, notices its end, decides which tasks caused the end,
 * and starts the next one after a growing pause.
 */
export type WorkerHost = {
  /**
   * Runs one task in the process. Calls run side by side unless one asks to be alone.
   *
   * @throws EngineError: `aborted` within 2 s of the signal; `failed` when the process refuses the task; `crashed` when
   *   it ended with the task in it; `hung` when it was killed after `timeoutMs`; `interrupted` when it ended for another
   *   reason, so that a repetition may succeed; `unusable_model` when it cannot start or load its model
   */
  request(request: HostRequest, options: RunOptions): Promise<WorkerReply>;
  /**
   * Starts the process and loads its model now.
   *
   * @throws EngineError as `request` does
   */
  warm(signal: AbortSignal): Promise<void>;
  status(): HostStatus;
  /**
   * Kills the process and waits for its end; running tasks reject with `interrupted`. The next request starts a new
   * process, unless the host was stopped for good.
   */
  stop(forGood: boolean): Promise<void>;
};

export function createWorkerHost(options: HostOptions): WorkerHost {
  return new Host(options);
}

class Host implements WorkerHost {
  readonly #options: HostOptions;
  readonly #code: CodeChoice;
  readonly #backoff = createStartBackoff();
  readonly #gate = createGate();
  /** The process that runs; undefined between two. */
  #generation: Generation | undefined;
  /** Ends in a row before a process was ready. */
  #lostStarts = 0;
  #info: EngineInfo | undefined;
  #device: string | undefined;
  #draftFailure: string | undefined;
  #problem: string | undefined;
  #restarts = 0;
  #isClosed = false;
  #nextId = 1;

  constructor(options: HostOptions) {
    const brokenVariants = options.brokenVariants ?? createBrokenVariants();
    this.#options = options;
    this.#code = createCodeChoice({ ...options, device: options.load?.device, brokenVariants });
  }

  async request(request: HostRequest, options: RunOptions): Promise<WorkerReply> {
    const leave = await this.#enter(options);
    try {
      return await withPlainerCode(async () =>
        (await this.#alive(options.signal)).run(this.#nextId++, request, options),
      );
    } finally {
      leave();
    }
  }

  async warm(signal: AbortSignal): Promise<void> {
    await withPlainerCode(() => this.#alive(signal));
  }

  status(): HostStatus {
    return {
      state: this.#state(),
      device: this.#device,
      restarts: this.#restarts,
      pid: this.#generation?.process.pid,
      running: this.#generation?.running() ?? 0,
      info: this.#info,
      problem: this.#problem,
      gpuFailure: this.#code.gpuFailure(),
      draftFailure: this.#draftFailure,
    };
  }

  async stop(forGood: boolean): Promise<void> {
    this.#isClosed ||= forGood;
    const current = this.#generation;
    if (!current) return;
    current.kill({ culprit: NO_CULPRIT, kind: "interrupted", message: "the worker was stopped" });
    await current.process.exited;
  }

  async #enter({ isAlone, signal }: RunOptions): Promise<() => void> {
    try {
      return await this.#gate.enter(isAlone, signal);
    } catch (error) {
      throw new EngineError("aborted", "aborted", error);
    }
  }

  #state(): HostState {
    if (this.#generation) return this.#generation.isReady ? "ready" : "starting";
    return this.#backoff.remainingMs() > 0 ? "backoff" : "stopped";
  }

  /**
   * Returns the running process once it is ready, or starts one after the pause that follows an unexpected end.
   *
   * @throws EngineError: `aborted`; `interrupted` when closed, or when the process ended and the next one may succeed;
   *   `unusable_model` when no process can be started or load the model
   */
  async #alive(signal: AbortSignal): Promise<Generation> {
    while (true) {
      if (this.#isClosed) throw new EngineError("interrupted", "the engine is closing");
      if (signal.aborted) throw new EngineError("aborted", "aborted");
      const waitMs = this.#backoff.remainingMs();
      if (this.#generation || waitMs <= 0) break;
      await Bun.sleep(Math.min(waitMs, 100));
    }
    this.#generation ??= this.#start();
    const current = this.#generation;
    try {
      await untilAborted(current.ready.promise, signal);
    } catch (error) {
      throw error instanceof EngineError ? error : new EngineError("aborted", "aborted", error);
    }
    return current;
  }

  /** @throws EngineError `unusable_model` when no process can be started */
  #start(): Generation {
    const generation: Generation = new Generation(
      (onReply) => this.#spawn(onReply),
      (reply) => this.#onReply(generation, reply),
    );
    for (const request of this.#startRequests()) generation.process.send(request);
    const stuck = setTimeout(() => generation.process.kill(), START_TIMEOUT_MS);
    const calm = () => clearTimeout(stuck);
    void generation.ready.promise.then(calm, calm);
    void generation.process.exited.then((exit) => this.#onEnd(generation, exit));
    return generation;
  }

  #spawn(onReply: (reply: WorkerReply) => void): WorkerProcess {
    const { spawn = spawnWorker, log } = this.#options;
    try {
      return spawn(onReply, (line) => log("warn", "worker wrote to standard error", { line }));
    } catch (error) {
      this.#backoff.lengthen();
      this.#problem = `no worker can be started: ${errorMessage(error)}`;
      throw new EngineError("unusable_model", this.#problem, error);
    }
  }

  /** Returns the requests that a process begins with. */
  #startRequests(): WorkerRequest[] {
    const { nativeFiles, load, opens, engine } = this.#options;
    const choice = this.#code;
    const code = { backendDirs: choice.backendDirs(), avoidedVariants: choice.avoidedVariants(), engine };
    const start = { type: "start", nativeFiles, ...code, opens } as const;
    if (!load) return [start];
    return [start, { type: "load", ...load, ...(choice.isGpuGivenUp() ? { device: "cpu" } : {}) }];
  }

  #onReply(generation: Generation, reply: WorkerReply): void {
    const { load, log } = this.#options;
    switch (reply.type) {
      case "started":
        generation.info = reply.engine;
        if (reply.engine) this.#noteInfo(reply.engine);
        if (!load) this.#becomeReady(generation);
        return;
      case "loaded": {
        const { device, gpuFailure: reason, draftFailure } = reply;
        const { pid } = generation.process;
        this.#device = device;
        this.#draftFailure = draftFailure;
        if (draftFailure !== undefined)
          log("warn", "the draft model is not used", { draft: load?.draft?.id, reason: draftFailure, pid });
        if (reason !== undefined) {
          this.#code.noteGpuFailure(reason);
          log("warn", "the GPU cannot be used, the processor takes its place", { reason, pid });
        }
        log("info", "model loaded", { device, pid });
        this.#becomeReady(generation);
        return;
      }
      case "unusable":
        this.#problem = reply.reason;
        generation.ready.reject(new EngineError("unusable_model", reply.reason));
        generation.process.kill();
        return;
      default:
        if (!generation.settle(reply)) return;
        this.#backoff.reset();
        generation.hasDelivered = true;
        this.#code.prove(generation);
    }
  }

  #becomeReady(generation: Generation): void {
    this.#lostStarts = 0;
    this.#problem = undefined;
    generation.isReady = true;
    generation.ready.resolve();
  }

  #noteInfo(found: EngineInfo): void {
    if (this.#info === undefined) {
      for (const { path, reason } of found.backendFailures) {
        this.#options.log("warn", "a GPU backend cannot be used", { path, reason });
      }
    }
    const code = this.#code;
    this.#info = code.isGpuGivenUp() ? { ...found, backendFailures: code.givenUpBackends() } : found;
  }

  /** Finds what ended a process, and fails its tasks accordingly. */
  #onEnd(generation: Generation, exit: WorkerExit): void {
    generation.isGone = true;
    if (this.#generation === generation) this.#generation = undefined;
    const how = exit.signal ?? `status ${exit.code}`;
    const { killed, process } = generation;
    if (!killed || killed.kind === "hung") this.#restarts++;
    const isUnexpected = !killed && !this.#isClosed;
    const fields = { pid: process.pid, how, tasks: generation.running() };
    if (isUnexpected) this.#options.log("warn", "worker ended", fields);
    const mayBlameGpu = !killed && this.#problem === undefined;
    const isGpusFault = mayBlameGpu && this.#code.blameGpu(generation, this.#device);
    const takesPlainerCode =
      isUnexpected && !isGpusFault && this.#code.blameVariant(generation, exit, this.#device);
    // A process with plainer code may start at once.
    if (isUnexpected && !takesPlainerCode) this.#backoff.lengthen();
    const handover = new PlainerCodeTakesOver("interrupted", `the worker ended (${how})`);
    generation.ready.reject(takesPlainerCode ? handover : this.#lostStart(generation, how, isGpusFault));
    const isSharedHang = killed?.kind === "hung" && killed.culprit === NO_CULPRIT;
    const hasSuspects = isSharedHang || (isUnexpected && generation.sharers() > 1);
    generation.failAll((id, sharesSteps) => {
      if (takesPlainerCode) return handover;
      // Each of them is repeated alone, as after a crash, and the one that hangs is found.
      if (hasSuspects && !isGpusFault && sharesSteps) return suspect(how);
      if (killed?.culprit === id) return new EngineError(killed.kind, killed.message);
      if (killed || this.#isClosed || isGpusFault) {
        return new EngineError("interrupted", "the worker was stopped");
      }
      return new EngineError("crashed", `the worker ended (${how})`);
    });
  }

  /**
   * Returns the error for callers that wait for a process that ended before it was ready. The first ends in a row may be
   * bad luck; further ones are the fault of the weights or of the device.
   */
  #lostStart(generation: Generation, how: string, isGpusFault: boolean): EngineError {
    if (generation.isReady || generation.killed || this.#isClosed) {
      return new EngineError("interrupted", "the worker was stopped");
    }
    this.#problem ??= `the worker ended while starting (${how})`;
    const isBadLuck = isGpusFault || ++this.#lostStarts <= MAX_LOST_STARTS;
    return new EngineError(isBadLuck ? "interrupted" : "unusable_model", this.#problem);
  }
}

/** The process died of code for this processor. Its tasks are repeated in a process with plainer code. */
class PlainerCodeTakesOver extends EngineError {}

/** Repeats work whenever a process with plainer code takes the place of the one that ran it. */
async function withPlainerCode<T>(work: () => Promise<T>): Promise<T> {
  while (true) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof PlainerCodeTakesOver)) throw error;
    }
  }
}

/** Returns the error for a chunk that may have ended the process, or another one whose steps were made with its own. */
function suspect(how: string): EngineError {
  const error = new EngineError("interrupted", `the worker ended (${how}) with several chunks`);
  error.isSuspect = true;
  return error;
}

type Task = {
  /** The task's steps are made together with those of others, so it may hang because of them, or they because of it. */
  sharesSteps: boolean;
  found: (regions: SpeechRegion[]) => void;
  heard: OnSpeakersHeard;
  settle: (reply: WorkerReply) => void;
  fail: (error: EngineError) => void;
};

/** Number of no task. */
const NO_CULPRIT = 0;

/** Why the host killed a process, and which task caused it; `NO_CULPRIT`: none did, or one of those that share steps. */
type Killed = { culprit: number; kind: EngineErrorKind; message: string };

/** One worker process from its start to its end, with the tasks that run in it. */
class Generation {
  readonly process: WorkerProcess;
  /** Resolves when the process can take tasks; rejects with an EngineError when it never will. */
  readonly ready = Promise.withResolvers<void>();
  isReady = false;
  /** The process has completed at least one task. */
  hasDelivered = false;
  /** What the process found on the machine when it started; undefined without a recognizer. */
  info: EngineInfo | undefined;
  killed: Killed | undefined;
  /** The process has ended. Its late replies are ignored. */
  isGone = false;
  /** Running tasks by number. */
  readonly #tasks = new Map<number, Task>();

  /**
   * @param spawn starts the process and passes on its replies
   * @param onReply receives the replies until the process is gone
   * @throws what `spawn` throws
   */
  constructor(
    spawn: (onReply: (reply: WorkerReply) => void) => WorkerProcess,
    onReply: (reply: WorkerReply) => void,
  ) {
    // Callers that wait see the rejection. Without any, it must not count as an unhandled one.
    this.ready.promise.catch(() => {});
    this.process = spawn((reply) => {
      if (!this.isGone) onReply(reply);
    });
  }

  running(): number {
    return this.#tasks.size;
  }

  /** Returns how many tasks share steps. */
  sharers(): number {
    return [...this.#tasks.values()].filter(({ sharesSteps }) => sharesSteps).length;
  }

  /** Ends the process. The first reason counts. */
  kill(killed: Killed): void {
    this.killed ??= killed;
    this.process.kill();
  }

  /**
   * Runs one task in the process. On abort it asks the process to stop, and kills it when it does not obey.
   *
   * @param id number of the task; each is used once
   * @throws EngineError: `aborted`, `hung`, `failed`, `crashed`, or `interrupted`; what `send` throws
   */
  run(
    id: number,
    request: HostRequest,
    { signal, timeoutMs, onFound, onHeard }: TaskOptions,
  ): Promise<WorkerReply> {
    if (this.isGone) return Promise.reject(new EngineError("interrupted", "the worker was stopped"));
    const sharesSteps = request.type === "transcribe" && (request.threadGroups ?? 0) > 0;
    const kill = (kind: EngineErrorKind, message: string) => {
      // The first whose time is over need not be the one that hangs.
      const isShared = kind === "hung" && sharesSteps && this.sharers() > 1;
      this.kill({ culprit: isShared ? NO_CULPRIT : id, kind, message });
    };
    const limitMs = Math.min(timeoutMs, LONGEST_TIMER_MS);
    const timers: Timer[] = [setTimeout(() => kill("hung", "the worker did not answer in time"), limitMs)];
    const { promise, resolve, reject } = Promise.withResolvers<WorkerReply>();
    this.#tasks.set(id, {
      sharesSteps,
      found: (regions) => onFound?.(regions),
      heard: (share) => onHeard?.(share),
      settle: resolve,
      fail: reject,
    });
    let unwatch = () => {};
    // Also where sending fails, the rejection has a caller that sees it.
    const ended = promise.finally(() => {
      unwatch();
      for (const timer of timers) clearTimeout(timer);
    });
    try {
      this.process.send({ ...request, id });
      unwatch = onAbort(signal, () => {
        this.process.send({ type: "abort", id });
        timers.push(setTimeout(() => kill("aborted", "aborted"), ABORT_GRACE_MS));
      });
    } catch (error) {
      // The task has ended for its caller, so nothing may end the process because of it.
      this.#tasks.delete(id);
      reject(error);
    }
    return ended;
  }

  /**
   * Passes a reply on to the task that it belongs to.
   *
   * @returns whether the reply is a result, which shows that the process can do its work
   */
  settle(reply: Extract<WorkerReply, { id: number }>): boolean {
    const task = this.#tasks.get(reply.id);
    if (reply.type === "speech_found") {
      task?.found(reply.regions);
      return false;
    }
    if (reply.type === "speakers_heard") {
      task?.heard(reply.share);
      return false;
    }
    this.#tasks.delete(reply.id);
    if (reply.type === "failed") {
      const kind = reply.reason === "aborted" ? "aborted" : "failed";
      task?.fail(new EngineError(kind, reply.reason));
      return false;
    }
    task?.settle(reply);
    return true;
  }

  /**
   * Fails all tasks of a process that has ended.
   *
   * @param error makes the error for a task from its number, and whether it shares steps
   */
  failAll(error: (id: number, sharesSteps: boolean) => EngineError): void {
    for (const [id, task] of this.#tasks) task.fail(error(id, task.sharesSteps));
    this.#tasks.clear();
  }
}

const ENDED_A_WORKER = "a worker ended while it was in use";

type CodeChoiceOptions = {
  /** Folders with GPU backends. */
  backendDirs: string[];
  /** The device that the config asks for; left out: no model is loaded. */
  device?: DevicePreference | undefined;
  brokenVariants: BrokenVariants;
  log: (level: "info" | "warn", message: string, fields: Record<string, unknown>) => void;
};

/**
 * Chooses the native code that the next worker process may use: GPU backends, and code for this kind of processor. Code
 * that ended a process before it delivered anything is replaced by simpler code.
 */
type CodeChoice = {
  /** Returns the backend folders for the next process; none once the GPU was given up. */
  backendDirs(): string[];
  /** Returns the processor variants that the next process must not use. */
  avoidedVariants(): string[];
  isGpuGivenUp(): boolean;
  /** Returns why the processor does the work for which `auto` chose a GPU; undefined: it does not. */
  gpuFailure(): string | undefined;
  /** Returns why each backend folder is unused after the GPU was given up. */
  givenUpBackends(): { path: string; reason: string }[];
  /** Records that a process loaded its model on the processor because the GPU refused it. */
  noteGpuFailure(reason: string): void;
  /** Records that a process completed a task with its code. Later crashes no longer count against that code. */
  prove(generation: Generation): void;
  /**
   * Decides whether a GPU ended a process, and if so gives the GPU up. Only under `auto`: a device that the config
   * names is never replaced.
   *
   * @param device that the last model was loaded on; undefined: none was loaded yet
   */
  blameGpu(generation: Generation, device: string | undefined): boolean;
  /**
   * Decides whether code for this processor ended a process, and if so avoids that code from now on.
   *
   * @returns whether the next process uses plainer code, so that its tasks can be repeated at once
   */
  blameVariant(generation: Generation, exit: WorkerExit, device: string | undefined): boolean;
};

function createCodeChoice(options: CodeChoiceOptions): CodeChoice {
  const { brokenVariants, log } = options;
  const trial = createVariantTrial(brokenVariants);
  let isGpuGivenUp = false;
  let gpuFailure: string | undefined;

  return {
    backendDirs: () => (isGpuGivenUp ? [] : options.backendDirs),
    avoidedVariants: brokenVariants.names,
    isGpuGivenUp: () => isGpuGivenUp,
    gpuFailure: () => gpuFailure,
    givenUpBackends: () => options.backendDirs.map((path) => ({ path, reason: ENDED_A_WORKER })),

    noteGpuFailure(reason) {
      gpuFailure = reason;
    },

    prove({ info }) {
      if (info) trial.prove(info.cpuVariant);
    },

    blameGpu({ isReady, hasDelivered }, device) {
      if (isGpuGivenUp || hasDelivered || options.backendDirs.length === 0) return false;
      if (options.device !== undefined && options.device !== "auto") return false;
      const mayHaveUsedGpu = !isReady || (device !== undefined && device !== "cpu");
      if (!mayHaveUsedGpu) return false;
      isGpuGivenUp = true;
      gpuFailure = ENDED_A_WORKER;
      log("warn", "the worker ended with a GPU backend loaded; the processor takes its place", {});
      return true;
    },

    blameVariant({ info, hasDelivered, process }, exit, device) {
      if (!info || options.device === undefined || hasDelivered) return false;
      // A GPU does most of the work, and its failures end a process, too.
      if (device !== undefined && device !== "cpu" && exit.signal !== "SIGILL") return false;
      const verdict = trial.judge(info, exit.signal);
      const { pid } = process;
      if (verdict.kind === "exonerated") {
        const message = "plainer code for this processor ended a worker, too; the better code is used again";
        log("warn", message, { variants: verdict.variants, used: info.cpuVariant, pid });
      }
      if (verdict.kind !== "plainer") return false;
      const { variant, plainer } = verdict;
      const message = "the worker ended in the code for this processor; plainer code takes its place";
      log("warn", message, { variant, plainer, signal: exit.signal, pid });
      return true;
    },
  };
}

const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 30_000;

/** The pause before the next start of a worker process. It grows with each unexpected end. */
type StartBackoff = {
  /** Makes the next start wait: 250 ms at first, twice as long after each further call, at most 30 s. */
  lengthen(): void;
  /** Makes the pause after the next unexpected end short again. A pause that has begun is kept. */
  reset(): void;
  /** Returns the milliseconds until a process may start; zero or less: it may start now. */
  remainingMs(): number;
};

export function createStartBackoff(): StartBackoff {
  let pauseMs = 0;
  // Not on the clock: where that is put back, no process would start for as long.
  let startAfterMs = 0;
  return {
    lengthen() {
      pauseMs = Math.min(MAX_PAUSE_MS, Math.max(FIRST_PAUSE_MS, pauseMs * 2));
      startAfterMs = performance.now() + pauseMs;
    },
    reset() {
      pauseMs = 0;
    },
    remainingMs: () => startAfterMs - performance.now(),
  };
}
