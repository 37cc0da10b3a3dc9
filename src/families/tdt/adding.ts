import { basename } from "node:path";
import { languageOf } from "../../domain/languages.ts";
import { fileOf, type ModelFiles, type ModelLanguage } from "../../domain/model.ts";
import { isGgufFile } from "../../lib/gguf-file.ts";
import type { DescribedModel, GivenModel, SaidLanguage, SaidOfModel } from "../contract.ts";
import { checkTdtFile } from "./model-file.ts";

/** A token that many models have for sounds that they do not know. */
const UNKNOWN_TOKEN = "<unk>";

/** Finds a GGUF file. Those of other programs are refused by the check. */
export function givenGguf(path: string): GivenModel | undefined {
  if (!isGgufFile(path)) return undefined;
  const name = basename(path);
  return {
    kind: "a GGUF file of a TDT model",
    name: name.replace(/\.gguf$/i, ""),
    files: () => [{ role: "weights", name, path }],
  };
}

/** Says what the manifest of a new model holds. @throws Error when nothing names its languages */
export function describeTdt(
  family: string,
  files: ModelFiles | undefined,
  { languages: said }: SaidOfModel,
): DescribedModel {
  const info = files && checkTdtFile(fileOf(files, "weights"));
  const named = (info?.languages ?? []).map((code): SaidLanguage => ({ code }));
  const languages = said ?? named;
  if (info && languages.length === 0)
    throw new Error("The model does not name its languages: give each one with --language.");
  return {
    family,
    languages: (languages.length > 0 ? languages : [{ code: "en" }]).map(fillLanguage),
    decoding: info?.tokens.includes(UNKNOWN_TOKEN) ? { unknownToken: UNKNOWN_TOKEN } : {},
  };
}

/** Mode `native` alone: whether training kept hesitations and English words is not in the file. */
function fillLanguage(language: SaidLanguage): ModelLanguage {
  const { code } = language;
  return { ...language, modes: language.modes ?? ["native"], name: languageOf(code)?.name ?? code };
}
