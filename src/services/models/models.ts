import { dirname, join } from "node:path";
import type { Act } from "../../domain/audit.ts";
import { AppError } from "../../domain/errors.ts";
import type {
  InstalledModel,
  PunctuationFiles,
  PunctuationModel,
  SpeakerWeights,
} from "../../domain/model.ts";
import { FAMILIES } from "../../families/families.ts";
import { recordAct } from "../../store/audit-log.ts";
import { transaction } from "../../store/database.ts";
import { sha256OfFile } from "../../store/file-hash.ts";
import { countUnfinishedWithModel } from "../../store/transcriptions.ts";
import { type CarriedModels, extractCarriedModels } from "./carried-models.ts";
import type { DraftUse } from "./draft-model.ts";
import {
  type Adding,
  type AddModelOptions,
  addModel,
  invalidFile,
  type ModelAddingDeps,
} from "./model-adding.ts";
import { deleteCard, type MeasuredFigures, measuredFigures, recordFigures } from "./model-card.ts";
import { type DiarizationMethod, describeModel, type ModelDescription } from "./model-description.ts";
import { deleteModel } from "./model-files.ts";
import { type ModelRegistry, type ModelRegistryDeps, openModelRegistry } from "./model-registry.ts";
import {
  modelFor,
  namedModel,
  routeLanguages,
  routeProblems,
  servedLanguages,
  unsupportedLanguage,
} from "./model-routes.ts";
import { givenSource, type ModelSource } from "./model-source.ts";
import { checkPrepared, type PreparedFiles, type PreparedModel, placePrepared } from "./prepared-models.ts";
import {
  deletePunctuation,
  installedPunctuation,
  PUNCTUATION_KIND,
  type PunctuationCard,
  type PunctuationOptions,
  placePunctuation,
  punctuationProblem,
  readPunctuationCard,
  verifyPunctuation,
} from "./punctuation-model.ts";
import {
  deleteSpeakerWeights,
  hasSpeakerWeights,
  installedSpeakerWeights,
  placeSpeakerWeights,
  type SpeakerWeightCard,
  type SpeakerWeightKind,
  type SpeakerWeightOptions,
  speakerWeightPairs,
  speakerWeightProblems,
  verifyCarriedWeights,
  verifySpeakerWeights,
} from "./speaker-weights.ts";

export type { DraftUse } from "./draft-model.ts";
export { type AddModelOptions, invalidFile } from "./model-adding.ts";
export type { MeasuredFigures } from "./model-card.ts";
export type { DiarizationMethod, ModelDescription } from "./model-description.ts";
export { modelDirectoryOf } from "./model-registry.ts";
export { givenSource, type ModelSource } from "./model-source.ts";

export type ModelServiceDeps = ModelRegistryDeps &
  ModelAddingDeps & {
    /**
     * The models that are available while no other is installed, and the nets that distinguish speakers; left out: those
     * inside the executable.
     */
    carriedModels?: CarriedModels;
    /**
     * Loads speaker weights, once both kinds are installed; left out: they are not tried.
     * @throws Error with the reason why the engine could not use them
     */
    tryOutSpeakerWeights?: (weights: SpeakerWeights) => Promise<void>;
    /**
     * Loads a model of punctuation; left out: it is not tried.
     * @throws Error with the reason why the engine could not use it
     */
    tryOutPunctuation?: (files: PunctuationFiles) => Promise<void>;
  };

/** Outcome of `verify`. Without problems the model is as it was when it was added. */
export type ModelVerification = { id: string; sha256: string; problems: string[] };

/**
 * Installed models and speaker weights. Requests read; only an admin's command adds, removes and chooses. Each call
 * sees files that have appeared, changed or gone. The models inside the executable are available while nothing is
 * installed.
 */
