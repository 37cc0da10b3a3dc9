import type { Script } from "../domain/languages.ts";

/** The codes of ISO 15924, in lower case, of the scripts that the program knows. */
const CODES = {
  Arabic: "arab",
  Bengali: "beng",
  Devanagari: "deva",
  Gujarati: "gujr",
  Gurmukhi: "guru",
  Kannada: "knda",
  Latin: "latn",
  Malayalam: "mlym",
  Meetei_Mayek: "mtei",
  Ol_Chiki: "olck",
  Oriya: "orya",
  Tamil: "taml",
  Telugu: "telu",
} as const satisfies Record<Script, string>;

const BY_CODE: ReadonlyMap<string, Script> = new Map(
  Object.entries(CODES).map(([script, code]) => [code, script as Script]),
);

/** Returns the code of a script in ISO 15924, in lower case: `deva`. */
export function codeOfScript(script: Script): string {
  return CODES[script];
}

/** Finds the script of a code of ISO 15924 in lower case; undefined: the program does not know it. */
export function scriptOfCode(code: string): Script | undefined {
  return BY_CODE.get(code);
}
