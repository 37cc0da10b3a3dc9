import { statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { languageOf } from "../../domain/languages.ts";
import { fileOf, type ModelFiles, type ModelLanguage } from "../../domain/model.ts";
import type { DescribedModel, GivenModel, SaidLanguage, SaidOfModel } from "../contract.ts";
import { checkIndicFiles, findIndicFolder, type IndicRole } from "./indic-files.ts";
import { type CtcModelInfo, checkCtcFiles } from "./model-files.ts";
import { ngramsOf } from "./ngram-files.ts";

const MODEL_NAME = "model.onnx";
const TOKENS_NAME = "tokens.txt";
/** A token that many models have for sounds that they do not know. */
const UNKNOWN_TOKEN = "<unk>";

/** Finds a folder with `model.onnx`, `tokens.txt`, and the files of weights that the model names, or a part of these. */
export function givenCtcFolder(path: string): GivenModel | undefined {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return undefined;
  const isThere = (name: string) => statSync(join(path, name), { throwIfNoEntry: false }) !== undefined;
  const missing = [MODEL_NAME, TOKENS_NAME].filter((name) => !isThere(name));
  if (missing.length === 2) return undefined;
  const name = basename(resolve(path));
  return {
    kind: "the folder of a CTC model",
    name,
    id: name.toLowerCase(),
    isPart: missing.length > 0,
    files() {
      const { external } = checkCtcFiles(join(path, MODEL_NAME), join(path, TOKENS_NAME));
      return [
        { role: "model", name: MODEL_NAME },
        { role: "tokens", name: TOKENS_NAME },
        ...external.map((each) => ({ role: "weights", name: each })),
      ].map((file) => ({ ...file, path: join(path, file.name) }));
    },
  };
}

/** Finds a folder with an IndicConformer as it is published, or its encoder and a part of the rest. */
export function givenIndicFolder(path: string): GivenModel | undefined {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return undefined;
  const found = findIndicFolder(path);
  if (!found) return undefined;
  const { folder, names, missing } = found;
  const roles = Object.entries(names) as [IndicRole, string][];
  const name = basename(resolve(path));
  return {
    kind: "the folder of an IndicConformer",
    name,
    id: name.toLowerCase(),
    isPart: missing.length > 0,
    files() {
      if (missing.length > 0)
        throw new Error(`${folder} has ${names.model}, but no ${missing.join(", no ")}`);
      const { external } = checkIndicFiles(
        Object.fromEntries(roles.map(([role, file]) => [role, join(folder, file)])),
      );
      return [
        ...roles.map(([role, file]) => ({ role, name: file })),
        ...external.map((file) => ({ role: "weights", name: file })),
      ].map((file) => ({ ...file, path: join(folder, file.name) }));
    },
  };
}

const NO_FILES = "The files of a CTC model are needed to describe it.";

/** Says what the manifest of a new model holds. @throws Error with the reason why files and languages do not fit */
export function describeCtc(files: ModelFiles | undefined, said: SaidOfModel): DescribedModel {
  if (!files) throw new Error(NO_FILES);
  return describe(checkCtcFiles(fileOf(files, "model"), fileOf(files, "tokens")), files, said);
}

/** Does the same for an IndicConformer, of which each language has tokens of its own. */
export function describeIndic(files: ModelFiles | undefined, said: SaidOfModel): DescribedModel {
  if (!files) throw new Error(NO_FILES);
  const info = checkIndicFiles(files);
  for (const { code, tokenSpan } of said.languages ?? []) {
    if (tokenSpan || info.languages.has(code)) continue;
    throw new Error(
      `The model has no tokens of ${code}. It has those of ${[...info.languages.keys()].join(", ")}.`,
    );
  }
  return describe(info, files, said);
}

function describe(
  info: CtcModelInfo,
  files: ModelFiles,
  { languages: said, decoding: { tuning } = {} }: SaidOfModel,
): DescribedModel {
  const languages = languagesOf(info, said);
  for (const code of ngramsOf(files).keys()) {
    if (languages.some((language) => (language.decoderLanguage ?? language.code) === code)) continue;
    throw new Error(`There is an n-gram model of ${code}, and the model is not added for that language.`);
  }
  return {
    family: info.family,
    languages,
    decoding: {
      ...(info.tokens.includes(UNKNOWN_TOKEN) ? { unknownToken: UNKNOWN_TOKEN } : {}),
      ...(tuning ? { tuning } : {}),
    },
  };
}

/**
 * Returns the languages that an admin names, else those that the model names. Mode `native` alone: whether training kept
 * hesitations and English words is not in the files.
 */
function languagesOf(
  { tokens, languages: named }: Pick<CtcModelInfo, "tokens" | "languages">,
  said: readonly SaidLanguage[] | undefined,
): ModelLanguage[] {
  const given = said ?? [...named.keys()].map((code): SaidLanguage => ({ code }));
  if (given.length === 0) {
    throw new Error("The model does not name its languages: give each one with --language.");
  }
  return given.map((language) => {
    const tokenSpan = language.tokenSpan ?? named.get(language.code);
    if (tokenSpan && tokenSpan.last >= tokens.length - 1) {
      throw new Error(
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
