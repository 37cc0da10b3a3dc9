/**
 * The sounds of a text in a Brahmic script, one character each, so that the rules of a language are patterns. Consonants are letters of
 * Devanagari, vowels its independent letters, and the vowel that is not written is `INHERENT`. Letters with a nukta are one character.
 */

/** The vowel of a consonant without a sign, which many languages drop. */
export const INHERENT = "ə";
export const VOWELS = `अआइईउऊऋॠऌॡऍऎएऐऑऒओऔॲ\u0973-\u0977${INHERENT}`;
/** Letters of consonants with a nukta are those that Unicode encodes, which NFC takes apart. */
export const CONSONANTS = "\\u0915-\\u0939\\u0958-\\u095F";

const VIRAMA = "\u094D";
const NUKTA = "\u093C";
const WITH_NUKTA = new Map([
  ["क", "\u0958"],
  ["ख", "\u0959"],
  ["ग", "\u095A"],
  ["ज", "\u095B"],
  ["ड", "\u095C"],
  ["ढ", "\u095D"],
  ["फ", "\u095E"],
  ["य", "\u095F"],
]);
const VOWEL_OF_SIGN = new Map([
  ["ा", "आ"],
  ["ि", "इ"],
  ["ी", "ई"],
  ["ु", "उ"],
  ["ू", "ऊ"],
  ["ृ", "ऋ"],
  ["ॄ", "ॠ"],
  ["ॢ", "ऌ"],
  ["ॣ", "ॡ"],
  ["ॅ", "ऍ"],
  ["ॆ", "ऎ"],
  ["े", "ए"],
  ["ै", "ऐ"],
  ["ॉ", "ऑ"],
  ["ॊ", "ऒ"],
  ["ो", "ओ"],
  ["ौ", "औ"],
  ["\u093A", "\u0973"],
  ["\u093B", "\u0974"],
  ["\u094F", "\u0975"],
  ["\u0956", "\u0976"],
  ["\u0957", "\u0977"],
]);
const AKSHARA = new RegExp(
  `([\\u0915-\\u0939])(${NUKTA}?)([${[...VOWEL_OF_SIGN.keys()].join("")}]|${VIRAMA}[\\u200C\\u200D]?)?`,
  "gu",
);

/**
 * Returns the sounds of a text.
 *
 * @param pivot the letters of Devanagari, in NFC; other characters stay
 */
export function phonemesOf(pivot: string): string {
  return pivot.replace(AKSHARA, (_, letter: string, nukta: string, sign?: string) => {
    const consonant = nukta === "" ? letter : (WITH_NUKTA.get(letter) ?? letter);
    if (sign === undefined) return consonant + INHERENT;
    return consonant + (VOWEL_OF_SIGN.get(sign) ?? "");
  });
}
