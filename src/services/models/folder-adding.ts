import { statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { languageOf } from "../../domain/languages.ts";
import type { InstalledModel, ModelLanguage, ModelManifest, ModelPart } from "../../domain/model.ts";
import {
  type Adding,
  type AddModelOptions,
  type CtcFolderInfo,
  checkManifest,
  invalidFile,
  keepDefault,
  type ModelAddingDeps,
  orInvalid,
  requireFreeId,
  tryOut,
  withFindings,
} from "./model-adding.ts";
import { discardStaged, partPaths, placeModelFolder, stageFolder } from "./model-files.ts";
import type { ModelRegistry } from "./model-registry.ts";

const MODEL_NAME = "model.onnx";
const TOKENS_NAME = "tokens.txt";
/** A token that many models have for sounds that they do not know. */
const UNKNOWN_TOKEN = "<unk>";
/** Names in the directory of models that are no models. */
const RESERVED_IDS = ["speakers"];

/** Reports whether a path is a folder with a CTC model, at least a part of one. */
export function isCtcFolder(path: string): boolean {
  const isThere = (name: string) => statSync(join(path, name), { throwIfNoEntry: false }) !== undefined;
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
  return isFolder && (isThere(MODEL_NAME) || isThere(TOKENS_NAME));
}

/**
 * Copies the files of a CTC model into the directory of models, tries them in a process of their own, and writes their
 * manifest. The first model becomes the default.
 *
 * @param folder has `model.onnx`, `tokens.txt`, and the files of weights that the model names
 * @throws AppError `invalid_request` (detail `file`), `conflict` when the id is taken
 */
export async function addCtcFolder(
  { checkCtcFiles, tryOutModel, log }: ModelAddingDeps,
  registry: ModelRegistry,
  folder: string,
  options: AddModelOptions,
  { isRehearsal }: Adding,
): Promise<InstalledModel> {
  const check = (path: string) => checkCtcFiles(join(path, MODEL_NAME), join(path, TOKENS_NAME));
  const info = orInvalid(() => check(folder));
  const id = requireFreeId(registry, options.id ?? basename(resolve(folder)).toLowerCase());
  if (RESERVED_IDS.includes(id)) throw invalidFile(`${id} cannot be a model's id: choose another with --id.`);
  const languages = languagesOf(info, options);
  const sources = [
    { role: "model", name: MODEL_NAME },
    { role: "tokens", name: TOKENS_NAME },
    ...info.external.map((name) => ({ role: "weights", name })),
  ].map((part) => ({ ...part, path: join(folder, part.name) }));
  // Before gigabytes are copied. Only the hashes are not known yet.
  const unhashed = sources.map(({ role, name }) => ({ role, name, sha256: "0".repeat(64) }));
  checkManifest(manifestOf(id, unhashed, info, languages, options));
  const staged = await stageFolder(sources, registry.directory);
  try {
    // The engine will load the copy, and the original may have changed since the first check.
    orInvalid(() => check(staged.path));
    const untried = manifestOf(id, staged.parts, info, languages, options);
    if (options.sha256 !== undefined && options.sha256 !== untried.sha256) {
      throw invalidFile(`The SHA-256 of ${MODEL_NAME} is ${untried.sha256}, not ${options.sha256}.`);
    }
    const files = partPaths(staged.path, staged.parts);
    const model = { ...untried, files, bytes: staged.bytes, embedded: false };
    const manifest = withFindings(untried, await tryOut(tryOutModel, model));
    if (isRehearsal) return { ...model, languages: manifest.languages };
    await keepDefault(registry, id, () => placeModelFolder(registry.directory, staged, manifest));
  } finally {
    await discardStaged(staged);
  }
  log.info({ model: id }, "a model was added");
  return registry.requireInstalled(id);
}

function manifestOf(
  id: string,
  parts: ModelPart[],
  info: CtcFolderInfo,
  languages: ModelLanguage[],
  options: AddModelOptions,
): ModelManifest {
  const sha256 = parts.find(({ role }) => role === "model")?.sha256 ?? "";
  return {
    id,
    name: options.name ?? id,
    version: options.version ?? sha256.slice(0, 12),
    family: info.family,
    sha256,
    parts,
    languages,
    licence: options.licence ?? "not stated",
    source: options.source ?? "not stated",
    ...(options.notice === undefined ? {} : { notice: options.notice }),
    decoding: {
      ...(info.tokens.includes(UNKNOWN_TOKEN) ? { unknownToken: UNKNOWN_TOKEN } : {}),
      ...(options.features === undefined ? {} : { ctc: { features: options.features } }),
    },
  };
}

/**
 * Returns the languages of the options, else those that the model names. Mode `native` alone: whether training kept
 * hesitations and English words is not in the files.
 */
function languagesOf({ tokens, languages: named }: CtcFolderInfo, options: AddModelOptions): ModelLanguage[] {
  const given: NonNullable<AddModelOptions["languages"]> =
    options.languages ?? [...named.keys()].map((code) => ({ code }));
  if (given.length === 0) {
    throw invalidFile("The model does not name its languages: give each one with --language.");
  }
  return given.map((language) => {
    const tokenSpan = language.tokenSpan ?? named.get(language.code);
    if (tokenSpan && tokenSpan.last >= tokens.length - 1) {
      throw invalidFile(
        `The tokens ${tokenSpan.first} to ${tokenSpan.last} of ${language.code} are not among the model's ${tokens.length - 1}.`,
      );
    }
    return {
      ...language,
      modes: language.modes ?? ["native"],
      name: languageOf(language.code)?.name ?? language.code,
      ...(tokenSpan ? { tokenSpan } : {}),
    };
  });
}
