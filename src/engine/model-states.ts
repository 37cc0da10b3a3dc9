import type { Engine } from "./engine.ts";

type ModelStatus = ReturnType<Engine["status"]>["models"][number];

/** Returns the states of models in memory as JSON, for `shruti status` and the console. Unknown values are left out. */
export function modelStatesJson(models: readonly ModelStatus[]) {
  return models.map((model) => {
    const { modelId, state, device, gpuFailure, pid, restarts, running, problem } = model;
    return {
      id: modelId,
      state,
      ...(device === undefined ? {} : { device }),
      ...(gpuFailure === undefined ? {} : { gpu_failure: gpuFailure }),
      ...(pid === undefined ? {} : { pid }),
      restarts,
      running,
      ...(problem === undefined ? {} : { problem }),
      ...draftOf(model),
    };
  });
}

/** What the model's draft model has done. */
function draftOf({ draftId, draft, draftFailure }: ModelStatus) {
  if (draftId === undefined) return {};
  const { drafted = 0, accepted = 0 } = draft ?? {};
  const problem = draftFailure === undefined ? {} : { problem: draftFailure };
  return { draft: { id: draftId, drafted_tokens: drafted, accepted_tokens: accepted, ...problem } };
}
