import type { OnSpeakersHeard, WorkerReply } from "../protocol.ts";
import { createWorkerHost, type HostOptions, type HostRequest, type WorkerHost } from "./worker-host.ts";

/** The segmentation model took 0.02 to 0.25 of the audio's time; far beyond that it is stuck. */
const TIMEOUT_FACTOR = 5;
const TIMEOUT_FLOOR_MS = 60_000;

/**
 * Distinguishes speakers with installed weights in a worker process of its own. Some weights
 * end the process. So the process has one recording at a time, and ends with the last one, which frees its memory.
 */
export type NeuralDiarization = {
  /**
   * @param audioMs length of all tracks together
   * @throws EngineError as `WorkerHost.request` does
   */
  request(
    request: HostRequest,
    audioMs: number,
    signal: AbortSignal,
    onHeard?: OnSpeakersHeard,
  ): Promise<WorkerReply>;
  /** Ends the process; a running request rejects with `interrupted`. */
  close(): Promise<void>;
};

export function createNeuralDiarization(hostOptions: HostOptions): NeuralDiarization {
  let current: { host: WorkerHost; users: number } | undefined;

  return {
    async request(request, audioMs, signal, onHeard) {
      const used = current ?? { host: createWorkerHost(hostOptions), users: 0 };
      current = used;
      used.users++;
      try {
        const timeoutMs = TIMEOUT_FLOOR_MS + audioMs * TIMEOUT_FACTOR;
        return await used.host.request(request, {
          signal,
          timeoutMs,
          isAlone: true,
          ...(onHeard ? { onHeard } : {}),
        });
      } finally {
        if (--used.users === 0) {
          current = undefined;
          await used.host.stop(true);
        }
      }
    },
    async close() {
      await current?.host.stop(true);
    },
  };
}
