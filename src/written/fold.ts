/** Signs that do not distinguish number words: nukta of each script, joiners, and marks of Arabic vowels. */
const DROPPED = /[\u093c\u09bc\u0a3c\u0abc\u0b3c\u0c3c\u0cbc\u200b-\u200d\u2060\u064b-\u0652\u0670\u0640]/gu;

const IS_DROPPED = new RegExp(`^${DROPPED.source}$`, "u");

/** Reports whether a character does not distinguish number words. */
export const isDropped = (character: string) => IS_DROPPED.test(character);

/** Spellings of one sign that people use for each other. */
const ALIKE = new Map([
  ["\u0901", "\u0902"],
  ["\u0a81", "\u0a82"],
  ["\u0b01", "\u0b02"],
  ["\u0c01", "\u0c02"],
  ["\u0a01", "\u0a02"],
  // The r of Assamese is that of Bengali: English words are written with either.
  ["\u09f0", "\u09b0"],
  ["\u064a", "\u06cc"],
  ["\u0649", "\u06cc"],
  ["\u0643", "\u06a9"],
  ["\u0647", "\u06c1"],
  ["\u06c0", "\u06c1"],
  ["\u2019", "'"],
  ["\u02bc", "'"],
]);
const ALIKE_SIGNS = /\u0901|\u0a81|\u0b01|\u0c01|\u0a01|[\u09f0\u064a\u0649\u0643\u0647\u06c0\u2019\u02bc]/gu;

/** Chillu letters of Malayalam as they were spelled before Unicode 5.1: consonant, virama, joiner. */
const OLD_CHILLU: Readonly<Record<string, string>> = { ണ: "ൺ", ന: "ൻ", ര: "ർ", ല: "ൽ", ള: "ൾ", ക: "ൿ" };

/**
 * Returns the form of a word by which tables find it. Spellings that readers take for the same become equal: with or
 * without nukta, chandrabindu or anusvara, old or new chillu, capital or small.
 */
export function foldWord(word: string): string {
  return word
    .normalize("NFC")
    .replace(/([ണനരലളക])\u0d4d\u200d/gu, (_, letter: string) => OLD_CHILLU[letter] ?? letter)
    .replace(DROPPED, "")
    .replace(ALIKE_SIGNS, (sign) => ALIKE.get(sign) ?? sign)
    .toLowerCase();
}
