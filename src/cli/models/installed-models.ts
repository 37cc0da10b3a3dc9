import { actAs, asUser, ownerOf } from "../../lib/rights.ts";
import type { ModelService, ModelServiceDeps } from "../../services/models/models.ts";
import type { CliContext } from "../frame/context.ts";

/** Opens the models for a command. `tryOutModel` receives each new model before it is installed. */
export async function openModels(
  context: CliContext,
  tryOutModel?: ModelServiceDeps["tryOutModel"],
): Promise<ModelService> {
  const [{ createModelService }, services] = await Promise.all([
    import("../../services/models/models.ts"),
    context.openServices(),
  ]);
  const { database, config, dataDir, log, clock } = services;
  const { ownerOfData } = await import("../../services/data-owner.ts");
  const owner = ownerOfData(dataDir);
  const service = await createModelService({
    database,
    config,
    dataDir,
    log,
    clock,
    // Native code comes from the data directory, and runs as its owner.
    ...(tryOutModel ? { tryOutModel: (model) => asUser(owner, () => tryOutModel(model)) } : {}),
    tryOutSpeakerWeights: async (weights) => {
      const { tryOutSpeakerWeights } = await import("./speaker-weights.ts");
      await asUser(owner, () => tryOutSpeakerWeights(config, dataDir, log, weights));
    },
    tryOutPunctuation: async (files) => {
      const { tryOutPunctuation } = await import("./punctuation.ts");
      await asUser(owner, () => tryOutPunctuation(config, dataDir, log, files));
    },
  });
  // `models.dir` may be elsewhere, and root's.
  actAs(ownerOf(service.directory));
  return service;
}
