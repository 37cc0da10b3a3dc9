import { engineOf, fileOf, type InstalledModel } from "../../domain/model.ts";
import { noticeOf } from "../../domain/trial.ts";
import { actAs, asUser, ownerOf } from "../../lib/rights.ts";
import type { ModelService, ModelServiceDeps } from "../../services/models/models.ts";
import type { CliContext } from "../frame/context.ts";

/** Opens the models for a command. `tryOutModel` receives each new model before it is installed. */
export async function openModels(
  context: CliContext,
  tryOutModel?: ModelServiceDeps["tryOutModel"],
): Promise<ModelService> {
  const [{ createModelService }, { checkModelFile }, { checkCtcFiles }, services] = await Promise.all([
    import("../../services/models/models.ts"),
    import("../../engine/whisper/whisper-model-file.ts"),
    import("../../engine/ctc/ctc-files.ts"),
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
    checkModelFile,
    checkCtcFiles,
    // Native code comes from the data directory, and runs as its owner.
    ...(tryOutModel ? { tryOutModel: (model) => asUser(owner, () => tryOutModel(model)) } : {}),
    tryOutSpeakerWeights: async (weights) => {
      const { tryOutSpeakerWeights } = await import("./speaker-weights.ts");
      await asUser(owner, () => tryOutSpeakerWeights(config, dataDir, log, weights));
    },
  });
  // `models.dir` may be elsewhere, and root's.
  actAs(ownerOf(service.directory));
  return service;
}

/** Renders an installed model for `--json`, in the words of `GET /v1/models` and with its files. */
export function toJson(service: ModelService, model: InstalledModel) {
  const { capabilities, diarization } = service.describe(model);
  const notice = noticeOf(model);
  return {
    id: model.id,
    object: "model",
    name: model.name,
    version: model.version,
    default: service.findDefault()?.id === model.id,
    default_languages: service.servedLanguages(model),
    languages: model.languages.map(({ code, name, modes, trial }) => ({
      ...{ code, name, modes },
      ...(trial === undefined ? {} : { trial }),
    })),
    capabilities,
    diarization,
    licence: model.licence,
    source: model.source,
    ...(notice === undefined ? {} : { notice }),
    embedded: model.embedded,
    engine: engineOf(model.family),
    family: model.family,
    path: fileOf(model.files, model.parts ? "model" : "weights"),
    bytes: model.bytes,
    sha256: model.sha256,
  };
}
