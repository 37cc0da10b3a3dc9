import { type Language, languageOf, type Script } from "../domain/languages.ts";
import { ALPHABETS } from "./alphabets.ts";
import { lettersWithoutCounterpart } from "./brahmic.ts";
import { BRAHMIC_SCRIPTS, type BrahmicScript, isBrahmic } from "./brahmic-letters.ts";
import { codeOfScript, scriptOfCode } from "./script-codes.ts";

/** What each language is offered. The rules and tables that write a text are elsewhere: they are loaded when one is asked for. */

/** Returns what a language can be written in, `native` first. */
export function scriptsFor(language: string): readonly string[] {
  const codes = [...BRAHMIC_SCRIPTS, "Arabic", "Latin", "Meetei_Mayek", "Ol_Chiki"] as const;
  const values = ["native", "latin", "iso15919", ...codes.map(codeOfScript).toSorted()];
  return values.filter((script) => scriptRefusal(language, script) === undefined);
}

/** Why text in Arabic letters is not written otherwise. */
export const UNVOCALISED =
  "Arabic letters leave short vowels out, and several letters have one sound, so the text would be guessed.";

/**
 * Returns why a language is not offered in a script.
 *
 * @returns undefined: it is offered
 */
export function scriptRefusal(language: string, script: string): string | undefined {
  const known = languageOf(language);
  if (!known) return `The language ${language} is not known.`;
  if (script === "native") return undefined;
  if (script === "latin") return latinRefusal(known);
  if (script === "iso15919") return iso15919Refusal(known);
  const wanted = scriptOfCode(script);
  if (!wanted)
    return "The script is native, latin, iso15919, or a code of ISO 15924 in lower case, such as deva.";
  return scriptCodeRefusal(known, wanted);
}

function latinRefusal({ name, scripts: [home] }: Language): string | undefined {
  return home === "Arabic" ? `${name} is written in Arabic letters. ${UNVOCALISED}` : undefined;
}

function iso15919Refusal({ name, scripts: [home] }: Language): string | undefined {
  if (isBrahmic(home) || home === "Meetei_Mayek") return undefined;
  if (home === "Arabic") return `${name} is written in Arabic letters. ${UNVOCALISED}`;
  return `ISO 15919 has no letters for the script of ${name}.`;
}

function scriptCodeRefusal({ code, name, scripts }: Language, wanted: Script): string | undefined {
  const [home] = scripts;
  if (home === wanted) return undefined;
  if (home === "Arabic") return `${name} is written in Arabic letters. ${UNVOCALISED}`;
  if (scripts.includes(wanted)) return undefined;
  if (code === "pa" && wanted === "Arabic") return undefined;
  if (!isBrahmic(home) || !isBrahmic(wanted)) return `${name} is not written in this script.`;
  const missing = missingLetters(code, home, wanted);
  if (missing.length === 0) return undefined;
  return `This script does not have all letters of ${name}: ${missing.slice(0, MISSING_SHOWN).join(" ")}.`;
}

const MISSING_SHOWN = 5;
/** By language and script, because a refusal is asked for with each text. */
const missingLettersFound = new Map<string, readonly string[]>();

function missingLetters(language: string, home: BrahmicScript, wanted: BrahmicScript): readonly string[] {
  const key = `${language} ${wanted}`;
  let missing = missingLettersFound.get(key);
  if (!missing) {
    const letters = (ALPHABETS[language] ?? "").normalize("NFC");
    // Tamil writes one letter for four sounds, so its letters are those of no other language.
    missing =
      wanted === "Tamil" ? ["ख", "ग", "घ"] : lettersWithoutCounterpart(letters, wanted, { language, home });
    missingLettersFound.set(key, missing);
  }
  return missing;
}
