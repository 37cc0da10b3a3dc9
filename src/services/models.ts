import { basename, join, resolve } from "node:path";
import { and, count, eq, inArray } from "drizzle-orm";
import type { Config } from "../config/schema.ts";
import { CAPABILITIES, type Capability, type CapabilityStatus, COMING_SOON } from "../domain/capability.ts";
import { AppError } from "../domain/errors.ts";
import { LANGUAGES, languageOf } from "../domain/languages.ts";
import {
  fileOf,
  type InstalledModel,
  type ModelLanguage,
  type ModelManifest,
  type SpeakerWeights,
} from "../domain/model.ts";
import { MODES, type Mode, UNFINISHED_STATES } from "../domain/transcription.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import type { Database } from "../store/database.ts";
import { sha256OfFile } from "../store/file-hash.ts";
import { transcriptions } from "../store/schema.ts";
import { findSetting, putSetting, SETTING_NAMES } from "../store/settings.ts";
import { extractEmbeddedModel } from "./demo-model.ts";
import { createModelScanner, deleteModel, discardStaged, placeModel, stageWeights } from "./model-files.ts";
import { ManifestError, MODEL_ID_PATTERN, parseManifest, renderManifest } from "./model-manifest.ts";
import {
  deleteSpeakerWeights,
  findSpeakerWeights,
  installedSpeakerWeights,
  placeSpeakerWeights,
  type SpeakerWeightKind,
} from "./speaker-weights.ts";

export type ModelServiceDeps = {
  database: Database;
  config: Config;
  /** Absolute. */
  dataDir: string;
  log: Log;
  clock: Clock;
  /**
   * Looks at a weights file without loading it.
   * @throws Error with the reason why the engine could not use it
   */
  checkModelFile: (path: string) => { multilingual: boolean };
  /** Used while no other is installed; left out: the one that the executable carries. */
  embeddedModel?: InstalledModel;
  /**
   * Loads the weights for telling speakers apart, once both kinds are there; left out: they are not tried out.
   * @throws Error with the reason why the engine could not use them
   */
  tryOutSpeakerWeights?: (weights: SpeakerWeights) => Promise<void>;
};

/** What `shruti models add` may say about a model; what is left out is found or made up from the file. */
export type AddModelOptions = {
  /** Left out: from the file's name, without `ggml-` and `.bin`. */
  id?: string;
  name?: string;
  version?: string;
  /** Left out: for a multilingual file every language that whisper has a code for, else English, in all their modes. */
  languages?: { code: string; modes?: Mode[]; decoderLanguage?: string }[];
  licence?: string;
  source?: string;
  notice?: string;
  /** What the file must have, lower-case hex. */
  sha256?: string;
};

/** What a model can do and how much it takes; the data of a `GET /v1/models` entry (docs/decisions.md section 6). */
export type ModelDescription = {
  /** Those that at least one of its languages has, in the order of `MODES`. */
  modes: Mode[];
  capabilities: Record<Capability, CapabilityStatus>;
  diarization: { method: DiarizationMethod };
  limits: {
    synchronous: { maxBytes: number; maxDurationSeconds: number; timeoutSeconds: number };
    asynchronous: { maxBytes: number; maxDurationSeconds: number; maxChannels: number };
  };
};

/** How speakers are told apart: with weights that an admin has installed, or by the built-in acoustic method. */
export type DiarizationMethod = "acoustic" | "neural";

/** Outcome of `verify`; no problems: the model is as it was when it was added. */
export type ModelVerification = { id: string; sha256: string; problems: string[] };

export type ModelService = Awaited<ReturnType<typeof createModelService>>;

/** The directory of installed models. */
export function modelDirectoryOf(config: Config, dataDir: string): string {
  return resolve(config.models.dir || join(dataDir, "models"));
}

/**
 * Installed models: their files, their manifests, and which one is the default. Files that appear, change or go are
 * seen at the next call. The demonstration model inside the executable is there while nothing else is installed.
 *
 * @throws Error when the demonstration model cannot be copied out
 */
