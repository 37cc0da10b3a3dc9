import type { ModelFiles } from "../domain/model.ts";
import { type BrokenVariants, createBrokenVariants, createVariantTrial } from "./cpu-variants.ts";
import { createGate } from "./gate.ts";
import type { NativeFiles } from "./native-files.ts";
import {
  type DevicePreference,
  EngineError,
  type EngineErrorKind,
  type EngineFacts,
  type OnSpeechFound,
  type SpeechRegion,
  type WorkerPart,
  type WorkerReply,
  type WorkerRequest,
} from "./protocol.ts";
import { spawnWorker, type WorkerExit, type WorkerProcess } from "./worker-process.ts";

/** An abort that has not been heard after this time is enforced (docs/decisions.md section 4: within 2 s). */
const ABORT_GRACE_MS = 1_700;
const FIRST_BACKOFF_MS = 250;
const MAX_BACKOFF_MS = 30_000;
/** A worker that cannot even start or load in this time is stuck. */
const START_TIMEOUT_MS = 10 * 60_000;
/** Ends of a worker before it was ready, one after another, that may be bad luck. */
const MAX_LOST_STARTS = 2;
const ENDED_A_WORKER = "a worker ended while it was in use";
/** Timers of more milliseconds than this fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export type HostState = "stopped" | "starting" | "ready" | "backoff";

export type HostOptions = {
  nativeFiles: NativeFiles;
  backendDirs: string[];
  /** What the worker opens before it has started. */
  opens: WorkerPart[];
  /** The model to load, of a family that is opened; without it the worker recognizes nothing. */
  load?: { files: ModelFiles; device: DevicePreference };
  /** What is known of code for this processor that ends workers; shared by the hosts of a program. */
  brokenVariants?: BrokenVariants;
  log: (level: "info" | "warn", message: string, fields: Record<string, unknown>) => void;
  /** Starts a process; replaced in tests. */
  spawn?: typeof spawnWorker;
};

export type HostStatus = {
  state: HostState;
  device: string | undefined;
  /** Times that the worker ended unexpectedly. */
  restarts: number;
  pid: number | undefined;
  running: number;
  facts: EngineFacts | undefined;
  /** Why the last start failed; undefined once one has succeeded. */
  problem: string | undefined;
  /** Why the processor does what `auto` had chosen a GPU for. */
  gpuFailure: string | undefined;
};

type Task = {
  found: (regions: SpeechRegion[]) => void;
  settle: (reply: WorkerReply) => void;
  fail: (error: EngineError) => void;
};

export type HostRequest =
  | Omit<Extract<WorkerRequest, { type: "transcribe" }>, "id">
  | Omit<Extract<WorkerRequest, { type: "detect_speech" }>, "id">
  | Omit<Extract<WorkerRequest, { type: "diarize" }>, "id">;

export type RunOptions = {
  signal: AbortSignal;
  timeoutMs: number;
  isAlone: boolean;
  /** Told of speech while more of it is being looked for. */
  onFound?: OnSpeechFound;
};
export type WorkerHost = ReturnType<typeof createWorkerHost>;

type Life = {
  process: WorkerProcess;
  tasks: Map<number, Task>;
  /** Settles when the worker can take tasks; rejects with an EngineError when it never will. */
  ready: PromiseWithResolvers<void>;
  isReady: boolean;
  /** It has done something it was asked for. */
  hasDelivered: boolean;
  /** What it found when it started. */
  facts: EngineFacts | undefined;
  /** Why we killed it, and whose fault that was. */
  killed: { culprit: number; kind: EngineErrorKind; message: string } | undefined;
  isGone: boolean;
};

/** The worker died of code for this processor. Another with plainer code takes its work, which is not to blame. */
class PlainerCodeTakesOver extends EngineError {}

/**
 * Keeps one worker process at work: starts it when it is needed, notices its death, tells whose work died with
 * it, and starts the next one after a growing pause.
 */
