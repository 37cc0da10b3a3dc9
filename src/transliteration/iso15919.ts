/**
 * ISO 15919:2001, Transliteration of Devanagari and related Indic scripts into Latin characters, from the letters of Devanagari as the
 * pivot. A colon keeps apart what would read as another letter (k:h, a:i). Nasal signs stay as they are written, and the nasal of a
 * class is not put in their place.
 */

const CONSONANTS: readonly (readonly [string, string])[] = [
  ["क", "k"],
  ["ख", "kh"],
  ["ग", "g"],
  ["घ", "gh"],
  ["ङ", "ṅ"],
  ["च", "c"],
  ["छ", "ch"],
  ["ज", "j"],
  ["झ", "jh"],
  ["ञ", "ñ"],
  ["ट", "ṭ"],
  ["ठ", "ṭh"],
  ["ड", "ḍ"],
  ["ढ", "ḍh"],
  ["ण", "ṇ"],
  ["त", "t"],
  ["थ", "th"],
  ["द", "d"],
  ["ध", "dh"],
  ["न", "n"],
  ["ऩ", "ṉ"],
  ["प", "p"],
  ["फ", "ph"],
  ["ब", "b"],
  ["भ", "bh"],
  ["म", "m"],
  ["य", "y"],
  ["र", "r"],
  ["ऱ", "ṟ"],
  ["ल", "l"],
  ["ळ", "ḷ"],
  ["ऴ", "ḻ"],
  ["व", "v"],
  ["श", "ś"],
  ["ष", "ṣ"],
  ["स", "s"],
  ["ह", "h"],
  ["क\u093C", "q"],
  ["ख\u093C", "k\u035Fh"],
  ["ग\u093C", "ġ"],
  ["ज\u093C", "z"],
  ["ड\u093C", "ṛ"],
  ["ढ\u093C", "ṛh"],
  ["फ\u093C", "f"],
  ["य\u093C", "ẏ"],
];
const VOWELS: readonly (readonly [letter: string, sign: string, latin: string])[] = [
  ["अ", "", "a"],
  ["आ", "ा", "ā"],
  ["इ", "ि", "i"],
  ["ई", "ी", "ī"],
  ["उ", "ु", "u"],
  ["ऊ", "ू", "ū"],
  ["ऋ", "ृ", "r\u0325"],
  ["ॠ", "ॄ", "r\u0325\u0304"],
  ["ऌ", "ॢ", "l\u0325"],
  ["ॡ", "ॣ", "l\u0325\u0304"],
  ["ऍ", "ॅ", "ê"],
  ["ऎ", "ॆ", "e"],
  ["ए", "े", "ē"],
  ["ऐ", "ै", "ai"],
  ["ऑ", "ॉ", "ô"],
  ["ऒ", "ॊ", "o"],
  ["ओ", "ो", "ō"],
  ["औ", "ौ", "au"],
  ["ॲ", "", "ê"],
];
const OTHERS: readonly (readonly [string, string])[] = [
  ["ँ", "m\u0310"],
  ["ऀ", "m\u0310"],
  ["ं", "ṁ"],
  ["ः", "ḥ"],
  ["ऽ", "’"],
  ["ॐ", "ōṁ"],
  ["।", "."],
  ["॥", "."],
  ["\u200C", ""],
  ["\u200D", ""],
  ...Array.from({ length: 10 }, (_, digit): [string, string] => [
    String.fromCodePoint(0x0966 + digit),
    String(digit),
  ]),
];
const VIRAMA = "\u094D";

const LATIN_OF = new Map<string, string>([
  ...CONSONANTS,
  ...VOWELS.map(([letter, , latin]): [string, string] => [letter, latin]),
  ...OTHERS,
]);
const LATIN_OF_SIGN = new Map(
  VOWELS.filter(([, sign]) => sign !== "").map(([, sign, latin]) => [sign, latin]),
);
const SIGNS = [...LATIN_OF_SIGN.keys()].join("");
const PIVOT = new RegExp(
  `([\u0915-\u0939]\u093C?)([${SIGNS}${VIRAMA}]?)[\u200C\u200D]?|[${[...LATIN_OF.keys()].filter((letter) => letter.length === 1).join("")}]`,
  "gu",
);
/** Letters that would be read as one: an unaspirated stop and h, and an a and the vowel after it. */
const READ_AS_ONE = /(?<=[kgcjṭḍtdpbṛ])\uE001(?=h)|(?<=a)\uE002(?=[iu])/gu;
/** Signs of two kinds, which mark the places where a colon may be needed, until it is known. */
const AFTER_BARE_CONSONANT = "\uE001";
const BEFORE_VOWEL = "\uE002";

/**
 * Writes text in Latin letters after ISO 15919.
 *
 * @param pivot the letters of Devanagari, in NFC
 */
export function iso15919Of(pivot: string): string {
  return pivot
    .replace(PIVOT, (found, consonant?: string, sign = "") => {
      if (consonant === undefined)
        return (isVowel(found) ? BEFORE_VOWEL : "") + (LATIN_OF.get(found) ?? found);
      const letter = LATIN_OF.get(consonant) ?? LATIN_OF.get(consonant[0] ?? "") ?? consonant;
      if (sign === VIRAMA) return letter + AFTER_BARE_CONSONANT;
      return letter + (LATIN_OF_SIGN.get(sign) ?? "a");
    })
    .replace(READ_AS_ONE, ":")
    .replace(/[\uE001\uE002]/gu, "")
    .normalize("NFC");
}

const VOWEL_LETTERS = new Set(VOWELS.map(([letter]) => letter));
function isVowel(letter: string): boolean {
  return VOWEL_LETTERS.has(letter);
}
