import type { WordMarks } from "./job.ts";
import { markOf } from "./marks.ts";

/** The end of a word that has a mark already, also before a closing quote. */
const ENDS_WITH_MARK = /[\p{P}]$/u;
const LETTER = /[\p{L}\p{N}]/u;

/**
 * Adds marks to a word. Whatever the model says, the word stays: a mark comes behind it, and letters can become capitals of the
 * same letters. A word that ends with a mark, or has a capital, keeps what it has.
 *
 * @param word without white space
 * @param language code of the text's language
 */
export function applyMarks(word: string, { after, capitals }: WordMarks, language: string): string {
  if (!LETTER.test(word)) return word;
  const mark = ENDS_WITH_MARK.test(word) ? undefined : markOf(after, word, language);
  return withCapitals(word, capitals ?? []) + (mark ?? "");
}

function withCapitals(word: string, places: readonly number[]): string {
  if (places.length === 0 || word !== word.toLowerCase()) return word;
  const wanted = new Set(places);
  return [...word]
    .map((letter, place) => {
      const capital = letter.toUpperCase();
      // Some letters have no single capital, such as ß.
      return wanted.has(place) && capital.toLowerCase() === letter && [...capital].length === 1
        ? capital
        : letter;
    })
    .join("");
}
