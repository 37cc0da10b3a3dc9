import { type Language, languageOf, type Script } from "../domain/languages.ts";
import { loanWordsOf } from "../pipeline/loan-words.ts";
import { normalizeText } from "../pipeline/unicode.ts";
import { type BrahmicOptions, convertBrahmic, toPivot } from "./brahmic.ts";
import { BRAHMIC_SCRIPTS, type BrahmicScript, isBrahmic } from "./brahmic-letters.ts";
import { iso15919Of } from "./iso15919.ts";
import { latinOf } from "./latin.ts";
import { bengaliToMeetei, meeteiToBengali } from "./meetei.ts";
import { scriptRefusal, UNVOCALISED } from "./offered.ts";
import { devanagariToOlChiki, olChikiToDevanagari } from "./ol-chiki.ts";
import { scriptOfCode } from "./script-codes.ts";
import {
  type ArabicAlphabet,
  arabicToDevanagari,
  devanagariToArabic,
  PUNJABI_ALPHABET,
  SINDHI_ALPHABET,
} from "./vocalised-arabic.ts";

/** What a reader asks for: the script of a text. */
export type ScriptOptions = {
  /** ISO code. */
  language: string;
  /** `native`, `latin`, `iso15919`, or the code of a script in ISO 15924, in lower case. */
  script: string;
};

/** A stretch of a text, by places of UTF-16, the end behind its last one. */
type Span = { start: number; end: number };

/** The text and where its stretches are, or why it cannot be written so without loss. */
type Written<S extends Span> = { text: string; spans: S[] } | { refusal: string };

/**
 * Writes a text of a language in another script, or in Latin letters. Letters of other scripts than the language's and signs stay.
 * Between scripts the way back gives the same text; Latin letters have none.
 *
 * @param text as `normalizeForScripts` returns it
 * @param spans stretches of the text, in order, not overlapping: each is written by itself
 * @returns the text in NFC with the stretches; or the reason in English where the language is not offered so, or where this text
 *   would lose something
 */
export function applyScript<S extends Span>(
  text: string,
  options: ScriptOptions,
  spans: readonly S[] = [],
): Written<S> {
  const refusal = scriptRefusal(options.language, options.script);
  if (refusal !== undefined) return { refusal };
  const moved: S[] = [];
  let written = "";
  let from = 0;
  let refused: string | undefined;
  const writeUpTo = (to: number): number => {
    const outcome = convertText(text.slice(from, to), options);
    if ("refusal" in outcome) refused ??= outcome.refusal;
    else written += outcome.text;
    from = to;
    return written.length;
  };
  for (const span of spans) {
    const start = writeUpTo(span.start);
    moved.push({ ...span, start, end: writeUpTo(span.end) });
  }
  writeUpTo(text.length);
  return refused === undefined ? { text: written, spans: moved } : { refusal: refused };
}

type Converted = { text: string } | { refusal: string };

function convertText(text: string, { language, script }: ScriptOptions): Converted {
  const known = languageOf(language);
  if (!known || script === "native") return { text };
  if (script === "latin" || script === "iso15919") return { text: toLatin(text, known, script) };
  const wanted = scriptOfCode(script);
  return wanted ? toScript(text, known, wanted) : { text };
}

function toLatin(text: string, language: Language, style: "latin" | "iso15919"): string {
  const { code, scripts } = language;
  const [home] = scripts;
  if (home === "Latin") return text;
  if (style === "iso15919") {
    // Gurmukhi has two nasal signs, and Tamil another sign than a visarga at its place.
    const marked = text.replaceAll(TIPPI, "ṃ").replaceAll(AYTHAM, "ḵ");
    return iso15919Of(pivotOf(marked, language)).normalize("NFC");
  }
  const loanWords = loanWordsFor(language);
  const english = text.replace(WORD, (word) => loanWords.get(word) ?? word);
  return latinOf(pivotOf(english, language), code);
}

const TIPPI = "\u0A70";
const AYTHAM = "\u0B83";
const WORD = /[\p{L}\p{M}\u200C\u200D]+/gu;
const loanWordTables = new Map<string, ReadonlyMap<string, string>>();

function loanWordsFor({ code, scripts }: Language): ReadonlyMap<string, string> {
  let words = loanWordTables.get(code);
  if (!words) {
    words = loanWordsOf(code, scripts);
    loanWordTables.set(code, words);
  }
  return words;
}

