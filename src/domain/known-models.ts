import { languageOf } from "./languages.ts";
import { SCHEDULED_LANGUAGES } from "./published-models.ts";

/** Public models that this program can run, with the languages that they were trained for (docs/models.md section 1). */

/** IndicConformer: the languages of its published models. */
const INDIC_CONFORMER = new Set(SCHEDULED_LANGUAGES);

/** Returns the names of public models that know a language; none for a code that the program does not know. */
export function knownModelsFor(code: string): string[] {
  const language = languageOf(code);
  if (!language) return [];
  return [
    ...(INDIC_CONFORMER.has(code) ? ["IndicConformer"] : []),
    ...(language.whisperCode === undefined ? [] : ["Whisper large-v3"]),
  ];
}
