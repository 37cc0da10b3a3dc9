import type { Config } from "../../config/schema.ts";
import type { Caller } from "../../domain/api-key.ts";
import { AppError } from "../../domain/errors.ts";
import type { Task } from "../../domain/transcription.ts";
import { isSwitchedOn } from "../../services/models/model-description.ts";
import {
  type Admitted,
  type Attendance,
  RECORDING_ERRORS,
} from "../../services/transcriptions/synchronous.ts";
import { findProject } from "../../store/projects.ts";
import type { HttpDeps } from "../deps.ts";
import type { FormReceiver } from "../form-receiver.ts";
import { defineKeyedRoutes, operation } from "../route.ts";
import { idempotencyKeyOf } from "../wire/idempotency.ts";
import type { ReceivedForm } from "../wire/multipart.ts";
import { MAX_JSON_BYTES } from "../wire/parse.ts";
import { ownFields } from "../wire/requests.ts";
import { METADATA_FIELD } from "../wire/schemas.ts";
import { answerOf } from "./answers.ts";
import { createModelNames, toModel } from "./model-names.ts";
import {
  type CanTimeWords,
  ignoredFieldsOf,
  LIST_FIELDS,
  MAX_FIELD_BYTES,
  type Wanted,
  wantedOf,
} from "./parameters.ts";
import { OpenAiForm, OpenAiModel, OpenAiModelList, OpenAiTranscription } from "./schemas.ts";
import { streamText } from "./stream.ts";

/** Addresses whose clients are OpenAI's. */
export const OPENAI_PREFIX = "/openai/v1";

/** Answers that are no JSON. */
const OTHER_ANSWERS = {
  "text/plain": "`text`, `srt` and `vtt`.",
  "text/event-stream": "With `stream`: `transcript.text.delta` and `transcript.text.done`.",
};

const TRANSCRIBE = operation({
  id: "openaiTranscribe",
  summary: "Transcribe as OpenAI's clients do",
  description:
    "Short recordings take a synchronous place, longer ones wait in the queue. `x-transcription-id` names the transcription, `x-transcription-state` is `partial` where a stretch has no text, `x-ignored-parameters` names what was ignored.",
  tag: "OpenAI",
  scope: "transcriptions:write",
  errorShape: "openai",
  acceptsIdempotencyKey: true,
  multipart: OpenAiForm,
  // `not_found`: an unknown model.
  errors: ["not_found", ...RECORDING_ERRORS, "too_many_queued"],
  responses: { 200: "The transcript." },
  alternatives: OTHER_ANSWERS,
});

/** The path exists also where translation is switched off, so that clients learn why. */
const TRANSLATE = operation({
  id: "openaiTranslate",
  summary: "Translate to English as OpenAI's clients do",
  description:
    "As the transcription, with text in English. `language` is the one that is spoken. Only with `capabilities.translation`, and models that can.",
  tag: "OpenAI",
  scope: "transcriptions:write",
  errorShape: "openai",
  acceptsIdempotencyKey: true,
  multipart: OpenAiForm,
  errors: ["not_found", ...RECORDING_ERRORS, "too_many_queued"],
  responses: { 200: "The translation." },
  alternatives: OTHER_ANSWERS,
});

const LIST_MODELS = operation({
  id: "openaiListModels",
  summary: "List models and aliases",
  tag: "OpenAI",
  scope: "models:read",
  errorShape: "openai",
  errors: [],
  responses: { 200: "Names that requests can give as `model`." },
});

const GET_MODEL = operation({
  id: "openaiGetModel",
  summary: "Get a model or an alias",
  tag: "OpenAI",
  scope: "models:read",
  errorShape: "openai",
  errors: ["not_found"],
  responses: { 200: "The model." },
});

