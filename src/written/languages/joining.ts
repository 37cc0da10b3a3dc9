/** Tools for tables of languages that write several number words as one, and change their vowels where these meet. */

/** Where the vowels are in each block of the scripts of India, and how far behind them their signs are. */
const BLOCK_SIZE = 0x80;
const FIRST_BLOCK = 0x0900;
const LAST_BLOCK = 0x0d7f;
const VOWEL_A = 0x05;
const LAST_VOWEL = 0x14;
const VOWEL_TO_SIGN = 0x38;

/** Splits a list of spellings. */
export const words = (list: string): string[] => list.split(/\s+/u).filter((word) => word !== "");

/** Makes a list of spellings, each once. */
export const list = (...spellings: readonly string[]): string => [...new Set(spellings)].join(" ");

/** Reports whether a word of a script of India begins with a vowel. */
export function beginsWithVowel(word: string): boolean {
  const code = word.codePointAt(0) ?? 0;
  const inBlock = code % BLOCK_SIZE;
  return code >= FIRST_BLOCK && code <= LAST_BLOCK && inBlock >= VOWEL_A && inBlock <= LAST_VOWEL;
}

/** Writes the vowel at the beginning of a word as the sign that it is after a consonant; அ has none. */
export function afterConsonant(word: string): string {
  if (!beginsWithVowel(word)) return word;
  const code = word.codePointAt(0) ?? 0;
  const sign = code % BLOCK_SIZE === VOWEL_A ? "" : String.fromCodePoint(code + VOWEL_TO_SIGN);
  return sign + word.slice(1);
}

/** Makes what a word is before a vowel: without the short u, or the virama, at its end. */
export const withoutEnd = (word: string): string => word.replace(/[\u0bc1\u0cc1\u0c41\u0d41\u0d4d]$/u, "");

/** Applies a change to each spelling of each value. */
export function eachSpelling(
  lists: readonly string[] | Readonly<Record<number, string>>,
  change: (word: string) => readonly string[],
): Record<number, string> {
  const entries = Object.entries<string>(lists as Readonly<Record<number, string>>);
  return Object.fromEntries(
    entries.map(([value, spellings]) => [value, list(...words(spellings).flatMap(change))]),
  );
}
