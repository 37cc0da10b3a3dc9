import { EngineError, type EngineInfo } from "./protocol.ts";
import { hostOptionsOf, type PoolOptions } from "./workers/pool.ts";
import { createWorkerHost } from "./workers/worker-host.ts";

/**
 * Starts a worker process without a model and returns what it finds on this machine, GPU backends included.
 *
 * @throws EngineError when no worker process can be started
 */
export async function probeEngine(options: PoolOptions, signal: AbortSignal): Promise<EngineInfo> {
  const host = createWorkerHost({ ...hostOptionsOf(options), opens: ["whisper"] });
  try {
    for (let attempt = 1; ; attempt++) {
      try {
        await host.warm(signal);
        break;
      } catch (error) {
        // A backend may crash the process. The host then continues without it, or rejects with the reason.
        const isWorthwhile = error instanceof EngineError && error.kind === "interrupted" && !signal.aborted;
        if (!isWorthwhile || attempt === PROBE_ATTEMPTS) throw error;
      }
    }
    return host.status().info ?? NOTHING_FOUND;
  } finally {
    await host.stop(true);
  }
}

const PROBE_ATTEMPTS = 4;
const NOTHING_FOUND: EngineInfo = {
  whisperVersion: "",
  cpuVariant: "",
  plainerVariants: [],
  devices: [],
  backendFailures: [],
};
