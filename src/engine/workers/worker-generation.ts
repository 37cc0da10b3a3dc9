import {
  EngineError,
  type EngineErrorKind,
  type EngineInfo,
  type OnSpeakersHeard,
  type OnSpeechFound,
  type SpeechRegion,
  type WorkerReply,
  type WorkerRequest,
} from "../protocol.ts";
import type { WorkerProcess } from "./worker-process.ts";

/**
 * An abort that the worker process does not obey within this time is enforced (docs/decisions/transcriptions.md,
 * "Cancel, delete, retry": 2 s).
 */
const ABORT_GRACE_MS = 1_700;
/** Timers of more milliseconds than this fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** A request for work in a worker process; `runTask` adds the number under which the process answers. */
export type HostRequest =
  | Omit<Extract<WorkerRequest, { type: "transcribe" }>, "id">
  | Omit<Extract<WorkerRequest, { type: "detect_speech" }>, "id">
  | Omit<Extract<WorkerRequest, { type: "diarize" }>, "id">;

export type TaskOptions = {
  signal: AbortSignal;
  /** Milliseconds after which the process counts as hung and is killed. */
  timeoutMs: number;
  /** Receives the regions that are final while the detector still reads the file. */
  onFound?: OnSpeechFound;
  /** Receives how much of the audio was heard while the nets hear the rest. */
  onHeard?: OnSpeakersHeard;
};

type Task = {
  /** The task's steps are made together with those of others, so it may hang because of them, or they because of it. */
  sharesSteps: boolean;
  found: (regions: SpeechRegion[]) => void;
  heard: OnSpeakersHeard;
  settle: (reply: WorkerReply) => void;
  fail: (error: EngineError) => void;
};

/** Number of no task. */
export const NO_CULPRIT = 0;

/** Why the host killed a process, and which task caused it; `NO_CULPRIT`: none did, or one of those that share steps. */
export type Killed = { culprit: number; kind: EngineErrorKind; message: string };

/** One worker process from its start to its end. When it ends, the host starts the next generation. */
export type WorkerGeneration = {
  process: WorkerProcess;
  /** Running tasks by number. */
  tasks: Map<number, Task>;
  /** Resolves when the process can take tasks; rejects with an EngineError when it never will. */
  ready: PromiseWithResolvers<void>;
  isReady: boolean;
  /** The process has completed at least one task. */
  hasDelivered: boolean;
  /** What the process found on the machine when it started; undefined without a recognizer. */
  info: EngineInfo | undefined;
  killed: Killed | undefined;
  /** The process has ended. Its late replies are ignored. */
  isGone: boolean;
};

/**
 * Starts a process.
 *
 * @param spawn starts it and passes on its replies
 * @param onReply receives the replies until the process is gone
 * @throws what `spawn` throws
 */
export function startGeneration(
  spawn: (onReply: (reply: WorkerReply) => void) => WorkerProcess,
  onReply: (generation: WorkerGeneration, reply: WorkerReply) => void,
): WorkerGeneration {
  const ready = Promise.withResolvers<void>();
  // Callers that wait see the rejection. Without any, it must not count as an unhandled one.
  ready.promise.catch(() => {});
  const generation: WorkerGeneration = {
    process: spawn((reply) => {
      if (!generation.isGone) onReply(generation, reply);
    }),
    tasks: new Map(),
    ready,
    isReady: false,
    hasDelivered: false,
    info: undefined,
    killed: undefined,
    isGone: false,
  };
  return generation;
}

/**
 * Runs one task in a process. On abort it asks the process to stop, and kills it when it does not obey.
 *
 * @param id number of the task; each is used once
 * @throws EngineError: `aborted`, `hung`, `failed`, `crashed`, or `interrupted`
 */
export function runTask(
  generation: WorkerGeneration,
  id: number,
  request: HostRequest,
  { signal, timeoutMs, onFound, onHeard }: TaskOptions,
): Promise<WorkerReply> {
  const sharesSteps = request.type === "transcribe" && (request.lanes ?? 0) > 0;
  const kill = (kind: EngineErrorKind, message: string) => {
    // The first whose time is over need not be the one that hangs.
    const isShared = kind === "hung" && sharesSteps && sharersIn(generation) > 1;
    generation.killed ??= { culprit: isShared ? NO_CULPRIT : id, kind, message };
    generation.process.kill();
  };
  return new Promise<WorkerReply>((resolve, reject) => {
    if (generation.isGone) return reject(new EngineError("interrupted", "the worker was stopped"));
    const limitMs = Math.min(timeoutMs, LONGEST_TIMER_MS);
    const timers: Timer[] = [setTimeout(() => kill("hung", "the worker did not answer in time"), limitMs)];
    const onAbort = () => {
      generation.process.send({ type: "abort", id });
      timers.push(setTimeout(() => kill("aborted", "aborted"), ABORT_GRACE_MS));
    };
    const cleanUp = () => {
      for (const timer of timers) clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
    };
    generation.tasks.set(id, {
      sharesSteps,
      found: (regions) => onFound?.(regions),
      heard: (share) => onHeard?.(share),
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
    generation.process.send({ ...request, id });
    if (signal.aborted) onAbort();
  });
}

/** Returns how many tasks of a process share steps. */
export function sharersIn({ tasks }: WorkerGeneration): number {
  return [...tasks.values()].filter(({ sharesSteps }) => sharesSteps).length;
}

/**
 * Passes a reply on to the task that it belongs to.
 *
 * @returns whether the reply is a result, which shows that the process can do its work
 */
export function settleTask(
  { tasks }: WorkerGeneration,
  reply: Extract<WorkerReply, { id: number }>,
): boolean {
  const task = tasks.get(reply.id);
  if (reply.type === "speech_found") {
    task?.found(reply.regions);
    return false;
  }
  if (reply.type === "speakers_heard") {
    task?.heard(reply.share);
    return false;
  }
  tasks.delete(reply.id);
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
export function failTasks(
  { tasks }: WorkerGeneration,
  error: (id: number, sharesSteps: boolean) => EngineError,
): void {
  for (const [id, task] of tasks) task.fail(error(id, task.sharesSteps));
  tasks.clear();
}
