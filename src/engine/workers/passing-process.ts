import type { WorkerReply } from "../protocol.ts";
import {
  createWorkerHost,
  type HostOptions,
  type HostRequest,
  type RunOptions,
  type WorkerHost,
} from "./worker-host.ts";

/**
 * A worker process that is there only while it is needed: it starts with the first request, has one at a time, and ends when
 * there was none for a while, which frees its memory. Some weights end a process; so nothing else is in it.
 */
export type PassingProcess = {
  /** @throws EngineError as `WorkerHost.request` does */
  request(request: HostRequest, options: Omit<RunOptions, "isAlone">): Promise<WorkerReply>;
  /** Ends the process; a running request rejects with `interrupted`. */
  close(): Promise<void>;
};

/** @param idleMs how long the process stays after its last request; 0: it ends at once */
export function createPassingProcess(hostOptions: HostOptions, idleMs: number): PassingProcess {
  let current: { host: WorkerHost; users: number } | undefined;
  let idle: NodeJS.Timeout | undefined;

  async function end(): Promise<void> {
    const ended = current;
    current = undefined;
    await ended?.host.stop(true);
  }

  return {
    async request(request, options) {
      clearTimeout(idle);
      const used = current ?? { host: createWorkerHost(hostOptions), users: 0 };
      current = used;
      used.users++;
      try {
        return await used.host.request(request, { ...options, isAlone: true });
      } finally {
        if (--used.users === 0 && current === used) {
          if (idleMs === 0) await end();
          // The program does not wait for this process.
          else idle = setTimeout(() => void end(), idleMs).unref();
        }
      }
    },
    async close() {
      clearTimeout(idle);
      await end();
    },
  };
}