export async function createModelService(deps: ModelServiceDeps) {
  const shelf = openShelf(deps, deps.embeddedModel ?? (await extractEmbeddedModel(deps.dataDir)));
  return {
    directory: shelf.directory,
    list: shelf.list,
    find: shelf.find,

    /**
     * The model that a request means.
     *
     * @param modelId undefined: the default
     * @throws AppError `invalid_request` (`model`) for one that is not installed, `capacity_unavailable` when the
     *   default is not, or nobody has chosen one of several
     */
    resolve: (modelId?: string): InstalledModel => resolveModel(shelf, modelId),

    /** The model for requests that name none; undefined where `resolve` says why there is none. */
    findDefault: shelf.findDefault,

    describe: (model: InstalledModel): ModelDescription =>
      describeModel(model, deps.config, findSpeakerWeights(shelf.directory)),

    /** Weights for telling speakers apart, when both kinds are installed. */
    speakerWeights: (): SpeakerWeights | undefined => findSpeakerWeights(shelf.directory),

    /** Kinds of them that are installed. */
    speakerWeightKinds: (): SpeakerWeightKind[] => installedSpeakerWeights(shelf.directory),

    diarizationMethod: (): DiarizationMethod => diarizationMethodWith(findSpeakerWeights(shelf.directory)),

    /**
     * Copies weights for telling speakers apart into the models' directory. Once both kinds are there, they take the
     * place of the built-in acoustic method.
     *
     * @throws AppError `invalid_request` for a file that is not of that kind or cannot be used
     */
    addSpeakerWeights: (kind: SpeakerWeightKind, file: string): Promise<void> =>
      addSpeakerWeights(deps, shelf, kind, file),

    /**
     * Removes them again; the built-in method is used then.
     *
     * @throws AppError `not_found`
     */
    async removeSpeakerWeights(kind: SpeakerWeightKind): Promise<void> {
      if (!(await deleteSpeakerWeights(shelf.directory, kind))) {
        throw new AppError("not_found", { message: `There are no ${kind} weights.` });
      }
      deps.log.info({ kind }, "speaker weights were removed");
    },

    /**
     * Copies a file of whisper weights into the models' directory and writes its manifest. The first model that is
     * added becomes the default.
     *
     * @throws AppError `invalid_request` for a file that the engine cannot use, another SHA-256 or a wrong option,
     *   `conflict` when the id is taken
     */
    add: (file: string, options: AddModelOptions = {}): Promise<InstalledModel> =>
      addModel(deps, shelf, file, options),

    /**
     * Reads the whole file of a model again.
     *
     * @throws AppError `not_found`
     */
    verify: (id: string): Promise<ModelVerification> => verifyModel(deps, shelf, id),

    /**
     * Removes a model's files. After the last one the demonstration model stands in.
     *
     * @throws AppError `not_found`; `conflict` while unfinished transcriptions need it, or when it is the default and
     *   another is not chosen yet: requests never change their model without an admin's choice
     */
    remove: (id: string): Promise<void> => removeModel(deps, shelf, id),

    /**
     * Chooses the model for requests that name none. `models.default` in the config goes before it.
     *
     * @throws AppError `not_found`
     */
    setDefault(id: string): InstalledModel {
      const model = shelf.requireInstalled(id);
      shelf.choose(id);
      return model;
    },

    /** Why files in the directory are left out. */
    problems: shelf.problems,

    /** Another process may have chosen another default. */
    forgetCached: shelf.forgetChoice,
  };
}

type Shelf = ReturnType<typeof openShelf>;

/** What is installed, and the choice of the default. */
function openShelf({ database, config, dataDir, log, clock }: ModelServiceDeps, demo: InstalledModel) {
  const directory = modelDirectoryOf(config, dataDir);
  const scanner = createModelScanner(directory);
  const logged = new Set<string>();
  let choice: { id: string | undefined } | undefined;

  function installed(): InstalledModel[] {
    const { models, problems } = scanner();
    for (const problem of problems) {
      if (!logged.has(problem)) log.warn({ problem }, "a model is left out");
      logged.add(problem);
    }
    return models;
  }

  function chosen(): string | undefined {
    if (!choice) {
      const value = findSetting(database.store, SETTING_NAMES.defaultModel);
      choice = { id: typeof value === "string" ? value : undefined };
    }
    return choice.id;
  }

  /** The id that the config, else an admin's choice names; undefined: nobody named one. */
  const namedDefault = () => (config.models.default !== "" ? config.models.default : chosen());

  const available = (): InstalledModel[] => {
    const models = installed();
    return models.length === 0 ? [demo] : models;
  };

  /** What is named, else the only model; undefined when that is not there, or there are several. */
  function findDefault(): InstalledModel | undefined {
    const found = lookUpDefault();
    if (found) return found;
    // Another process may have chosen a moment ago.
    choice = undefined;
    return lookUpDefault();
  }

  function lookUpDefault(): InstalledModel | undefined {
    const models = available();
    const named = namedDefault();
    if (named === undefined) return models.length === 1 ? models[0] : undefined;
    return models.find(({ id }) => id === named);
  }

  return {
    directory,
    demo,
    installed,
    namedDefault,
    isChosen: (id: string) => chosen() === id,
    problems: (): string[] => [...scanner().problems],

    /** The default first, then by id. */
    list(): InstalledModel[] {
      const models = available();
      const first = findDefault();
      return first ? [first, ...models.filter((model) => model !== first)] : models;
    },

    findDefault,

    /** A model by id, also the demonstration when others are installed: work that began with it goes on with it. */
    find: (id: string): InstalledModel | undefined =>
      installed().find((model) => model.id === id) ?? (id === demo.id ? demo : undefined),

    /** @throws AppError `not_found` */
    requireInstalled(id: string): InstalledModel {
      const model = installed().find((found) => found.id === id);
      if (!model) throw new AppError("not_found", { message: `There is no installed model ${id}.` });
      return model;
    },

    choose(id: string | undefined): void {
      putSetting(database.store, SETTING_NAMES.defaultModel, id, clock.now());
      choice = undefined;
    },

    forgetChoice(): void {
      choice = undefined;
    },
  };
}

