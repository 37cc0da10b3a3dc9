import type { Engine } from "../../engine/engine.ts";
import type { EngineModel } from "../../engine/protocol.ts";
import type { PoolStatus } from "../../engine/workers/pool.ts";
import type { Skill } from "../skills.ts";
import type { FleetExecutor } from "./fleet-executor.ts";
import { hasModel, type Registry } from "./registry.ts";

/**
 * Combines the engine of this machine, which verifies recordings and finds speakers, with a fleet, which prepares them
 * and recognizes. This machine prepares where no worker does, and recognizes only when a worker runs on it.
 *
 * @param close ends the fleet's parts on this machine
 */
export function createFleetEngine(
  local: Engine,
  executor: FleetExecutor,
  registry: Registry,
  close: () => Promise<void>,
): Engine {
  return {
    ...local,
    capacity: executor.capacity,
    recognize: executor.recognize,
    elsewhere: executor.preparing,
    async warm(model, signal) {
      await Promise.all([local.warmSpeech(signal), executor.warm(model, signal)]);
    },
    status: () => ({
      ...local.status(),
      models: [...executor.used].map(([hash, model]) => statusOf(hash, model, { registry, executor })),
    }),
    async close() {
      await close();
      await local.close();
    },
  };
}

const WORK_OF: Record<Skill, string> = { words: "give words times", translations: "translate" };

function statusOf(
  hash: string,
  { id }: EngineModel,
  { registry, executor }: { registry: Registry; executor: Pick<FleetExecutor, "waitsFor"> },
): PoolStatus["models"][number] {
  const workers = registry.list().filter((worker) => hasModel(worker, hash));
  const places = registry.places(hash);
  const problemOf = () => {
    if (places === 0) return "no worker of the fleet has it";
    const skill = executor.waitsFor(hash);
    return skill && `no worker of the fleet is new enough to ${WORK_OF[skill]}`;
  };
  return {
    modelId: id,
    state: places > 0 ? "ready" : "starting",
    // Any of the workers may have recognized a chunk, so none of their devices is that of a recording. `fleet list` shows them.
    device: undefined,
    pid: undefined,
    restarts: 0,
    running: workers.reduce((sum, { beat }) => sum + beat.jobs.length, 0),
    problem: problemOf(),
  };
}
