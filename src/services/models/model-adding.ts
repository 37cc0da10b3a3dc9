import type { CtcFeatures, TokenSpan } from "../../domain/ctc-settings.ts";
import { AppError } from "../../domain/errors.ts";
import { LANGUAGES, languageOf } from "../../domain/languages.ts";
import type {
  InstalledModel,
  ModelDecoding,
  ModelFamilyName,
  ModelLanguage,
  ModelManifest,
} from "../../domain/model.ts";
import { MODES, type Mode } from "../../domain/transcription.ts";
import { isFailedTrial } from "../../domain/trial.ts";
import { errorMessage } from "../../lib/error-message.ts";
import type { Log } from "../../lib/log.ts";
import { discardStaged, placeModel } from "./model-files.ts";
import { ManifestError, MODEL_ID_PATTERN, parseManifest, renderManifest } from "./model-manifest.ts";
import type { ModelRegistry } from "./model-registry.ts";
import type { ModelSource } from "./model-source.ts";

/** What `shruti models add` may say about a model. Each field that is left out is derived from the file. */
export type AddModelOptions = {
  /** Left out: the name of the source, such as that of the file without `ggml-` and `.bin`. */
  id?: string;
  name?: string;
  version?: string;
  /** Left out: for a multilingual file each language that Whisper has a code for, else English; with all modes. */
  languages?: AddedLanguage[];
  licence?: string;
  source?: string;
  notice?: string;
  /** The hash that the ggml file must have, lower-case hex; of several files `model.onnx`. */
  sha256?: string;
  /** Only of CTC models: how their features are computed. */
  features?: CtcFeatures;
  /** Only of Whisper models; left out: what the family does. */
  decoding?: ModelDecoding;
};

/** `tokenSpan`: only of CTC models. */
type AddedLanguage = { code: string; modes?: Mode[]; decoderLanguage?: string; tokenSpan?: TokenSpan };

export type ModelAddingDeps = {
  /**
   * Looks at a weights file without loading it.
   * @throws Error with the reason why the engine could not use it
   */
  checkModelFile: (path: string) => { multilingual: boolean };
  /**
   * Looks at the files of a CTC model without loading them.
   * @throws Error with the reason why the engine could not use them
   */
  checkCtcFiles: (modelPath: string, tokensPath: string) => CtcFolderInfo;
  /**
   * Recognizes some sound with a model before it is installed; left out: models are not tried.
   * @returns what it has found, by the codes of languages
   * @throws Error with the reason why it must not be installed
   */
  tryOutModel?: (model: InstalledModel) => Promise<TrialFindings>;
  log: Log;
};

/** What a trial has found, by the codes of languages: a verdict, and where that matters the best letters. */
export type TrialFindings = ReadonlyMap<string, Pick<ModelLanguage, "trial" | "letters" | "decoderLanguage">>;

/** Whether a model is only checked and tried, and not installed. */
export type Adding = { isRehearsal: boolean };

/** What the files of a CTC model say. */
export type CtcFolderInfo = {
  family: ModelFamilyName;
  /** Texts of the tokens by their numbers. */
  tokens: readonly string[];
  /** Names of the files of weights beside the model. */
  external: readonly string[];
  /** Token spans of languages by their codes, where the model names them. */
  languages: ReadonlyMap<string, TokenSpan>;
};

/**
 * Brings weights into the directory of models and writes their manifest. The first model becomes the default.
 *
 * @throws AppError `invalid_request` (detail `file`), `conflict` when the id is taken
 */
export async function addModel(
  { checkModelFile, tryOutModel, log }: Pick<ModelAddingDeps, "checkModelFile" | "tryOutModel" | "log">,
  registry: ModelRegistry,
  source: ModelSource,
  options: AddModelOptions,
  { isRehearsal }: Adding,
): Promise<InstalledModel> {
  orInvalid(source.check);
  const id = requireFreeId(registry, options.id ?? idFromName(source.name));
  const describe = { ...options, name: options.name ?? id };
  // Before gigabytes are read. Hash and vocabulary are not known yet.
  checkManifest(manifestOf(id, "0".repeat(64), languagesOf(options, { multilingual: true }), describe));
  const staged = await source.stage(registry.directory);
  try {
    if (options.sha256 !== undefined && options.sha256 !== staged.sha256) {
      throw invalidFile(`The file's SHA-256 is ${staged.sha256}, not ${options.sha256}.`);
    }
    // The engine will load the copy, and the original may have changed since the first check.
    const languages = languagesOf(
      options,
      orInvalid(() => checkModelFile(staged.path)),
    );
    const { origin, licence } = staged;
    const untried = manifestOf(id, staged.sha256, languages, {
      ...(origin === undefined ? {} : { source: origin }),
      ...(licence === undefined ? {} : { licence }),
      ...describe,
    });
    checkManifest(untried);
    const model = { ...untried, files: { weights: staged.path }, bytes: staged.bytes, embedded: false };
    const manifest = withFindings(untried, await tryOut(tryOutModel, model));
    requireFreeId(registry, id);
    if (isRehearsal) return { ...model, languages: manifest.languages };
    await keepDefault(registry, id, () => placeModel(registry.directory, staged, manifest));
  } finally {
    await discardStaged(staged);
  }
  log.info({ model: id }, "a model was added");
  return registry.requireInstalled(id);
}

