import type { Engine } from "./engine.ts";

type ModelStatus = ReturnType<Engine["status"]>["models"][number];

/** Returns the states of models in memory as JSON, for `shruti status` and the console. Unknown values are left out. */
export function modelStatesJson(models: readonly ModelStatus[]) {
  return models.map(({ modelId, state, device, gpuFailure, pid, restarts, running, problem }) => ({
    id: modelId,
    state,
    ...(device === undefined ? {} : { device }),
    ...(gpuFailure === undefined ? {} : { gpu_failure: gpuFailure }),
    ...(pid === undefined ? {} : { pid }),
    restarts,
    running,
    ...(problem === undefined ? {} : { problem }),
  }));
}
