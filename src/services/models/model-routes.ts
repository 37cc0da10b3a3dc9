import { AppError } from "../../domain/errors.ts";
import { knownModelsFor } from "../../domain/known-models.ts";
import { languageOf } from "../../domain/languages.ts";
import type { InstalledModel } from "../../domain/model.ts";
import { isFailedTrial } from "../../domain/trial.ts";
import type { ModelRegistry } from "./model-registry.ts";

/** Which model recognizes a request that names none. */

const speaks = (model: InstalledModel, language: string) =>
  model.languages.some(({ code }) => code === language);

/** Returns the model of an id. @throws AppError `invalid_request` (detail `model`) */
export function namedModel(registry: ModelRegistry, id: string): InstalledModel {
  const models = registry.list();
  const model = models.find((found) => found.id === id);
  if (!model)
    throw noSuchModel(
      id,
      models.map((each) => each.id),
    );
  return model;
}

/** How many names the refusal of an unknown one lists. */
const NAMED = 10;

/** Makes the refusal of a model that does not exist. It lists the first of those that do. */
export function noSuchModel(id: string, names: readonly string[]): AppError {
  const known = `${names.slice(0, NAMED).join(", ")}${names.length > NAMED ? ", …" : ""}`;
  return new AppError("invalid_request", {
    detail: "model",
    message: `There is no model ${JSON.stringify(id)}; there ${names.length === 1 ? "is" : "are"} ${known}.`,
  });
}

/**
 * Finds the model for requests that name none.
 *
 * - A model that config file or admin have chosen for the language.
 * - Else the default, where it has the language and has not failed there while another model has understood it.
 * - Else, of the models that have the language, the one with the best trial (`bestFor`). One inside the executable
 *   that is not the default serves only those who name it.
 * - Else the default. The request is then refused, because no model has the language.
 *
 * @param language left out: the default
 * @throws AppError `capacity_unavailable` when the chosen model is not installed, or when there is no default
 */
export function modelFor(registry: ModelRegistry, language: string | undefined): InstalledModel {
  if (language === undefined) return requireDefault(registry);
  const choices = choicesOf(registry);
  const model = choose(choices, language);
  if (model) return model;
  const routed = routedTo(choices, language);
  if (routed === undefined) return requireDefault(registry);
  const message = `The model ${routed}, which serves ${language}, is not installed.`;
  throw new AppError("capacity_unavailable", { message, retryAfterSeconds: 60 });
}

/** What is installed and chosen at one moment. To find it out reads the directory of models. */
type Choices = {
  models: readonly InstalledModel[];
  standard: InstalledModel | undefined;
  routes: Readonly<Record<string, string>>;
};

const choicesOf = (registry: ModelRegistry): Choices => ({
  models: registry.list(),
  standard: registry.findDefault(),
  routes: registry.routes(),
});

const routedTo = ({ routes }: Choices, language: string) =>
  Object.hasOwn(routes, language) ? routes[language] : undefined;

/** Returns the model for a language; undefined where `modelFor` throws. */
function choose(choices: Choices, language: string): InstalledModel | undefined {
  const { models, standard } = choices;
  const routed = routedTo(choices, language);
  if (routed !== undefined) return models.find(({ id }) => id === routed);
  return standard && bestFor(language, standard, models);
}

/**
 * Finds the model for a language: the default, unless it lacks the language or has failed where another model has
 * understood it; else the one with the best trial, then the largest.
 */
function bestFor(
  language: string,
  standard: InstalledModel,
  models: readonly InstalledModel[],
): InstalledModel {
  const trialOf = ({ languages }: InstalledModel) => languages.find(({ code }) => code === language)?.trial;
  const rank = (model: InstalledModel) => {
    const trial = trialOf(model);
    return trial === "understood" ? 0 : isFailedTrial(trial) ? 2 : 1;
  };
  const [best = standard] = models
    .filter((model) => (model === standard || !model.embedded) && speaks(model, language))
    .sort((a, b) => rank(a) - rank(b) || b.bytes - a.bytes || (a.id < b.id ? -1 : 1));
  const isBeaten = rank(standard) === 2 && rank(best) === 0;
  return speaks(standard, language) && !isBeaten ? standard : best;
}

function requireDefault(registry: ModelRegistry): InstalledModel {
  const model = registry.findDefault();
  if (model) return model;
  const named = registry.namedDefault();
  const message =
    named === undefined
      ? "Several models are installed, and none is chosen as the default."
      : `The default model ${named} is not installed.`;
  throw new AppError("capacity_unavailable", { message, retryAfterSeconds: 60 });
}

/** Returns the languages in which requests that name no model use this one. */
export function servedLanguages(registry: ModelRegistry, model: InstalledModel): string[] {
  const choices = choicesOf(registry);
  return model.languages.map(({ code }) => code).filter((code) => choose(choices, code)?.id === model.id);
}

/** Says which choices of models for languages cannot be followed, one sentence each. */
export function routeProblems(registry: ModelRegistry): string[] {
  const { models, routes } = choicesOf(registry);
  return Object.entries(routes).flatMap(([language, id]) => {
    const model = models.find((found) => found.id === id);
    if (!model) return [`the model ${id}, which is chosen for ${language}, is not installed`];
    if (speaks(model, language)) return [];
    return [`the model ${id}, which is chosen for ${language}, does not support this language`];
  });
}

/**
 * Stores an admin's choices of models for languages.
 *
 * @throws AppError `not_found`, `unsupported_language` when a model does not have its language
 */
export function routeLanguages(
  registry: ModelRegistry,
  changes: Readonly<Record<string, string | undefined>>,
): void {
  for (const [language, id] of Object.entries(changes)) {
    if (id === undefined) continue;
    const model = registry.requireInstalled(id);
    if (!speaks(model, language)) throw unsupportedLanguage(registry, model, language);
  }
  registry.route(changes);
}

/** Makes the error for a language that a model does not have, with what could be used or installed. */
export function unsupportedLanguage(
  registry: ModelRegistry,
  model: InstalledModel,
  language: string,
): AppError {
  const name = languageOf(language)?.name;
  const code = JSON.stringify(language.slice(0, 16));
  const called = name === undefined ? code : `${name} (${language})`;
  const installed = registry.installed().filter((other) => speaks(other, language));
  const known = knownModelsFor(language);
  let advice = "";
  if (installed.length > 0)
    advice = ` Installed models that support it: ${installed.map(({ id }) => id).join(", ")}.`;
  else if (known.length > 0) advice = ` Models that support it and could be installed: ${known.join(", ")}.`;
  const message = `The model ${model.id} does not support the language ${called}.${advice}`;
  return new AppError("unsupported_language", { detail: "language", message });
}
