import type { InstalledModel } from "../../domain/model.ts";
import { noticeOf } from "../../domain/trial.ts";
import type { ModelService } from "../../services/models/models.ts";
import { writtenFormsOf } from "../../services/written-form.ts";
import { requireOrganization } from "../../store/organizations.ts";
import type { HttpDeps } from "../deps.ts";
import { defineKeyedRoutes, operation } from "../route.ts";
import { type Model, ModelList } from "../wire/schemas.ts";

/** Installed models (docs/interface.md section 4.11); needs the scope `models:read`. */
export function modelRoutes({ models, credit, database, config }: HttpDeps) {
  return defineKeyedRoutes("models").get(
    "/v1/models",
    ({ caller }): ModelList => {
      const organization = requireOrganization(database.store, caller.organizationId);
      const pricePaise = credit.priceOf(organization);
      const chosen = models.findDefault();
      return {
        object: "list",
        data: models.list().map((model) => ({
          ...toResponse(models, model, model === chosen, pricePaise),
          languages: model.languages.map(({ code, name, modes }) => ({
            ...{ code, name, modes },
            ...writtenFormsOf(config, code),
          })),
        })),
        ...(config.capabilities.metadata ? { metadata: true } : {}),
      };
    },
    {
      response: { 200: ModelList },
      ...operation({
        id: "listModels",
        summary: "List models, capabilities and limits",
        tag: "Models",
        scope: "models:read",
        errors: [],
        responses: { 200: "Every installed model, the default first." },
      }),
    },
  );
}

function toResponse(
  models: ModelService,
  model: InstalledModel,
  isDefault: boolean,
  pricePaisePerAudioHour: number,
): Omit<Model, "languages"> {
  const { modes, capabilities, diarization, limits } = models.describe(model);
  const { synchronous, asynchronous } = limits;
  const notice = noticeOf(model);
  return {
    id: model.id,
    object: "model",
    name: model.name,
    version: model.version,
    default: isDefault,
    default_languages: models.servedLanguages(model),
    modes,
    capabilities,
    diarization,
    limits: {
      synchronous: {
        max_bytes: synchronous.maxBytes,
        max_duration_seconds: synchronous.maxDurationSeconds,
        timeout_seconds: synchronous.timeoutSeconds,
      },
      asynchronous: {
        max_bytes: asynchronous.maxBytes,
        max_duration_seconds: asynchronous.maxDurationSeconds,
        max_channels: asynchronous.maxChannels,
      },
    },
    price_paise_per_audio_hour: pricePaisePerAudioHour,
    ...(notice === undefined ? {} : { notice }),
  };
}
