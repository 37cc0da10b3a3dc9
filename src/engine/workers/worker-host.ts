import { createGate } from "../../admission/gate.ts";
import { EngineError, type WorkerReply } from "../protocol.ts";
import { type HostRequest, runTask, type TaskOptions } from "./worker-generation.ts";
import {
  createWorkerLifecycle,
  type HostOptions,
  type HostStatus,
  PlainerCodeTakesOver,
} from "./worker-lifecycle.ts";

export type { HostRequest } from "./worker-generation.ts";
export type { HostOptions, HostState, HostStatus } from "./worker-lifecycle.ts";

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
  const lifecycle = createWorkerLifecycle(options);
  const gate = createGate();
  let nextId = 1;

  return {
    async request(request, runOptions) {
      const leave = await enter(runOptions);
      try {
        return await withPlainerCode(async () =>
          runTask(await lifecycle.alive(runOptions.signal), nextId++, request, runOptions),
        );
      } finally {
        leave();
      }
    },
    async warm(signal) {
      await withPlainerCode(() => lifecycle.alive(signal));
    },
    status: lifecycle.status,
    stop: lifecycle.stop,
  };

  async function enter({ isAlone, signal }: RunOptions): Promise<() => void> {
    try {
      return await gate.enter(isAlone, signal);
    } catch (error) {
      throw new EngineError("aborted", "aborted", error);
    }
  }
}

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