/** Writes a text with the letters of Devanagari, whichever of the language's scripts it has. */
function pivotOf(text: string, { code, scripts: [home] }: Language): string {
  if (code === "mni") {
    return toPivot(meeteiToBengali(text), "Bengali", { language: code, home: "Bengali" });
  }
  if (code === "sat") return olChikiToDevanagari(text);
  return isBrahmic(home) ? toPivot(text, home, { language: code, home }) : text;
}

function toScript(text: string, { code, scripts }: Language, wanted: Script): Converted {
  const [home] = scripts;
  if (code === "mni") {
    return { text: wanted === "Bengali" ? meeteiToBengali(text) : bengaliToMeetei(text) };
  }
  if (code === "sat") {
    return { text: wanted === "Devanagari" ? olChikiToDevanagari(text) : devanagariToOlChiki(text) };
  }
  if (code === "pa") return toScriptOfPunjabi(text, wanted);
  if (wanted === "Arabic") return toOwnArabic(text, code);
  if (!isBrahmic(home) || !isBrahmic(wanted)) return { text };
  return { text: convertAll(text, wanted, code, home) };
}

/** Writes the usual letters of Urdu, Kashmiri or Sindhi where a model wrote Devanagari. */
function toOwnArabic(text: string, language: string): Converted {
  if (!SCRIPT_PATTERNS.Devanagari.test(text)) return { text };
  if (language === "sd") return toArabic(text, SINDHI_ALPHABET);
  return {
    refusal: "The text is in Devanagari, which does not say which of several Arabic letters is meant.",
  };
}

function toScriptOfPunjabi(text: string, wanted: Script): Converted {
  if (wanted === "Arabic") {
    const options = { language: "pa", home: "Gurmukhi" } as const;
    return toArabic(toPivot(text, "Gurmukhi", options), PUNJABI_ALPHABET);
  }
  const devanagari = arabicToDevanagari(text, PUNJABI_ALPHABET);
  if (devanagari === undefined) return { refusal: `The text is in Arabic letters. ${UNVOCALISED}` };
  return isBrahmic(wanted) ? { text: convertAll(devanagari, wanted, "pa", "Gurmukhi") } : { text };
}

/** Writes the letters of all Brahmic scripts of the language's reach in one of them. */
function convertAll(text: string, wanted: BrahmicScript, language: string, home: BrahmicScript): string {
  const options = { language, home };
  const sources = BRAHMIC_SCRIPTS.filter((script) => script !== wanted && hasScript(text, script));
  return sources.reduce((converted, script) => convertWords(converted, script, wanted, options), text);
}

/** Writes words in another script. A word whose way back would be another one stays: its letters follow no orthography. */
function convertWords(text: string, from: BrahmicScript, to: BrahmicScript, options: BrahmicOptions): string {
  const converted = convertBrahmic(text, from, to, options);
  if (convertBrahmic(converted, to, from, options) === text) return converted;
  return text.replace(WORD, (word) => {
    const written = convertBrahmic(word, from, to, options);
    return convertBrahmic(written, to, from, options) === word ? written : word;
  });
}

function hasScript(text: string, script: BrahmicScript): boolean {
  return SCRIPT_PATTERNS[script].test(text);
}

const SCRIPT_PATTERNS = Object.fromEntries(
  BRAHMIC_SCRIPTS.map((script) => [script, new RegExp(`\\p{Script=${script}}`, "u")]),
) as Record<BrahmicScript, RegExp>;

/** Writes Devanagari in Arabic letters, where the way back gives the same. */
function toArabic(pivot: string, alphabet: ArabicAlphabet): Converted {
  const text = devanagariToArabic(pivot, alphabet);
  const isLossless = text !== undefined && arabicToDevanagari(text, alphabet) === pivot;
  return isLossless
    ? { text }
    : { refusal: "The text has letters or signs that Arabic letters cannot keep." };
}

/** A joiner at the end of a word tells a chillu of Malayalam from a short u, and normalization removes it. */
const FINAL_JOINER = /(?<=\p{M})\u200D(?![\p{L}\p{M}])/gu;
const KEPT_JOINER = "\uE000";

/** Returns text in the Unicode form of the program, with the joiners that tell letters of Malayalam apart. */
export function normalizeForScripts(text: string, language: string): string {
  const kept = text.replaceAll(KEPT_JOINER, "").replace(FINAL_JOINER, KEPT_JOINER);
  return normalizeText(kept, language).replaceAll(KEPT_JOINER, "\u200D").normalize("NFC");
}