export type ModelService = {
  /** Absolute path of the directory of installed models. */
  directory: string;
  /** Returns the models that requests can name: the default first, then by id. */
  list(): InstalledModel[];
  /** Finds a model by id, also one inside the executable while others are installed: work may have begun with it. */
  find(id: string): InstalledModel | undefined;
  /**
   * Finds the model that a request means. Without an id that is the default, or with a language the model that serves
   * it (`ModelRoutes.modelFor`).
   *
   * @throws AppError `invalid_request` (detail `model`) when that model is not installed; `capacity_unavailable`
   *   when the model for the language or the default is not installed, or when several models are installed and none
   *   is the default
   */
  resolve(modelId?: string, language?: string): InstalledModel;
  /** Makes the error for a language that a request's model does not have. Its message says what could be used. */
  unsupportedLanguage(model: InstalledModel, language: string): AppError;
  /** Returns the languages in which requests that name no model use this one. */
  servedLanguages(model: InstalledModel): string[];
  /** Returns the ids of models by the languages that they serve, as config file and admin chose. */
  routes(): Readonly<Record<string, string>>;
  /** Says which choices of models for languages cannot be followed, one sentence each. */
  routeProblems(): string[];
  /** Says what the draft model of the config does; undefined: the config names none. */
  draftUse(): DraftUse | undefined;
  /**
   * Chooses the models for languages of requests that name none; undefined removes a choice. `models.languages` in the
   * config file overrides these choices.
   *
   * @throws AppError `not_found` for a model that is not installed, `unsupported_language` for one without the language
   */
  route(changes: Readonly<Record<string, string | undefined>>): void;
  /** Finds the default; undefined where `resolve` would throw `capacity_unavailable`. */
  findDefault(): InstalledModel | undefined;
  /**
   * Returns the model that shows at the start whether the engine works. In place of a model inside the executable that is
   * the smallest of these, so that weights take no memory before they are used.
   */
  probeFor(model: InstalledModel): InstalledModel;
  /** Describes a model as `GET /v1/models` shows it. */
  describe(model: InstalledModel): ModelDescription;
  /** Says why files of the directory are left out, one sentence each. */
  problems(): string[];
  /**
   * Returns the pairs of nets with which speakers are distinguished, in the order in which they are tried; none: the
   * built-in acoustic method does it.
   */
  speakerWeights(): SpeakerWeights[];
  /** Returns the kinds of speaker weights that are installed. */
  speakerWeightKinds(): SpeakerWeightKind[];
  /** Returns the method by which speakers are distinguished now. */
  diarizationMethod(): DiarizationMethod;
  /**
   * Copies speaker weights into the directory of models, where they take the place of the executable's net of their kind.
   *
   * @throws AppError `invalid_request` (detail `file`) for a file of another kind or one that the engine cannot use
   */
  addSpeakerWeights(
    kind: SpeakerWeightKind,
    file: string,
    options?: SpeakerWeightOptions,
  ): Promise<SpeakerWeightCard>;
  /** Reads and hashes all speaker weights again, installed or of the executable. The id of each names its kind. */
  verifySpeakerWeights(signal?: AbortSignal): Promise<ModelVerification[]>;
  /** Removes installed speaker weights; the executable's net is used again. @throws AppError `not_found` */
  removeSpeakerWeights(kind: SpeakerWeightKind): Promise<void>;
  /** Returns the installed model of punctuation; undefined: there is none, or the config does not want it. */
  punctuation(): PunctuationModel | undefined;
  /** Returns what is known of the installed model of punctuation. */
  punctuationCard(): PunctuationCard | undefined;
  /**
   * Copies a model of punctuation into the directory of models, where it takes the place of another one.
   *
   * @param folder as its maker publishes it
   * @throws AppError `invalid_request` (detail `file`) for a folder of another layout or a model that the engine cannot use
   */
  addPunctuation(folder: string, options?: PunctuationOptions): Promise<PunctuationCard>;
  /** Reads and hashes the model of punctuation again; nothing where none is installed. */
  verifyPunctuation(signal?: AbortSignal): Promise<ModelVerification[]>;
  /** Removes the installed model of punctuation. @throws AppError `not_found` */
  removePunctuation(): Promise<void>;
  /**
   * Brings a model of one of the families into the directory of models and writes its manifest. The
   * first model that is added becomes the default. A later one takes its place when it knows all its languages and more,
   * has failed its trial in none of them, and an admin has not chosen the default.
   *
   * @param source what to add; a text: the path of what one of the families takes, such as a ggml file
   * @throws AppError `invalid_request` (detail `file`) for weights that the engine cannot use, another SHA-256 or a
   *   wrong option; `conflict` when the id is taken
   */
  add(source: string | ModelSource, options?: AddModelOptions): Promise<InstalledModel>;
  /** Does what `add` does, and installs nothing. @returns the model as it would be installed */
  rehearse(source: string | ModelSource, options?: AddModelOptions): Promise<InstalledModel>;
  /**
   * Checks and tries a model that comes with its own manifest, without installing it.
   *
   * @throws AppError `invalid_request` (detail `file`); `conflict` when another model has its id
   */
  prepare(files: PreparedFiles): Promise<PreparedModel>;
  /** Installs a model that `prepare` has accepted. */
  addPrepared(model: PreparedModel): Promise<InstalledModel>;
  /** Reads and hashes the whole file of a model again. @throws AppError `not_found` */
  verify(id: string, signal?: AbortSignal): Promise<ModelVerification>;
  /**
   * Removes a model's files. After the last one the models inside the executable serve again.
   *
   * @throws AppError `not_found`; `conflict` while unfinished transcriptions use the model, when the config file
   *   names it as the default, when it is the default of several, or when it serves a language: an admin must first
   *   choose another
   */
  remove(id: string): Promise<void>;
  /**
   * Chooses the model for requests that name none. `models.default` in the config file overrides this choice. A model
   * inside the executable can be chosen while it is listed.
   *
   * @throws AppError `not_found`; `conflict` for a model inside the executable while others are installed
   */
  setDefault(id: string): InstalledModel;
  /** Returns what the customer's benchmarks have measured with a model, the latest first. */
  measured(model: InstalledModel): MeasuredFigures[];
  /** Keeps what a benchmark has measured on the model's card. @throws the file system's error */
  record(model: InstalledModel, figures: MeasuredFigures): Promise<void>;
  /** Reads the choice of the default again, because another process may have changed it. */
  forgetCached(): void;
};

