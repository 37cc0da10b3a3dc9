import type { Script } from "../domain/languages.ts";
import type { ModelLanguage, ModelManifest } from "../domain/model.ts";
import { devanagariOfUrdu } from "./urdu-letters.ts";
import { ownSentenceOf } from "./wording.ts";

type Convert = (text: string) => string;

/** The scripts in which a model writes a language, and how its text becomes one in the language's own letters. */
export type Conversion = { scripts: readonly Script[]; convert: Convert };

/**
 * By language. `otherLanguage` is the one that is usually written in the other script. For other languages no way from
 * another script was measured.
 */
const OTHER_SCRIPTS: Readonly<
  Record<string, { own: Script; other: Script; otherLanguage: string; convert: Convert }>
> = {
  hi: { own: "Devanagari", other: "Arabic", otherLanguage: "ur", convert: devanagariOfUrdu },
};

/** In which letters a model writes a language, and the code under which it then knows the language. */
export type LetterChoice = Required<Pick<ModelLanguage, "letters">> & Pick<ModelLanguage, "decoderLanguage">;

/**
 * Returns the choices that a manifest can have instead of `either`, the default, those that cost more first: a sentence in
 * the language's letters, where one is known, and those of a language with a second script.
 *
 * @param takesPrompts false: the model must not be given a sentence
 */
export function letterChoicesOf(language: string, takesPrompts: boolean): readonly LetterChoice[] {
  const scripts = OTHER_SCRIPTS[language];
  const hasSentence = takesPrompts && ownSentenceOf(language) !== undefined;
  return [
    ...(hasSentence ? [{ letters: "prompted" } as const] : []),
    ...(scripts
      ? [{ letters: "own" } as const, { letters: "other", decoderLanguage: scripts.otherLanguage } as const]
      : []),
  ];
}

/** Returns undefined where a language has no other script, or the manifest of the model leaves it out. */
export function conversionOf(
  language: string,
  model: Pick<ModelManifest, "languages">,
): Conversion | undefined {
  const way = model.languages.find(({ code }) => code === language)?.letters ?? "either";
  const scripts = OTHER_SCRIPTS[language];
  if (!scripts || way === "own" || way === "prompted") return undefined;
  const { own, other, convert } = scripts;
  return { scripts: way === "other" ? [other] : [own, other], convert };
}
