import type { OnSpeakersHeard, WorkerReply } from "../protocol.ts";
import { createPassingProcess } from "./passing-process.ts";
import type { HostOptions, HostRequest } from "./worker-host.ts";

/** The segmentation model took 0.02 to 0.25 of the audio's time; far beyond that it is stuck. */
const TIMEOUT_FACTOR = 5;
const TIMEOUT_FLOOR_MS = 60_000;

/** Distinguishes speakers with installed weights in a worker process of its own, which ends with the last recording. */
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
  const { request, close } = createPassingProcess(hostOptions, 0);
  return {
    request: (asked, audioMs, signal, onHeard) =>
      request(asked, {
        signal,
        timeoutMs: TIMEOUT_FLOOR_MS + audioMs * TIMEOUT_FACTOR,
        ...(onHeard ? { onHeard } : {}),
      }),
    close,
  };
}
