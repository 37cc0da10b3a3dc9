import type { Script } from "../domain/languages.ts";
import type { ModelManifest } from "../domain/model.ts";
import { devanagariOfUrdu } from "./urdu-letters.ts";

type Convert = (text: string) => string;

/** The scripts in which a model writes a language, and how its text becomes one in the language's own letters. */
export type Conversion = { scripts: readonly Script[]; convert: Convert };

/** By language. For others no way from another script was measured. */
const OTHER_SCRIPTS: Readonly<Record<string, { own: Script; other: Script; convert: Convert }>> = {
  hi: { own: "Devanagari", other: "Arabic", convert: devanagariOfUrdu },
};

/** Returns undefined where a language has no other script, or the manifest of the model leaves it out. */
export function conversionOf(
  language: string,
  model: Pick<ModelManifest, "languages">,
): Conversion | undefined {
  const way = model.languages.find(({ code }) => code === language)?.letters ?? "either";
  const scripts = OTHER_SCRIPTS[language];
  if (!scripts || way === "own") return undefined;
  const { own, other, convert } = scripts;
  return { scripts: way === "other" ? [other] : [own, other], convert };
}
