import type { ModelFiles } from "../../domain/model.ts";
import { checkKenlmFile } from "../../lib/kenlm-file.ts";
import { about } from "./model-files.ts";

/** The role of n-gram models of words. Each is in KenLM's binary form, and its name has the language. */
export const NGRAM_ROLE = "ngram";
const KEY = /^ngram:ngram\.([a-z]{2,3})\.klm$/;

/** Returns the name that the n-gram model of a language has among the files of a model. */
export const ngramNameOf = (language: string): string => `ngram.${language}.klm`;

/** Finds the n-gram models of a model: paths by language. */
export function ngramsOf(files: ModelFiles): Map<string, string> {
  return new Map(
    Object.entries(files).flatMap(([key, path]): [string, string][] => {
      const [, language] = KEY.exec(key) ?? [];
      return language === undefined ? [] : [[language, path]];
    }),
  );
}

/** @throws Error with the file and the reason why it cannot be used */
export function checkNgrams(files: ModelFiles): void {
  for (const path of ngramsOf(files).values()) about(path, () => checkKenlmFile(path));
}