function resolveModel(shelf: Shelf, modelId: string | undefined): InstalledModel {
  if (modelId !== undefined) {
    const model = shelf.list().find(({ id }) => id === modelId);
    if (!model)
      throw new AppError("invalid_request", { detail: "model", message: "There is no such model." });
    return model;
  }
  const model = shelf.findDefault();
  if (model) return model;
  const named = shelf.namedDefault();
  const message =
    named === undefined
      ? "Several models are installed, and none is chosen as the default."
      : `The default model ${named} is not installed.`;
  throw new AppError("capacity_unavailable", { message, retryAfterSeconds: 60 });
}

async function addModel(
  { checkModelFile, log }: ModelServiceDeps,
  shelf: Shelf,
  file: string,
  options: AddModelOptions,
): Promise<InstalledModel> {
  const info = checked(() => checkModelFile(file));
  const id = options.id ?? idFromFile(file);
  if (!MODEL_ID_PATTERN.test(id)) {
    throw invalid(
      `${JSON.stringify(id)} cannot be a model's id: 1 to 64 of a to z, 0 to 9, dot, dash, underscore.`,
    );
  }
  if (shelf.find(id)) throw new AppError("conflict", { message: `There is a model ${id} already.` });
  const languages = (options.languages ?? defaultLanguages(info)).map(fillLanguage);
  // Before gigabytes are copied: the hash is the only thing that is not known yet.
  checkManifest(manifestOf(id, "0".repeat(64), languages, options));
  const staged = await stageWeights(file, shelf.directory);
  try {
    if (options.sha256 !== undefined && options.sha256 !== staged.sha256) {
      throw invalid(`The file's SHA-256 is ${staged.sha256}, not ${options.sha256}.`);
    }
    // The copy is what will be loaded, and the original may have changed meanwhile.
    checked(() => checkModelFile(staged.path));
    const isFirst = shelf.installed().length === 0;
    const previous = shelf.findDefault();
    await placeModel(shelf.directory, staged, manifestOf(id, staged.sha256, languages, options));
    if (isFirst) shelf.choose(id);
    // It was the default because it was the only one, and stays it.
    else if (shelf.namedDefault() === undefined && previous) shelf.choose(previous.id);
  } finally {
    await discardStaged(staged);
  }
  log.info({ model: id }, "a model was added");
  return shelf.requireInstalled(id);
}

async function addSpeakerWeights(
  { log, tryOutSpeakerWeights }: ModelServiceDeps,
  shelf: Shelf,
  kind: SpeakerWeightKind,
  file: string,
): Promise<void> {
  try {
    await placeSpeakerWeights(shelf.directory, kind, file, async (weights) =>
      tryOutSpeakerWeights?.(weights),
    );
  } catch (error) {
    throw invalid((error as Error).message);
  }
  log.info({ kind }, "speaker weights were added");
}

async function verifyModel(
  { checkModelFile }: ModelServiceDeps,
  shelf: Shelf,
  id: string,
): Promise<ModelVerification> {
  const model = shelf.find(id) ?? shelf.requireInstalled(id);
  const problems: string[] = [];
  const weightsPath = fileOf(model.files, "weights");
  const sha256 = await sha256OfFile(weightsPath);
  if (sha256 !== model.sha256) problems.push(`the SHA-256 is ${sha256}, the manifest says ${model.sha256}`);
  try {
    checkModelFile(weightsPath);
  } catch (error) {
    problems.push((error as Error).message);
  }
  return { id, sha256, problems };
}

