import { AppError } from "../../domain/errors.ts";
import type {
  InstalledModel,
  ModelDecoding,
  ModelLanguage,
  ModelManifest,
  ModelPart,
} from "../../domain/model.ts";
import { isFailedTrial } from "../../domain/trial.ts";
import type { DescribedModel, ModelFamily, SaidOfModel } from "../../families/contract.ts";
import { FAMILIES, type Families } from "../../families/families.ts";
import { errorMessage } from "../../lib/error-message.ts";
import type { Log } from "../../lib/log.ts";
import { discardStaged, filesOf, partPaths, placeModel, placeModelFolder } from "./model-files.ts";
import { ManifestError, MODEL_ID_PATTERN, parseManifest, renderManifest } from "./model-manifest.ts";
import type { ModelRegistry } from "./model-registry.ts";
import type { ModelSource, StagedModel } from "./model-source.ts";

/** What `shruti models add` may say about a model. Each field that is left out is derived from the file. */
export type AddModelOptions = SaidOfModel & {
  /** Left out: the name of the source, such as that of the file without `ggml-` and `.bin`. */
  id?: string;
  name?: string;
  version?: string;
  licence?: string;
  source?: string;
  notice?: string;
  /** The hash that the file must have, lower-case hex; of several files the main one. */
  sha256?: string;
};

export type ModelAddingDeps = {
  /** Left out: those of the program. */
  families?: Families;
  /**
   * Recognizes some sound with a model before it is installed; left out: models are not tried.
   * @returns what it has found
   * @throws Error with the reason why it must not be installed
   */
  tryOutModel?: (model: InstalledModel) => Promise<TrialFindings>;
  log: Log;
};

/** What a trial has found. */
export type TrialFindings = {
  /** By the codes of languages: a verdict, and where that matters the best letters. */
  languages: ReadonlyMap<string, Pick<ModelLanguage, "trial" | "letters" | "decoderLanguage">>;
  /** The decoding with what was measured; left out: nothing was. */
  decoding?: ModelDecoding;
};

/** Whether a model is only checked and tried, and not installed. */
export type Adding = { isRehearsal: boolean };

/** Names in the directory of models that are no models. A model with several files has a folder of its name. */
const RESERVED_IDS = ["speakers"];

/**
 * Brings a model into the directory of models, tries it in a process of its own, and writes its manifest. The first model
 * becomes the default.
 *
 * @throws AppError `invalid_request` (detail `file`), `conflict` when the id is taken
 */
export async function addModel(
  { families = FAMILIES, tryOutModel, log }: ModelAddingDeps,
  registry: ModelRegistry,
  source: ModelSource,
  options: AddModelOptions,
  { isRehearsal }: Adding,
): Promise<InstalledModel> {
  orInvalid(source.check);
  const family = source.family ?? families.standard;
  const id = requireFreeId(registry, options.id ?? source.id ?? idFromName(source.name));
  if (family.roles && RESERVED_IDS.includes(id))
    throw invalidFile(`${id} cannot be a model's id: choose another with --id.`);
  // Before gigabytes are read. The hashes are not known yet.
  const given = source.files && orInvalid(source.files);
  const said = saidTo(family, options);
  const expected = orInvalid(() => family.describe(given && filesOf(family, given), said));
  const parts = family.roles ? given?.map(({ role, name }) => ({ role, name, sha256: NO_HASH })) : undefined;
  checkManifest(
    manifestOf(id, { sha256: NO_HASH, ...(parts ? { parts } : {}) }, expected, options),
    families,
  );
  const staged = await source.stage(registry.directory);
  try {
    requireHash(staged, options);
    const files = staged.parts ? partPaths(staged.path, staged.parts) : { weights: staged.path };
    // The engine will load the copy, and the original may have changed since the first check.
    const untried = manifestOf(
      id,
      staged,
      orInvalid(() => family.describe(files, said)),
      options,
    );
    checkManifest(untried, families);
    const model = { ...untried, files, bytes: staged.bytes, embedded: false };
    const manifest = withFindings(untried, await tryOut(tryOutModel, model));
    requireFreeId(registry, id);
    if (isRehearsal) return { ...model, languages: manifest.languages, decoding: manifest.decoding };
    await keepDefault(registry, id, () => place(registry.directory, staged, manifest, families));
  } finally {
    await discardStaged(staged);
  }
  log.info({ model: id }, "a model was added");
  return registry.requireInstalled(id);
}

