import type { InstalledModel } from "../../domain/model.ts";
import { FAMILIES } from "../../families/families.ts";
import type { LetterChoice } from "../../pipeline/letter-conversion.ts";
import { characterErrorRate } from "./trial-verdict.ts";

/** Fewer errors than this share of the characters are no reason for a choice: a sample is one sentence. */
const CLEARLY_FEWER = 0.1;

/** Returns a model that writes a language in the chosen letters. */
export function withLetters(
  model: InstalledModel,
  language: string,
  choice: LetterChoice | undefined,
): InstalledModel {
  const languages = model.languages.map((one) => (one.code === language ? { ...one, ...choice } : one));
  return { ...model, languages };
}

/**
 * Finds the letters in which a model writes a sample with the fewest errors: those of the language alone, the
 * same after a sentence in them, or those of another script, which are rewritten.
 *
 * @param heard what it writes without a choice
 * @param hear recognizes the sample with a model; undefined: the time was over
 * @returns undefined where there is no choice, where the manifest has made it, or where none is clearly better
 */
export async function bestLetters(
  model: InstalledModel,
  { language, said }: { language: string; said: string },
  heard: string,
  hear: (model: InstalledModel) => Promise<string | undefined>,
): Promise<LetterChoice | undefined> {
  const { letters, decoderLanguage } = model.languages.find(({ code }) => code === language) ?? {};
  const isChosen = letters !== undefined || decoderLanguage !== undefined;
  if (isChosen) return undefined;
  let best: LetterChoice | undefined;
  let mostErrors = characterErrorRate(said, heard, language) - CLEARLY_FEWER;
  for (const choice of FAMILIES.of(model.family).trial.letterChoices?.(language, model.decoding) ?? []) {
    const text = await hear(withLetters(model, language, choice));
    if (text === undefined) break;
    const errors = characterErrorRate(said, text, language);
    if (errors > mostErrors) continue;
    best = choice;
    mostErrors = errors;
  }
  return best;
}