export function createWorkerHost(options: HostOptions) {
  const spawn = options.spawn ?? spawnWorker;
  const gate = createGate();
  const brokenVariants = options.brokenVariants ?? createBrokenVariants();
  const trial = createVariantTrial(brokenVariants);
  let life: Life | undefined;
  let nextId = 1;
  let backoffMs = 0;
  let startAfter = 0;
  let lostStarts = 0;
  let facts: EngineFacts | undefined;
  let device: string | undefined;
  let problem: string | undefined;
  let restarts = 0;
  let isGpuGivenUp = false;
  let gpuFailure: string | undefined;
  let isClosed = false;

  /** The requests a worker begins with; a GPU that breaks workers is left alone where nobody insists on it. */
  function beginning(): WorkerRequest[] {
    const { nativeFiles, load, opens } = options;
    const backendDirs = isGpuGivenUp ? [] : options.backendDirs;
    const avoidedVariants = brokenVariants.names();
    const start = { type: "start", nativeFiles, backendDirs, avoidedVariants, opens } as const;
    if (!load) return [start];
    return [start, { type: "load", ...load, ...(isGpuGivenUp ? { device: "cpu" } : {}) }];
  }

  /** @throws EngineError `unusable_model` when no process can be started */
  function start(): Life {
    const ready = Promise.withResolvers<void>();
    // Whoever waits sees the rejection; nobody waiting is no second failure.
    ready.promise.catch(() => {});
    const process = spawnOrExplain((reply) => hear(current, reply));
    const current: Life = {
      process,
      tasks: new Map(),
      ready,
      isReady: false,
      hasDelivered: false,
      facts: undefined,
      killed: undefined,
      isGone: false,
    };
    for (const request of beginning()) process.send(request);
    const stuck = setTimeout(() => process.kill(), START_TIMEOUT_MS);
    const calm = () => clearTimeout(stuck);
    void ready.promise.then(calm, calm);
    void process.exited.then((exit) => end(current, exit));
    return current;
  }

  function spawnOrExplain(onReply: (reply: WorkerReply) => void): WorkerProcess {
    try {
      return spawn(onReply, (line) => options.log("warn", "worker wrote to standard error", { line }));
    } catch (error) {
      pause();
      problem = `no worker can be started: ${error instanceof Error ? error.message : String(error)}`;
      throw new EngineError("unusable_model", problem, error);
    }
  }

  function pause(): void {
    backoffMs = Math.min(MAX_BACKOFF_MS, Math.max(FIRST_BACKOFF_MS, backoffMs * 2));
    startAfter = Date.now() + backoffMs;
  }

  function becomeReady(current: Life): void {
    lostStarts = 0;
    problem = undefined;
    current.isReady = true;
    current.ready.resolve();
  }

  function hear(current: Life, reply: WorkerReply): void {
    if (current.isGone) return;
    switch (reply.type) {
      case "started":
        current.facts = reply.engine;
        if (reply.engine) noteFacts(reply.engine);
        if (!options.load) becomeReady(current);
        return;
      case "loaded": {
        device = reply.device;
        const { pid } = current.process;
        if (reply.gpuFailure !== undefined) {
          const reason = reply.gpuFailure;
          gpuFailure = reason;
          options.log("warn", "the GPU cannot be used, the processor takes its place", { reason, pid });
        }
        options.log("info", "model loaded", { device: reply.device, pid });
        becomeReady(current);
        return;
      }
      case "unusable":
        problem = reply.reason;
        current.ready.reject(new EngineError("unusable_model", reply.reason));
        current.process.kill();
        return;
      default:
        hearOfTask(current, reply);
    }
  }

  function noteFacts(found: EngineFacts): void {
    if (facts === undefined) {
      for (const { path, reason } of found.backendFailures) {
        options.log("warn", "a GPU backend cannot be used", { path, reason });
      }
    }
    const broken = options.backendDirs.map((path) => ({ path, reason: ENDED_A_WORKER }));
    facts = isGpuGivenUp ? { ...found, backendFailures: broken } : found;
  }

  function hearOfTask(current: Life, reply: Extract<WorkerReply, { id: number }>): void {
    const task = current.tasks.get(reply.id);
    if (reply.type === "speech_found") {
      task?.found(reply.regions);
      return;
    }
    current.tasks.delete(reply.id);
    if (reply.type === "failed") {
      const kind = reply.reason === "aborted" ? "aborted" : "failed";
      task?.fail(new EngineError(kind, reply.reason));
      return;
    }
    backoffMs = 0;
    current.hasDelivered = true;
    if (current.facts) trial.prove(current.facts.cpuVariant);
    task?.settle(reply);
  }

  function end(current: Life, exit: WorkerExit): void {
    current.isGone = true;
    if (life === current) life = undefined;
    const how = exit.signal ?? `status ${exit.code}`;
    const { killed } = current;
    if (!killed || killed.kind === "hung") restarts++;
    const isUnexpected = !killed && !isClosed;
    if (isUnexpected) {
      options.log("warn", "worker ended", { pid: current.process.pid, how, tasks: current.tasks.size });
    }
    const isGpusFault = !killed && blameGpu(current);
    const takesPlainerCode = isUnexpected && !isGpusFault && blameVariant(current, exit);
    // Another code, another worker: there is nothing to wait for.
    if (isUnexpected && !takesPlainerCode) pause();
    const handover = new PlainerCodeTakesOver("interrupted", `the worker ended (${how})`);
    current.ready.reject(takesPlainerCode ? handover : lostStart(current, how, isGpusFault));
    for (const [id, task] of current.tasks) {
      if (takesPlainerCode) {
        task.fail(handover);
        continue;
      }
      if (killed?.culprit === id) task.fail(new EngineError(killed.kind, killed.message));
      else if (killed || isClosed || isGpusFault)
        task.fail(new EngineError("interrupted", "the worker was stopped"));
      else task.fail(new EngineError("crashed", `the worker ended (${how})`));
    }
    current.tasks.clear();
  }

  /** Before it was ready: bad luck at first, as when memory was short; then it is the weights or the device. */
  function lostStart(current: Life, how: string, isGpusFault: boolean): EngineError {
    if (current.isReady || current.killed || isClosed)
      return new EngineError("interrupted", "the worker was stopped");
    problem ??= `the worker ended while starting (${how})`;
    const isBadLuck = isGpusFault || ++lostStarts <= MAX_LOST_STARTS;
    return new EngineError(isBadLuck ? "interrupted" : "unusable_model", problem);
  }

  /** A worker that died with a GPU before it delivered anything: the next one goes without, under `auto`. */
  function blameGpu(current: Life): boolean {
    if (isGpuGivenUp || current.hasDelivered || problem !== undefined) return false;
    if (options.backendDirs.length === 0 || (options.load && options.load.device !== "auto")) return false;
    const mayHaveUsedGpu = !current.isReady || (device !== undefined && device !== "cpu");
    if (!mayHaveUsedGpu) return false;
    isGpuGivenUp = true;
    gpuFailure = ENDED_A_WORKER;
    options.log("warn", "the worker ended with a GPU backend loaded; the processor takes its place", {});
    return true;
  }

  /** A worker that died of this processor's code before it decoded anything: the next one takes plainer code. */
  function blameVariant({ facts: used, hasDelivered, process }: Life, exit: WorkerExit): boolean {
    if (!used || !options.load || hasDelivered) return false;
    // A GPU does most of the work, and what goes wrong there ends a worker, too.
    if (device !== undefined && device !== "cpu" && exit.signal !== "SIGILL") return false;
    const verdict = trial.judge(used, exit.signal);
    const { pid } = process;
    if (verdict.kind === "exonerated") {
      const message = "plainer code for this processor ended a worker, too; the better code is used again";
      options.log("warn", message, { variants: verdict.variants, used: used.cpuVariant, pid });
    }
    if (verdict.kind !== "plainer") return false;
    const { variant, plainer } = verdict;
    const message = "the worker ended in the code for this processor; plainer code takes its place";
    options.log("warn", message, { variant, plainer, signal: exit.signal, pid });
    return true;
  }

  /** Does what needs a worker, again with plainer code as often as the code is to blame. */
  async function withPlainerCode<T>(work: () => Promise<T>): Promise<T> {
    while (true) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof PlainerCodeTakesOver)) throw error;
      }
    }
  }

  /** The living worker, or a new one once its pause is over. */
  async function alive(signal: AbortSignal): Promise<Life> {
    while (true) {
      if (isClosed) throw new EngineError("interrupted", "the engine is closing");
      if (signal.aborted) throw new EngineError("aborted", "aborted");
      const waitMs = startAfter - Date.now();
      if (life || waitMs <= 0) break;
      await Bun.sleep(Math.min(waitMs, 100));
    }
    life ??= start();
    const current = life;
    await orAborted(current.ready.promise, signal);
    return current;
  }

  function run(
    current: Life,
    request: HostRequest,
    { signal, timeoutMs, onFound }: RunOptions,
  ): Promise<WorkerReply> {
    const id = nextId++;
    const kill = (kind: EngineErrorKind, message: string) => {
      current.killed ??= { culprit: id, kind, message };
      current.process.kill();
    };
    return new Promise<WorkerReply>((resolve, reject) => {
      if (current.isGone) return reject(new EngineError("interrupted", "the worker was stopped"));
      const patience = Math.min(timeoutMs, LONGEST_TIMER_MS);
      const timers: Timer[] = [setTimeout(() => kill("hung", "the worker did not answer in time"), patience)];
      const onAbort = () => {
        current.process.send({ type: "abort", id });
        timers.push(setTimeout(() => kill("aborted", "aborted"), ABORT_GRACE_MS));
      };
      const cleanUp = () => {
        for (const timer of timers) clearTimeout(timer);
        signal.removeEventListener("abort", onAbort);
      };
      current.tasks.set(id, {
        found: (regions) => onFound?.(regions),
        settle: (reply) => {
          cleanUp();
          resolve(reply);
        },
        fail: (error) => {
          cleanUp();
          reject(error);
        },
      });
      signal.addEventListener("abort", onAbort, { once: true });
      current.process.send({ ...request, id });
      if (signal.aborted) onAbort();
    });
  }

  async function enter({ isAlone, signal }: RunOptions): Promise<() => void> {
    try {
      return await gate.enter(isAlone, signal);
    } catch (error) {
      throw new EngineError("aborted", "aborted", error);
    }
  }

  function stateNow(): HostState {
    if (life) return life.isReady ? "ready" : "starting";
    return Date.now() < startAfter ? "backoff" : "stopped";
  }

  return {
    /**
     * Runs one task in the worker.
     * @throws EngineError
     */
    async request(request: HostRequest, runOptions: RunOptions): Promise<WorkerReply> {
      const leave = await enter(runOptions);
      try {
        return await withPlainerCode(async () => run(await alive(runOptions.signal), request, runOptions));
      } finally {
        leave();
      }
    },

    /** Starts the worker and loads its model now; rejects with an EngineError when that fails. */
    async warm(signal: AbortSignal): Promise<void> {
      await withPlainerCode(() => alive(signal));
    },

    status: (): HostStatus => ({
      state: stateNow(),
      device,
      restarts,
      pid: life?.process.pid,
      running: life?.tasks.size ?? 0,
      facts,
      problem,
      gpuFailure,
    }),

    /** Ends the worker; what runs in it is interrupted. A later request starts a new one unless closed for good. */
    async stop(forGood: boolean): Promise<void> {
      isClosed ||= forGood;
      const current = life;
      if (!current) return;
      current.killed ??= { culprit: 0, kind: "interrupted", message: "the worker was stopped" };
      current.process.kill();
      await current.process.exited;
    },
  };
}

/** Waits no longer than the signal allows; what is waited for goes on by itself. */
function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(new EngineError("aborted", "aborted"));
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
    if (signal.aborted) onAbort();
  });
}
