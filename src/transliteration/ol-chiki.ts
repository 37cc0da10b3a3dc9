/**
 * Santali in Ol Chiki and in Devanagari, one to one. Ol Chiki is an alphabet: each vowel is a letter. Devanagari writes the vowel of
 * ᱚ with the consonant, and a virama where no vowel follows.
 */

/** Consonants of Ol Chiki, without and with the sign of aspiration. */
const CONSONANTS: readonly (readonly [olChiki: string, plain: string, aspirated?: string])[] = [
  ["ᱛ", "त", "थ"],
  ["ᱜ", "ग", "घ"],
  ["ᱝ", "ङ"],
  ["ᱞ", "ल"],
  ["ᱠ", "क", "ख"],
  ["ᱡ", "ज", "झ"],
  ["ᱢ", "म"],
  ["ᱣ", "व"],
  ["ᱥ", "स"],
  ["ᱦ", "ह"],
  ["ᱧ", "ञ"],
  ["ᱨ", "र"],
  ["ᱪ", "च", "छ"],
  ["ᱫ", "द", "ध"],
  ["ᱬ", "ण"],
  ["ᱭ", "य"],
  ["ᱯ", "प", "फ"],
  ["ᱰ", "ड", "ढ"],
  ["ᱱ", "न"],
  ["ᱲ", "ड\u093C", "ढ\u093C"],
  ["ᱴ", "ट", "ठ"],
  ["ᱵ", "ब", "भ"],
  ["ᱶ", "व\u093C"],
];
/** Vowels, without and with the sign of a lower vowel (gahla tudag); a sign of nothing is the inherent vowel. */
const VOWELS: readonly (readonly [olChiki: string, letter: string, sign: string])[] = [
  ["ᱚ", "अ", ""],
  ["ᱟ", "आ", "ा"],
  ["ᱤ", "इ", "ि"],
  ["ᱩ", "उ", "ु"],
  ["ᱮ", "ए", "े"],
  ["ᱳ", "ओ", "ो"],
  ["ᱚᱹ", "\u0975", "\u094F"],
  ["ᱟᱹ", "\u0973", "\u093A"],
  ["ᱤᱹ", "\u0976", "\u0956"],
  ["ᱩᱹ", "\u0977", "\u0957"],
  ["ᱮᱹ", "ऍ", "ॅ"],
  ["ᱳᱹ", "ऑ", "ॉ"],
];
const OTHERS: readonly (readonly [olChiki: string, devanagari: string])[] = [
  ["ᱸ", "ँ"],
  ["ᱻ", "ऽ"],
  ["᱾", "।"],
  ["᱿", "॥"],
  ...Array.from({ length: 10 }, (_, digit): readonly [string, string] => [
    String.fromCodePoint(0x1c50 + digit),
    String.fromCodePoint(0x0966 + digit),
  ]),
];
const ASPIRATION = "ᱷ";
const AHAD = "ᱽ";
const LOW = "ᱹ";
const NASAL = "ᱸ";
const LOW_NASAL = "ᱺ";
const VIRAMA = "\u094D";
const NUKTA = "\u093C";
const NON_JOINER = "\u200C";

const PLAIN = new Map(CONSONANTS.map(([olChiki, plain]) => [olChiki, plain]));
const ASPIRATED = new Map(
  CONSONANTS.flatMap(([olChiki, , aspirated]) => (aspirated ? [[olChiki, aspirated]] : [])),
);
const LETTERS = new Map(VOWELS.map(([olChiki, letter]) => [olChiki, letter]));
const SIGNS = new Map(VOWELS.map(([olChiki, , sign]) => [olChiki, sign]));
const TO_DEVANAGARI = new Map(OTHERS);

const ONE_CONSONANT = `[${[...PLAIN.keys()].join("")}]`;
const ONE_VOWEL = `[ᱚᱟᱤᱩᱮᱳ]`;
const SYLLABLE = new RegExp(
  `(${ONE_CONSONANT})(${AHAD}?)(${ASPIRATION}?)(${ONE_VOWEL}${LOW}?)?|${ONE_VOWEL}${LOW}?|[${[...TO_DEVANAGARI.keys()].join("")}]`,
  "gu",
);

/** Writes Santali in Ol Chiki with the letters of Devanagari. */
export function olChikiToDevanagari(text: string): string {
  return text
    .replaceAll(LOW_NASAL, LOW + NASAL)
    .replace(SYLLABLE, (found, consonant?: string, ahad = "", aspiration = "", vowel?: string) => {
      if (consonant === undefined) return LETTERS.get(found) ?? TO_DEVANAGARI.get(found) ?? found;
      return (
        consonantOf(consonant, ahad !== "", aspiration !== "") +
        (vowel === undefined ? VIRAMA : (SIGNS.get(vowel) ?? ""))
      );
    })
    .normalize("NFC");
}

/** Devanagari has aspirated letters for stops. Others are followed by the letter h, and a non-joiner marks an h of its own. */
function consonantOf(letter: string, hasAhad: boolean, isAspirated: boolean): string {
  const plain = (PLAIN.get(letter) ?? letter) + (hasAhad ? NUKTA : "");
  if (!isAspirated) return plain;
  const aspirated = ASPIRATED.get(letter);
  return aspirated === undefined || hasAhad ? `${plain}${VIRAMA}${NON_JOINER}ह` : aspirated;
}

const FROM_DEVANAGARI = new Map<string, string>([
  ...CONSONANTS.flatMap(([olChiki, plain, aspirated]): [string, string][] => [
    [plain, olChiki],
    ...(aspirated ? [[aspirated, olChiki + ASPIRATION] as [string, string]] : []),
  ]),
  ...OTHERS.map(([olChiki, devanagari]): [string, string] => [devanagari, olChiki]),
]);
const VOWEL_OF_LETTER = new Map(VOWELS.map(([olChiki, letter]) => [letter, olChiki]));
const VOWEL_OF_SIGN = new Map(VOWELS.map(([olChiki, , sign]) => [sign, olChiki]));
const SIGN = `[${[...VOWEL_OF_SIGN.keys()].join("")}${VIRAMA}]`;
const AKSHARA = new RegExp(
  `(${[...FROM_DEVANAGARI.keys()]
    .filter((letter) => /^\p{Lo}/u.test(letter) && letter !== "ऽ")
    .toSorted((a, b) => b.length - a.length)
    .join(
      "|",
    )})(${NUKTA}?)(${VIRAMA}${NON_JOINER}ह)?(${SIGN}?)|[${[...VOWEL_OF_LETTER.keys()].join("")}]|[${OTHERS.map(([, letter]) => letter).join("")}]`,
  "gu",
);

/** Writes Santali in Devanagari with the letters of Ol Chiki. */
export function devanagariToOlChiki(text: string): string {
  return text
    .replace(AKSHARA, (found, consonant?: string, nukta = "", aspiration?: string, sign = "") => {
      if (consonant === undefined) return VOWEL_OF_LETTER.get(found) ?? FROM_DEVANAGARI.get(found) ?? found;
      const letter = (FROM_DEVANAGARI.get(consonant) ?? consonant) + (nukta === "" ? "" : AHAD);
      return (
        letter +
        (aspiration === undefined ? "" : ASPIRATION) +
        (sign === VIRAMA ? "" : (VOWEL_OF_SIGN.get(sign) ?? ""))
      );
    })
    .replaceAll(LOW + NASAL, LOW_NASAL);
}
