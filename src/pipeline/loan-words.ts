import type { Script } from "../domain/languages.ts";
import { normalizeText } from "./unicode.ts";
import { wordingOf } from "./wording-tables.ts";

/** Returns the English words of a language by their spelling in its own script, in the Unicode form of the program. */
export function loanWordsOf(code: string, scripts: readonly Script[]): ReadonlyMap<string, string> {
  const words = Object.entries(wordingOf(code, scripts).loanWords ?? {});
  return new Map(words.map(([spelled, english]) => [normalizeText(spelled, code), english]));
}
