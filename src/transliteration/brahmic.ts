import type { BrahmicScript, LetterPair } from "./brahmic-letters.ts";
import { lettersOf } from "./brahmic-letters.ts";
import { fromGurmukhiMarks, toGurmukhiMarks } from "./gurmukhi-marks.ts";

/** What a conversion between Brahmic scripts depends on besides the two scripts. */
export type BrahmicOptions = {
  /** ISO code. */
  language: string;
  /** The usual script of the language. */
  home: BrahmicScript;
};

/**
 * Writes the letters of one Brahmic script in another. The way back gives the same text: the letters are one to one, and what has no
 * counterpart stays in its own script. Text in NFC goes in and comes out.
 */
export function convertBrahmic(
  text: string,
  from: BrahmicScript,
  to: BrahmicScript,
  options: BrahmicOptions,
): string {
  if (from === to) return text;
  return fromPivot(toPivot(text, from, options), to, options).normalize("NFC");
}

/** Writes the letters of a Brahmic script as those of Devanagari, from which the Roman styles are made. */
export function toPivot(text: string, from: BrahmicScript, options: BrahmicOptions): string {
  if (from === "Devanagari") return text;
  const { toDevanagari } = tablesOf(from, options);
  const marked = from === "Gurmukhi" ? fromGurmukhiMarks(text) : text;
  return replaceAll(marked, toDevanagari).normalize("NFC");
}

function fromPivot(text: string, to: BrahmicScript, options: BrahmicOptions): string {
  if (to === "Devanagari") return text;
  const { fromDevanagari } = tablesOf(to, options);
  const spelled = replaceAll(text, fromDevanagari);
  return to === "Gurmukhi" ? toGurmukhiMarks(spelled) : spelled;
}

/** Returns the letters of a text that a script cannot write, each once. The text is in the usual script of the language. */
export function lettersWithoutCounterpart(
  letters: string,
  to: BrahmicScript,
  options: BrahmicOptions,
): string[] {
  const { home } = options;
  const pivot = toPivot(letters, home, options);
  const written = fromPivot(pivot, to, options);
  const left = new RegExp(`[\\p{L}\\p{M}--[\\p{sc=${to}}\\p{sc=Inherited}]]`, "gv");
  return [...new Set(written.match(left) ?? [])];
}

type Replacement = { pattern: RegExp; pairs: ReadonlyMap<string, string> };
type Tables = { toDevanagari: Replacement; fromDevanagari: Replacement };
/** By script, language and usual script; languages are those of the program, so there are few. */
const tables = new Map<string, Tables>();

function tablesOf(script: BrahmicScript, { language, home }: BrahmicOptions): Tables {
  const key = `${script} ${language} ${home}`;
  let found = tables.get(key);
  if (!found) {
    const letters = lettersOf(script, language, home);
    found = {
      toDevanagari: replacementOf(letters.map(([pivot, own]) => [own, pivot])),
      fromDevanagari: replacementOf(letters),
    };
    tables.set(key, found);
  }
  return found;
}

function replacementOf(pairs: readonly LetterPair[]): Replacement {
  const spellings = pairs.map(([found]) => found).toSorted((a, b) => b.length - a.length);
  return { pattern: new RegExp(spellings.join("|"), "gu"), pairs: new Map(pairs) };
}

function replaceAll(text: string, { pattern, pairs }: Replacement): string {
  return text.replace(pattern, (found) => pairs.get(found) ?? found);
}