/**
 * Tries a model with its temporary files.
 *
 * @returns nothing for all languages where models are not tried
 * @throws AppError `invalid_request` when it must not be installed
 */
export async function tryOut(
  tryOutModel: ModelAddingDeps["tryOutModel"],
  model: InstalledModel,
): Promise<TrialFindings> {
  try {
    return (await tryOutModel?.(model)) ?? new Map();
  } catch (error) {
    throw invalidFile(errorMessage(error));
  }
}

/** Writes what a trial has found into a manifest. */
export function withFindings(manifest: ModelManifest, findings: TrialFindings): ModelManifest {
  const languages = manifest.languages.map((language) => ({ ...language, ...findings.get(language.code) }));
  return { ...manifest, languages };
}

function languagesOf(options: AddModelOptions, info: { multilingual: boolean }): ModelLanguage[] {
  return (options.languages ?? defaultLanguages(info)).map(fillLanguage);
}

/**
 * Places a model. The first one becomes the default. With another one the default stays as it was, unless the new
 * model knows all its languages and more, and an admin has not chosen it.
 */
export async function keepDefault(
  registry: ModelRegistry,
  id: string,
  place: () => Promise<void>,
): Promise<void> {
  const isFirst = registry.installed().length === 0;
  const previous = registry.findDefault();
  const isByItself = registry.isDefaultByItself();
  await place();
  if (isFirst || (previous && isByItself && knowsMore(registry.requireInstalled(id), previous)))
    registry.choose(id, true);
  // The previous model was the default because it was the only one. It stays the default.
  else if (registry.namedDefault() === undefined && previous) registry.choose(previous.id, true);
}

/** Reports whether a model has all languages of another one and more, and has failed its trial in none of those. */
function knowsMore({ languages }: InstalledModel, other: InstalledModel): boolean {
  const usable = new Set(languages.filter(({ trial }) => !isFailedTrial(trial)).map(({ code }) => code));
  return languages.length > other.languages.length && other.languages.every(({ code }) => usable.has(code));
}

/** Makes the error for a file of weights that cannot be used. */
export function invalidFile(message: string): AppError {
  return new AppError("invalid_request", { message, detail: "file" });
}

/** Makes the error `invalid_request` of any error. */
export function orInvalid<T>(check: () => T): T {
  try {
    return check();
  } catch (error) {
    throw invalidFile((error as Error).message);
  }
}

/** Checks the id of a new model. @throws AppError `invalid_request`, `conflict` */
export function requireFreeId(registry: ModelRegistry, id: string): string {
  if (!MODEL_ID_PATTERN.test(id)) {
    throw invalidFile(
      `${JSON.stringify(id)} cannot be a model's id: 1 to 64 of a to z, 0 to 9, dot, dash, underscore.`,
    );
  }
  if (registry.find(id)) throw new AppError("conflict", { message: `There is a model ${id} already.` });
  return id;
}

/** Refuses to write a manifest that could not be read again. */
export function checkManifest(manifest: ModelManifest): void {
  try {
    parseManifest(renderManifest(manifest), "manifest");
  } catch (error) {
    if (error instanceof ManifestError) throw invalidFile(error.message);
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
    decoding: options.decoding ?? {},
  };
}

/** Derives an id from a name: `large-v3-q5_0` stays, `Whisper Hindi` gives `whisper-hindi`. */
function idFromName(name: string): string {
  return name.toLowerCase().replace(/\s+/g, "-").slice(0, 64);
}

function defaultLanguages({ multilingual }: { multilingual: boolean }): AddedLanguage[] {
  if (!multilingual) return [{ code: "en" }];
  return LANGUAGES.filter(({ whisperCode }) => whisperCode !== undefined).map(({ code }) => ({ code }));
}

/** Fills in name and modes. English has no `codemix`: it is written in Latin letters only. */
function fillLanguage(language: AddedLanguage): ModelLanguage {
  const known = languageOf(language.code);
  const modes = language.modes ?? MODES.filter((mode) => mode !== "codemix" || language.code !== "en");
  return { ...language, modes, name: known?.name ?? language.code };
}