/** OpenAI's audio API beside the strict interface (docs/clients/openai.md); only with `openai.enabled`. */
export function openAiRoutes(deps: HttpDeps, receive: FormReceiver) {
  const { openai } = deps.config;
  const form = {
    maxFileBytes: openai.max_bytes,
    maxFieldBytes: MAX_FIELD_BYTES,
    listFields: LIST_FIELDS,
    ignoredFields: ignoredFieldsOf(openai),
    timeoutSeconds: openai.timeout_seconds,
  };
  const names = createModelNames(deps.models, openai.model_aliases);

  function recognize(caller: Caller, request: Request, task: Task): Promise<Response> {
    const key = idempotencyKeyOf(request);
    const own = ownFields(deps.config);
    const bounds = own.has(METADATA_FIELD) ? { ...form, maxFieldBytes: MAX_JSON_BYTES } : form;
    return receive(request, caller, bounds, async (received, path, attendance) => {
      const openaiConfig = openaiFor(deps, caller);
      const wanted =
        task === "translate"
          ? translated(wantedOf(received, openaiConfig, names, undefined, own))
          : wantedOf(received, openaiConfig, names, wordTimesOf(deps), own);
      const order = orderOf(deps, received, path, wanted);
      const admitted = await deps.synchronous.admit(caller, { ...order, key }, attendance);
      const response = await respond(deps, caller, wanted, admitted, attendance);
      response.headers.set("x-transcription-id", admitted.id);
      if (wanted.ignored.length > 0) response.headers.set("x-ignored-parameters", wanted.ignored.join(", "));
      return response;
    });
  }

  return defineKeyedRoutes("openai")
    .post(
      `${OPENAI_PREFIX}/audio/transcriptions`,
      async ({ caller, request }) => recognize(caller, request, "transcribe"),
      { response: { 200: OpenAiTranscription }, ...TRANSCRIBE },
    )
    .post(
      `${OPENAI_PREFIX}/audio/translations`,
      async ({ caller, request }) => {
        if (!isSwitchedOn(deps.config, "task.translate"))
          throw new AppError("capability_unavailable", { message: "Translation is not available." });
        return recognize(caller, request, "translate");
      },
      { response: { 200: OpenAiTranscription }, ...TRANSLATE },
    )
    .get(
      `${OPENAI_PREFIX}/models`,
      (): OpenAiModelList => ({ object: "list", data: names.list().map(toModel) }),
      {
        response: { 200: OpenAiModelList },
        ...LIST_MODELS,
      },
    )
    .get(
      `${OPENAI_PREFIX}/models/:model`,
      ({ params }): OpenAiModel => toModel(names.require(params.model)),
      { response: { 200: OpenAiModel }, ...GET_MODEL },
    );
}

/** What is wanted, with its text in English. */
const translated = (wanted: Wanted): Wanted => ({
  ...wanted,
  request: { ...wanted.request, task: "translate" },
});

/** The settings for a caller, whose project may have a default language of its own. */
function openaiFor({ config: { openai }, database }: HttpDeps, { projectId }: Caller): Config["openai"] {
  const own = findProject(database.store, projectId)?.defaultLanguage ?? null;
  return own === null ? openai : { ...openai, default_language: own };
}

/** Returns undefined where word times are switched off. */
function wordTimesOf({ models, config }: HttpDeps): CanTimeWords | undefined {
  if (!isSwitchedOn(config, "timestamps.word")) return undefined;
  return (modelId, language) => {
    try {
      const { capabilities } = models.describe(models.resolve(modelId, language));
      return capabilities["timestamps.word"] === "available";
    } catch (error) {
      // A model that cannot be found is left to the checks of the order, which say why.
      if (error instanceof AppError) return true;
      throw error;
    }
  };
}

function orderOf({ config }: HttpDeps, received: ReceivedForm, path: string, wanted: Wanted) {
  const { max_bytes, max_duration_seconds, wait_seconds } = config.openai;
  const file = received.file ?? { bytes: 0, sha256: "" };
  return {
    modelId: wanted.modelId,
    request: wanted.request,
    file: { ...file, path },
    isTooLarge: received.isTooLarge,
    bounds: { maxBytes: max_bytes, maxDurationSeconds: max_duration_seconds, waitSeconds: wait_seconds },
  };
}

/** The answer: at the end, or from now on as the text is recognized. */
async function respond(
  { transcriptions, synchronous }: HttpDeps,
  caller: Caller,
  { format, isStream, granularities }: Wanted,
  { id, outcome }: Admitted,
  { lastUntil }: Attendance,
): Promise<Response> {
  if (isStream) {
    lastUntil(outcome);
    return streamText({
      watch: (onText) => synchronous.watchText(id, onText),
      outcome: outcome.then(() => transcriptions.result(caller, id).result.text),
    });
  }
  await outcome;
  const found = transcriptions.result(caller, id);
  const response = await answerOf(found, format, granularities);
  if (found.result.status === "partial") response.headers.set("x-transcription-state", "partial");
  return response;
}