const NO_HASH = "0".repeat(64);

/** Returns what an admin says of a model without the settings of other families. */
function saidTo({ keys }: ModelFamily, { languages, decoding }: SaidOfModel): SaidOfModel {
  const { tuning, ...common } = decoding ?? {};
  const own = tuning?.[keys.tuning];
  return {
    ...(languages ? { languages } : {}),
    decoding: { ...common, ...(own ? { tuning: { [keys.tuning]: own } } : {}) },
  };
}

/** @throws AppError `invalid_request` for another hash than the admin expects */
function requireHash({ sha256, parts }: StagedModel, options: AddModelOptions): void {
  if (options.sha256 === undefined || options.sha256 === sha256) return;
  const main = parts?.find((part) => part.sha256 === sha256)?.name;
  throw invalidFile(
    main === undefined
      ? `The file's SHA-256 is ${sha256}, not ${options.sha256}.`
      : `The SHA-256 of ${main} is ${sha256}, not ${options.sha256}.`,
  );
}

function place(
  directory: string,
  { parts, ...staged }: StagedModel,
  manifest: ModelManifest,
  families: Families,
): Promise<void> {
  return parts
    ? placeModelFolder(directory, { ...staged, parts }, manifest, families)
    : placeModel(directory, staged, manifest, families);
}

/**
 * Tries a model with its temporary files.
 *
 * @returns nothing where models are not tried
 * @throws AppError `invalid_request` when it must not be installed
 */
export async function tryOut(
  tryOutModel: ModelAddingDeps["tryOutModel"],
  model: InstalledModel,
): Promise<TrialFindings> {
  try {
    return (await tryOutModel?.(model)) ?? { languages: new Map() };
  } catch (error) {
    throw invalidFile(errorMessage(error));
  }
}

/** Writes what a trial has found into a manifest. */
function withFindings(manifest: ModelManifest, findings: TrialFindings): ModelManifest {
  const { decoding = manifest.decoding } = findings;
  const languages = manifest.languages.map((language) => ({
    ...language,
    ...findings.languages.get(language.code),
  }));
  return { ...manifest, languages, decoding };
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
function requireFreeId(registry: ModelRegistry, id: string): string {
  if (!MODEL_ID_PATTERN.test(id)) {
    throw invalidFile(
      `${JSON.stringify(id)} cannot be a model's id: 1 to 64 of a to z, 0 to 9, dot, dash, underscore.`,
    );
  }
  if (registry.find(id)) throw new AppError("conflict", { message: `There is a model ${id} already.` });
  return id;
}

/** Refuses to write a manifest that could not be read again. */
function checkManifest(manifest: ModelManifest, families: Families): void {
  try {
    parseManifest(renderManifest(manifest, families), "manifest", families);
  } catch (error) {
    if (error instanceof ManifestError) throw invalidFile(error.message);
    throw error;
  }
}

function manifestOf(
  id: string,
  {
    sha256,
    parts,
    origin,
    licence,
  }: Pick<StagedModel, "sha256" | "origin" | "licence"> & { parts?: ModelPart[] },
  { family, languages, decoding }: DescribedModel,
  options: AddModelOptions,
): ModelManifest {
  return {
    id,
    name: options.name ?? id,
    version: options.version ?? sha256.slice(0, 12),
    family,
    sha256,
    ...(parts ? { parts } : {}),
    languages,
    licence: options.licence ?? licence ?? "not stated",
    source: options.source ?? origin ?? "not stated",
    ...(options.notice === undefined ? {} : { notice: options.notice }),
    decoding,
  };
}

/** Derives an id from a name: `large-v3-q5_0` stays, `Whisper Hindi` gives `whisper-hindi`. */
function idFromName(name: string): string {
  return name.toLowerCase().replace(/\s+/g, "-").slice(0, 64);
}