async function removeModel(
  { database, config, log }: ModelServiceDeps,
  shelf: Shelf,
  id: string,
): Promise<void> {
  shelf.requireInstalled(id);
  if (config.models.default === id) {
    throw new AppError("conflict", { message: `models.default in the config names the model ${id}.` });
  }
  const isDefault = shelf.findDefault()?.id === id;
  if (isDefault && shelf.installed().length > 1) {
    throw new AppError("conflict", {
      message: `The model ${id} is the default; choose another first: shruti models default ID.`,
    });
  }
  const waiting = countUnfinished(database, id);
  if (waiting > 0) {
    throw new AppError("conflict", { message: `${waiting} unfinished transcriptions use the model ${id}.` });
  }
  await deleteModel(shelf.directory, id);
  if (shelf.isChosen(id)) shelf.choose(undefined);
  log.info({ model: id, default: shelf.findDefault()?.id ?? null }, "a model was removed");
}

function invalid(message: string): AppError {
  return new AppError("invalid_request", { message, detail: "file" });
}

function checked<T>(check: () => T): T {
  try {
    return check();
  } catch (error) {
    throw invalid((error as Error).message);
  }
}

/** A manifest that would be refused when it is read must not be written. */
function checkManifest(manifest: ModelManifest): void {
  try {
    parseManifest(renderManifest(manifest), "manifest");
  } catch (error) {
    if (error instanceof ManifestError) throw invalid(error.message);
    throw error;
  }
}

function manifestOf(
  id: string,
  sha256: string,
  languages: ModelLanguage[],
  options: AddModelOptions,
): ModelManifest {
  return {
    id,
    name: options.name ?? id,
    version: options.version ?? sha256.slice(0, 12),
    family: "whisper",
    sha256,
    languages,
    licence: options.licence ?? "not stated",
    source: options.source ?? "not stated",
    ...(options.notice === undefined ? {} : { notice: options.notice }),
    decoding: {},
  };
}

/** `ggml-large-v3-q5_0.bin` is `large-v3-q5_0`. */
function idFromFile(file: string): string {
  return basename(file)
    .replace(/^ggml-/i, "")
    .replace(/\.(?:bin|ggml)$/i, "")
    .toLowerCase();
}

function defaultLanguages({ multilingual }: { multilingual: boolean }): { code: string }[] {
  if (!multilingual) return [{ code: "en" }];
  return LANGUAGES.filter(({ whisperCode }) => whisperCode !== undefined).map(({ code }) => ({ code }));
}

/** English is written in Latin letters anyway: there is nothing to mix. */
function fillLanguage(language: { code: string; modes?: Mode[]; decoderLanguage?: string }): ModelLanguage {
  const known = languageOf(language.code);
  const modes = language.modes ?? MODES.filter((mode) => mode !== "codemix" || language.code !== "en");
  return { ...language, modes, name: known?.name ?? language.code };
}

function describeModel(
  model: InstalledModel,
  config: Config,
  speakerWeights: SpeakerWeights | undefined,
): ModelDescription {
  const { limits } = config;
  const modes = MODES.filter((mode) => model.languages.some((language) => language.modes.includes(mode)));
  const comingSoon = new Set<Capability>(COMING_SOON);
  for (const mode of MODES) if (!modes.includes(mode)) comingSoon.add(`mode.${mode}`);
  if (limits.max_channels < 2) comingSoon.add("channel_mode.separate");
  const status = (name: Capability): CapabilityStatus => (comingSoon.has(name) ? "coming_soon" : "available");
  return {
    modes,
    capabilities: Object.fromEntries(
      CAPABILITIES.map((name) => [name, status(name)]),
    ) as ModelDescription["capabilities"],
    diarization: { method: diarizationMethodWith(speakerWeights) },
    limits: {
      synchronous: {
        maxBytes: limits.synchronous_max_bytes,
        maxDurationSeconds: limits.synchronous_max_duration_seconds,
        timeoutSeconds: limits.synchronous_timeout_seconds,
      },
      asynchronous: {
        maxBytes: limits.max_upload_bytes,
        maxDurationSeconds: limits.max_duration_seconds,
        maxChannels: limits.max_channels,
      },
    },
  };
}

function diarizationMethodWith(weights: SpeakerWeights | undefined): DiarizationMethod {
  return weights ? "neural" : "acoustic";
}

function countUnfinished({ store }: Database, modelId: string): number {
  const isUsing = and(
    eq(transcriptions.modelId, modelId),
    inArray(transcriptions.state, [...UNFINISHED_STATES]),
  );
  return store.select({ found: count() }).from(transcriptions).where(isUsing).get()?.found ?? 0;
}