/**
 * Opens the models of a data directory.
 *
 * @throws Error when the demonstration model cannot be copied out of the executable
 */
export async function createModelService(deps: ModelServiceDeps): Promise<ModelService> {
  const { config, dataDir } = deps;
  const isAcoustic = config.engine.diarization === "acoustic";
  const carriedModels = deps.carriedModels ?? (await extractCarriedModels(dataDir, { nets: !isAcoustic }));
  const registry = openModelRegistry(deps, carriedModels);
  const { directory } = registry;
  const nets = carriedModels.speakerWeights;
  const { families = FAMILIES } = deps;
  const method = (): DiarizationMethod =>
    !isAcoustic && hasSpeakerWeights(directory, nets) ? "neural" : "acoustic";
  return {
    directory,
    list: registry.list,
    find: registry.find,
    resolve: (modelId, language) =>
      modelId === undefined ? modelFor(registry, language) : namedModel(registry, modelId),
    unsupportedLanguage: (model, language) => unsupportedLanguage(registry, model, language),
    servedLanguages: (model) => servedLanguages(registry, model),
    routes: registry.routes,
    routeProblems: () => routeProblems(registry),
    draftUse: registry.draftUse,
    route: (changes) => routeLanguages(registry, changes),
    findDefault: registry.findDefault,
    probeFor: (model) => (model.embedded ? (registry.carried().at(-1) ?? model) : model),
    describe: (model) =>
      describeModel(model, { config, family: families.of(model.family), method: method() }),
    problems: () => [
      ...registry.problems(),
      ...speakerWeightProblems(directory),
      ...[punctuationProblem(directory)].filter((problem) => problem !== undefined),
    ],
    speakerWeights: () => (isAcoustic ? [] : speakerWeightPairs(directory, nets)),
    speakerWeightKinds: () => installedSpeakerWeights(directory),
    diarizationMethod: method,
    addSpeakerWeights: (kind, file, options = {}) =>
      addSpeakerWeights(deps, { directory, nets }, { kind, file, options }),
    verifySpeakerWeights: (signal) => verifyAllSpeakerWeights(directory, nets, signal),
    removeSpeakerWeights: (kind) => removeSpeakerWeights(deps, directory, kind),
    ...punctuationPart(deps, directory),
    add: async (source, options = {}) =>
      recordAdded(deps, await addFrom(deps, registry, source, options, { isRehearsal: false })),
    rehearse: (source, options = {}) => addFrom(deps, registry, source, options, { isRehearsal: true }),
    prepare: (files) => checkPrepared(deps, registry, files),
    addPrepared: async (model) => recordAdded(deps, await placePrepared(deps, registry, model)),
    verify: (id, signal) => verifyModel(deps, registry, id, signal),
    remove: (id) => removeModel(deps, registry, id),
    setDefault: (id) => setDefault(registry, id),
    measured: (model) => measuredFigures(directory, model),
    record: (model, figures) => recordFigures(directory, model, figures),
    forgetCached: registry.forgetChoice,
  };
}

