import { EngineError } from "../protocol.ts";
import { createWorkerHost, type HostOptions, type WorkerHost } from "./worker-host.ts";

/** The processes that find speech and distinguish speakers by their sound. */
export type SpeechProcesses = {
  /**
   * Runs work in the process that has the least. Another process starts when all have work, up to the highest number.
   *
   * @throws EngineError `interrupted` after `close`; what the work throws
   */
  run<T>(work: (host: WorkerHost) => Promise<T>): Promise<T>;
  /**
   * Starts the first process unless it runs.
   *
   * @throws EngineError as `WorkerHost.warm` does
   */
  warm(signal: AbortSignal): Promise<void>;
  /** Ends all processes for good. */
  close(): Promise<void>;
};

type SpeechProcess = { host: WorkerHost; users: number; idleTimer?: NodeJS.Timeout };

/** A process besides the first ends after this time without work. */
const IDLE_MS = 60_000;

/**
 * @param most highest number of processes. The first one stays; each further one is there while it has work
 * @param idleMs replaced in tests
 */
export function createSpeechProcesses(
  hostOptions: HostOptions,
  most: number,
  idleMs = IDLE_MS,
): SpeechProcesses {
  const processes: SpeechProcess[] = [];
  let isClosed = false;

  function leastBusy(): SpeechProcess {
    if (isClosed) throw new EngineError("interrupted", "the engine is closing");
    let chosen = processes[0];
    for (const process of processes) if (process.users < (chosen?.users ?? 0)) chosen = process;
    if (chosen && (chosen.users === 0 || processes.length >= most)) return chosen;
    const added = { host: createWorkerHost(hostOptions), users: 0 };
    processes.push(added);
    return added;
  }

  function becomeIdle(process: SpeechProcess): void {
    if (process === processes[0] || isClosed) return;
    process.idleTimer = setTimeout(() => {
      const index = processes.indexOf(process);
      if (index < 1) return;
      processes.splice(index, 1);
      void process.host.stop(true);
    }, idleMs);
    process.idleTimer.unref();
  }

  return {
    async run(work) {
      const process = leastBusy();
      clearTimeout(process.idleTimer);
      process.users++;
      try {
        return await work(process.host);
      } finally {
        if (--process.users === 0) becomeIdle(process);
      }
    },
    warm: async (signal) => {
      const process = processes[0] ?? leastBusy();
      await process.host.warm(signal);
    },
    async close() {
      isClosed = true;
      for (const { idleTimer } of processes) clearTimeout(idleTimer);
      await Promise.all(processes.map(({ host }) => host.stop(true)));
    },
  };
}
