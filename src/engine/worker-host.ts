import { createGate } from "./gate.ts";
import type { NativeFiles } from "./native-files.ts";
import {
  type DevicePreference,
  EngineError,
  type EngineErrorKind,
  type EngineFacts,
  type WorkerReply,
  type WorkerRequest,
} from "./protocol.ts";
import { spawnWorker, type WorkerExit, type WorkerProcess } from "./worker-process.ts";

/** An abort that has not been heard after this time is enforced (decisions.md section 4: within 2 s). */
const ABORT_GRACE_MS = 1_700;
const FIRST_BACKOFF_MS = 250;
const MAX_BACKOFF_MS = 30_000;
/** A worker that cannot even start or load in this time is stuck. */
const START_TIMEOUT_MS = 10 * 60_000;

export type HostState = "stopped" | "starting" | "ready" | "backoff";

export type HostOptions = {
  nativeFiles: NativeFiles;
  backendDirs: string[];
  /** The weights to load; without them the worker only finds speech. */
  load?: { weightsPath: string; device: DevicePreference };
  log: (level: "info" | "warn", message: string, fields: Record<string, unknown>) => void;
  /** Starts a process; replaced in tests. */
  spawn?: typeof spawnWorker;
};

type Task = {
  settle: (reply: WorkerReply) => void;
  fail: (error: EngineError) => void;
};

export type HostRequest =
  | Omit<Extract<WorkerRequest, { type: "transcribe" }>, "id">
  | Omit<Extract<WorkerRequest, { type: "detect_speech" }>, "id">;

export type RunOptions = { signal: AbortSignal; timeoutMs: number; isAlone: boolean };
export type WorkerHost = ReturnType<typeof createWorkerHost>;

type Life = {
  process: WorkerProcess;
  tasks: Map<number, Task>;
  /** Settles when the worker can take tasks; rejects with an EngineError when it never will. */
  ready: Promise<void>;
  /** Why we killed it, and whose fault that was. */
  killed: { culprit: number; kind: EngineErrorKind; message: string } | undefined;
  isGone: boolean;
};

/**
 * Keeps one worker process at work: starts it when it is needed, notices its death, tells whose work died with
 * it, and starts the next one after a growing pause.
 */
export function createWorkerHost(options: HostOptions) {
  const spawn = options.spawn ?? spawnWorker;
  const gate = createGate();
  let life: Life | undefined;
  let nextId = 1;
  let backoffMs = 0;
  let startAfter = 0;
  let facts: EngineFacts | undefined;
  let device: string | undefined;
  let state: HostState = "stopped";
  let restarts = 0;
  let isClosed = false;

  function start(): Life {
    const ready = Promise.withResolvers<void>();
    // Whoever waits sees the rejection; nobody waiting is no second failure.
    ready.promise.catch(() => {});
    const tasks = new Map<number, Task>();
    state = "starting";
    const process = spawn(
      (reply) => hear(current, reply, ready),
      (line) => options.log("warn", "worker wrote to standard error", { line }),
    );
    const current: Life = { process, tasks, ready: ready.promise, killed: undefined, isGone: false };
    process.send({ type: "start", nativeFiles: options.nativeFiles, backendDirs: options.backendDirs });
    if (options.load) process.send({ type: "load", ...options.load });
    const stuck = setTimeout(() => process.kill(), START_TIMEOUT_MS);
    void ready.promise.then(
      () => clearTimeout(stuck),
      () => clearTimeout(stuck),
    );
    void process.exited.then((exit) => {
      clearTimeout(stuck);
      end(current, exit, ready.reject);
    });
    return current;
  }

  function becomeReady(ready: PromiseWithResolvers<void>): void {
    state = "ready";
    ready.resolve();
  }

  function hear(current: Life, reply: WorkerReply, ready: PromiseWithResolvers<void>): void {
    if (current.isGone) return;
    switch (reply.type) {
      case "started":
        facts = reply.engine;
        if (!options.load) becomeReady(ready);
        return;
      case "loaded":
        device = reply.device;
        options.log("info", "model loaded", { device: reply.device, pid: current.process.pid });
        becomeReady(ready);
        return;
      case "unusable":
        ready.reject(new EngineError("unusable_model", reply.reason));
        return;
      default: {
        const task = current.tasks.get(reply.id);
        current.tasks.delete(reply.id);
        if (reply.type === "failed") {
          const kind = reply.reason === "aborted" ? "aborted" : "failed";
          task?.fail(new EngineError(kind, reply.reason));
        } else {
          backoffMs = 0;
          task?.settle(reply);
        }
      }
    }
  }

  function end(current: Life, exit: WorkerExit, rejectReady: (error: EngineError) => void): void {
    current.isGone = true;
    if (life === current) life = undefined;
    state = "stopped";
    const how = exit.signal ?? `status ${exit.code}`;
    rejectReady(new EngineError("unusable_model", `the worker ended while starting (${how})`));
    const { killed } = current;
    if (!killed && !isClosed) {
      restarts++;
      backoffMs = Math.min(MAX_BACKOFF_MS, Math.max(FIRST_BACKOFF_MS, backoffMs * 2));
      startAfter = Date.now() + backoffMs;
      state = "backoff";
      options.log("warn", "worker ended", { pid: current.process.pid, how, tasks: current.tasks.size });
    }
    for (const [id, task] of current.tasks) {
      if (killed?.culprit === id) task.fail(new EngineError(killed.kind, killed.message));
      else if (killed || isClosed) task.fail(new EngineError("interrupted", "the worker was stopped"));
      else task.fail(new EngineError("crashed", `the worker ended (${how})`));
    }
    current.tasks.clear();
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
    await current.ready;
    return current;
  }

  function run(current: Life, request: HostRequest, { signal, timeoutMs }: RunOptions): Promise<WorkerReply> {
    const id = nextId++;
    const kill = (kind: EngineErrorKind, message: string) => {
      current.killed ??= { culprit: id, kind, message };
      current.process.kill();
    };
    return new Promise<WorkerReply>((resolve, reject) => {
      const timers: Timer[] = [
        setTimeout(() => kill("hung", "the worker did not answer in time"), timeoutMs),
      ];
      const onAbort = () => {
        current.process.send({ type: "abort", id });
        timers.push(setTimeout(() => kill("aborted", "aborted"), ABORT_GRACE_MS));
      };
      const cleanUp = () => {
        for (const timer of timers) clearTimeout(timer);
        signal.removeEventListener("abort", onAbort);
      };
      current.tasks.set(id, {
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
      if (current.isGone) return kill("interrupted", "the worker was stopped");
      current.process.send({ ...request, id });
      if (signal.aborted) onAbort();
    });
  }

  return {
    /**
     * Runs one task in the worker.
     * @throws EngineError
     */
    async request(request: HostRequest, runOptions: RunOptions): Promise<WorkerReply> {
      const leave = await gate.enter(runOptions.isAlone);
      try {
        return await run(await alive(runOptions.signal), request, runOptions);
      } finally {
        leave();
      }
    },

    /** Starts the worker and loads its model now; rejects with an EngineError when that fails. */
    async warm(signal: AbortSignal): Promise<void> {
      await alive(signal);
    },

    status: () => ({
      state,
      device,
      restarts,
      pid: life?.process.pid,
      running: life?.tasks.size ?? 0,
      facts,
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