async function addFrom(
  deps: ModelServiceDeps,
  registry: ModelRegistry,
  source: string | ModelSource,
  options: AddModelOptions,
  adding: Adding,
): Promise<InstalledModel> {
  if (typeof source !== "string") return addModel(deps, registry, source, options, adding);
  const { families = FAMILIES } = deps;
  const found = families.given(source);
  if (!found) throw invalidFile(`${source} is nothing that can be added.`);
  return addModel(deps, registry, givenSource(found.family, found.model), options, adding);
}

function recordAdded(deps: ModelServiceDeps, model: InstalledModel): InstalledModel {
  const after = { version: model.version, sha256: model.sha256, bytes: model.bytes };
  record(deps, { action: "model.add", object: model.id, after });
  return model;
}

/** Records an act on files, which is done already. */
function record({ database, clock }: ModelServiceDeps, act: Act): void {
  transaction(database.store, (tx) => recordAct(tx, act, clock.now()));
}

function setDefault(registry: ModelRegistry, id: string): InstalledModel {
  const model = registry.find(id);
  if (!model?.embedded) {
    const installed = registry.requireInstalled(id);
    registry.choose(id);
    return installed;
  }
  if (registry.installed().length > 0) {
    throw new AppError("conflict", {
      message: `${id} is inside the executable, and is listed and used only while no other model is installed.`,
    });
  }
  registry.choose(id);
  return model;
}

type PunctuationPart = Pick<
  ModelService,
  "punctuation" | "punctuationCard" | "addPunctuation" | "verifyPunctuation" | "removePunctuation"
>;

function punctuationPart(deps: ModelServiceDeps, directory: string): PunctuationPart {
  const isWanted = deps.config.engine.punctuation === "auto";
  return {
    punctuation: () => (isWanted ? installedPunctuation(directory) : undefined),
    punctuationCard: () => readPunctuationCard(directory),
    async addPunctuation(folder, options) {
      const tryOut = async (files: PunctuationFiles) => deps.tryOutPunctuation?.(files);
      let card: PunctuationCard;
      try {
        card = await placePunctuation(directory, folder, tryOut, options);
      } catch (error) {
        throw invalidFile((error as Error).message);
      }
      const after = { sha256: card.sha256.model, bytes: card.bytes };
      record(deps, { action: "punctuation_model.add", object: PUNCTUATION_KIND, after });
      return card;
    },
    async verifyPunctuation(signal) {
      const outcome = await verifyPunctuation(directory, signal);
      return outcome ? [{ id: PUNCTUATION_KIND, ...outcome }] : [];
    },
    async removePunctuation() {
      if (!(await deletePunctuation(directory)))
        throw new AppError("not_found", { message: "No model of punctuation is installed." });
      record(deps, { action: "punctuation_model.remove", object: PUNCTUATION_KIND });
    },
  };
}

