import { existsSync } from "node:fs";
import { join } from "node:path";
import { InvalidArgumentError } from "commander";
import { AppError } from "../../domain/errors.ts";
import type { GivenFile } from "../../families/contract.ts";
import { NGRAM_ROLE, ngramNameOf } from "../../families/ctc/ngram-files.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { checkKenlmFile, isKenlmFile } from "../../lib/kenlm-file.ts";
import { makeScratch, removeScratch } from "../../lib/scratch.ts";
import { CommandError } from "../frame/context.ts";

/** An n-gram model that an admin gives. `language` left out: that of the model. */
export type GivenNgram = { language?: string; path: string };

/** Files that a model receives, and what removes the converted ones among them. */
export type PreparedNgrams = { files: GivenFile[]; remove: () => void };

/** Parses `FILE` or `hi=FILE`. */
export function collectNgram(text: string, collected: GivenNgram[] = []): GivenNgram[] {
  const [, language, named] = /^([a-z]{2,3})=(.+)$/.exec(text) ?? [];
  const ngram = language === undefined || named === undefined ? { path: text } : { language, path: named };
  if (ngram.path === "") throw new InvalidArgumentError("It is a file, or as hi=FILE.");
  return [...collected, ngram];
}

/**
 * Makes files of a model of the given n-gram models: those in KenLM's binary form as they are, ARPA files converted.
 *
 * @param languages those that the admin names for the model
 * @returns the files, and what removes the converted ones
 * @throws CommandError, AppError `invalid_request` with the file and the reason why it cannot be used
 */
export async function prepareNgrams(
  ngrams: readonly GivenNgram[],
  languages: readonly { code: string }[],
): Promise<PreparedNgrams> {
  if (ngrams.length === 0) return { files: [], remove: () => {} };
  const folder = makeScratch();
  const remove = () => removeScratch(folder);
  try {
    const files: GivenFile[] = [];
    for (const { language = onlyOf(languages), path } of ngrams) {
      const name = ngramNameOf(language);
      if (files.some((file) => file.name === name)) {
        throw new CommandError("usage", `--ngram is given twice for ${language}`);
      }
      files.push({ role: NGRAM_ROLE, name, path: await inBinaryForm(path, join(folder, name)) });
    }
    return { files, remove };
  } catch (error) {
    remove();
    throw error;
  }
}

function onlyOf(languages: readonly { code: string }[]): string {
  const [only] = languages;
  if (only && languages.length === 1) return only.code;
  throw new CommandError("usage", "say of which language --ngram is, such as --ngram hi=hindi.arpa");
}

async function inBinaryForm(path: string, target: string): Promise<string> {
  if (!existsSync(path)) throw new CommandError("not_found", `there is no file ${path}`);
  try {
    const isBinary = isKenlmFile(path);
    if (!isBinary) await (await import("../../model-import/arpa.ts")).convertArpa(path, target);
    const made = isBinary ? path : target;
    checkKenlmFile(made);
    return made;
  } catch (error) {
    const message = `${path} cannot be used: ${errorMessage(error)}`;
    throw new AppError("invalid_request", { message, detail: "ngram" });
  }
}
