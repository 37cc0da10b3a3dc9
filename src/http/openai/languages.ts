import { LANGUAGES } from "../../domain/languages.ts";

const CODE_OF_NAME = new Map(
  LANGUAGES.flatMap(({ code, name, nativeName }) => [
    [name.toLowerCase(), code],
    [nativeName.toLowerCase(), code],
  ]),
);

/**
 * Finds the language code in what clients send: a code (`hi`, `EN`), a tag (`hi-IN`, `en_US`), a three-letter code
 * (`hin`) or a name (`Hindi`). What is none of these is returned in lower case; no model has it.
 */
export function languageCodeOf(text: string): string {
  const word = text.trim().toLowerCase();
  const named = CODE_OF_NAME.get(word);
  if (named !== undefined) return named;
  try {
    return new Intl.Locale(word.replaceAll("_", "-")).language;
  } catch {
    return word;
  }
}

/** Returns the English name of a language in lower case, as OpenAI writes it; the code where the name is unknown. */
export function languageNameOf(code: string): string {
  return LANGUAGES.find((language) => language.code === code)?.name.toLowerCase() ?? code;
}