async function verifyAllSpeakerWeights(
  directory: string,
  nets: SpeakerWeights | undefined,
  signal: AbortSignal | undefined,
): Promise<ModelVerification[]> {
  const outcomes: ModelVerification[] = [];
  for (const kind of installedSpeakerWeights(directory)) {
    outcomes.push({ id: kind, ...(await verifySpeakerWeights(directory, kind, signal)) });
  }
  const carried = nets ? await verifyCarriedWeights(nets, signal) : [];
  return [...outcomes, ...carried.map(({ kind, ...rest }) => ({ id: `${kind} of the executable`, ...rest }))];
}

async function addSpeakerWeights(
  deps: ModelServiceDeps,
  { directory, nets }: { directory: string; nets: SpeakerWeights | undefined },
  { kind, file, options }: { kind: SpeakerWeightKind; file: string; options: SpeakerWeightOptions },
): Promise<SpeakerWeightCard> {
  const tryOut = async (weights: SpeakerWeights) => deps.tryOutSpeakerWeights?.(weights);
  let card: SpeakerWeightCard;
  try {
    card = await placeSpeakerWeights(directory, kind, file, { tryOut, carried: nets }, options);
  } catch (error) {
    throw invalidFile((error as Error).message);
  }
  record(deps, { action: "speaker_weights.add", object: kind });
  deps.log.info({ kind }, "speaker weights were added");
  return card;
}

async function removeSpeakerWeights(
  deps: ModelServiceDeps,
  directory: string,
  kind: SpeakerWeightKind,
): Promise<void> {
  if (!(await deleteSpeakerWeights(directory, kind))) {
    throw new AppError("not_found", { message: `There are no ${kind} weights.` });
  }
  record(deps, { action: "speaker_weights.remove", object: kind });
  deps.log.info({ kind }, "speaker weights were removed");
}

async function verifyModel(
  { families = FAMILIES }: ModelServiceDeps,
  registry: ModelRegistry,
  id: string,
  signal?: AbortSignal,
): Promise<ModelVerification> {
  const model = registry.find(id) ?? registry.requireInstalled(id);
  const { files, parts } = model;
  const family = families.of(model.family);
  const problems: string[] = [];
  const weightsPath = families.mainFile(model);
  const sha256 = await sha256OfFile(weightsPath, signal);
  if (sha256 !== model.sha256) problems.push(`the SHA-256 is ${sha256}, the manifest says ${model.sha256}`);
  const folder = dirname(weightsPath);
  for (const part of parts?.filter(({ role }) => role !== family.roles?.main) ?? []) {
    const found = await sha256OfFile(join(folder, part.name), signal);
    if (found !== part.sha256) {
      problems.push(`the SHA-256 of ${part.name} is ${found}, the manifest says ${part.sha256}`);
    }
  }
  try {
    family.check(files);
  } catch (error) {
    problems.push((error as Error).message);
  }
  return { id, sha256, problems };
}

async function removeModel(deps: ModelServiceDeps, registry: ModelRegistry, id: string): Promise<void> {
  const { database, config, log } = deps;
  const { version, sha256 } = registry.requireInstalled(id);
  if (config.models.default === id) {
    throw new AppError("conflict", { message: `models.default in the config names the model ${id}.` });
  }
  const isDefault = registry.findDefault()?.id === id;
  if (isDefault && registry.installed().length > 1) {
    throw new AppError("conflict", {
      message: `The model ${id} is the default; choose another first: shruti models default ID.`,
    });
  }
  const served = Object.entries(registry.routes()).filter(([, routed]) => routed === id);
  if (served.length > 0) {
    const codes = served.map(([code]) => code).join(", ");
    throw new AppError("conflict", {
      message: `The model ${id} serves ${codes}; choose another first: shruti models route.`,
    });
  }
  const unfinished = countUnfinishedWithModel(database.store, id);
  if (unfinished > 0) {
    throw new AppError("conflict", {
      message: `${unfinished} unfinished transcriptions use the model ${id}.`,
    });
  }
  await deleteModel(registry.directory, id);
  deleteCard(registry.directory, id);
  record(deps, { action: "model.remove", object: id, before: { version, sha256 } });
  if (registry.isChosen(id)) registry.choose(undefined);
  log.info({ model: id, default: registry.findDefault()?.id ?? null }, "a model was removed");
}
