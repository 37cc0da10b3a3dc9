import { FAMILIES } from "../families/families.ts";
import { EngineError, type EngineInfo } from "./protocol.ts";
import { hostOptionsOf, type PoolOptions } from "./workers/pool.ts";
import { createWorkerHost } from "./workers/worker-host.ts";

/**
 * Starts a worker process without a model, and returns which devices and GPU backends it finds on this machine.
 *
 * @throws EngineError when no worker process can be started
 */
export async function probeEngine(options: PoolOptions, signal: AbortSignal): Promise<EngineInfo> {
  const host = createWorkerHost({ ...hostOptionsOf(options), opens: probedFamilies() });
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
  libraryVersion: "",
  cpuVariant: "",
  plainerVariants: [],
  devices: [],
  backendFailures: [],
};

/** The family whose library loads the GPU backends. */
const probedFamilies = (): string[] =>
  FAMILIES.list
    .filter(({ mayUseGpu }) => mayUseGpu)
    .map(({ name }) => name)
    .slice(0, 1);
