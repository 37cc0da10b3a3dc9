/**
 * The marks of Gurmukhi that other scripts do not have. An addak doubles the consonant after it, which others write as a conjunct.
 * Nasal vowels have a tippi or a bindi, and the vowel decides which: others have one mark for both. A mark that the rules do not
 * expect becomes a candrabindu, so that it is found again.
 *
 * The functions work on Gurmukhi text on its way to Devanagari and back: what they write for a bindi (ਂ) and an adak bindi (ਁ) becomes an
 * anusvara and a candrabindu.
 */

const ADDAK = "\u0A71";
const TIPPI = "\u0A70";
const BINDI = "\u0A02";
const ADAK_BINDI = "\u0A01";
/** It is written for an adak bindi, because the candrabindu is written for an unexpected mark. */
const INVERTED_CANDRABINDU = "\u0900";
const VIRAMA = "\u0A4D";
const NUKTA = "\u0A3C";
const NON_JOINER = "\u200C";

/** The consonant that is doubled before an aspirated one. */
const UNASPIRATED = new Map([
  ["ਖ", "ਕ"],
  ["ਘ", "ਗ"],
  ["ਛ", "ਚ"],
  ["ਝ", "ਜ"],
  ["ਠ", "ਟ"],
  ["ਢ", "ਡ"],
  ["ਥ", "ਤ"],
  ["ਧ", "ਦ"],
  ["ਫ", "ਪ"],
  ["ਭ", "ਬ"],
]);

const CONSONANT = `[ਕ-ਹੜ]${NUKTA}?`;
const DOUBLED_BY_ADDAK = new RegExp(`${ADDAK}(${CONSONANT})`, "gu");
/** A conjunct of two consonants; a non-joiner may stand between them. */
const CONJUNCT = new RegExp(`(${CONSONANT})${VIRAMA}(${NON_JOINER}?)(?=(${CONSONANT}))`, "gu");
/** The vowels with a tippi: none written, i, u and uu behind a consonant, a and i alone. */
const WITH_TIPPI = new RegExp(`(${CONSONANT}|[ਅਇਿੁੂ])([${TIPPI}${BINDI}${ADAK_BINDI}])`, "gu");
const WITH_BINDI = new RegExp(`([ਆਈਉਊਏਐਓਔਾੀੇੈੋੌ])([${TIPPI}${BINDI}${ADAK_BINDI}])`, "gu");

/** Writes the marks of Gurmukhi with those that Devanagari has, too. */
export function fromGurmukhiMarks(text: string): string {
  return text
    .replaceAll(ADAK_BINDI, INVERTED_CANDRABINDU)
    .replace(CONJUNCT, (found, first: string, joiner: string, second: string) =>
      joiner === "" && isDoubled(first, second) ? `${found}${NON_JOINER}` : found,
    )
    .replace(DOUBLED_BY_ADDAK, (_, consonant: string) => `${doubledBefore(consonant)}${VIRAMA}${consonant}`)
    .replace(WITH_TIPPI, (_, vowel: string, mark: string) => vowel + (mark === TIPPI ? BINDI : ADAK_BINDI))
    .replace(WITH_BINDI, (_, vowel: string, mark: string) => vowel + (mark === BINDI ? BINDI : ADAK_BINDI));
}

/** Writes the marks of Gurmukhi again that `fromGurmukhiMarks` has replaced. */
export function toGurmukhiMarks(text: string): string {
  return text
    .replace(CONJUNCT, (found, first: string, joiner: string, second: string) => {
      if (!isDoubled(first, second)) return found;
      return joiner === "" ? ADDAK : first + VIRAMA;
    })
    .replace(WITH_TIPPI, (_, vowel: string, mark: string) => vowel + (mark === BINDI ? TIPPI : BINDI))
    .replace(WITH_BINDI, (_, vowel: string, mark: string) => vowel + (mark === BINDI ? BINDI : TIPPI))
    .replaceAll(INVERTED_CANDRABINDU, ADAK_BINDI);
}

function isDoubled(first: string, second: string): boolean {
  return first === doubledBefore(second);
}

function doubledBefore(consonant: string): string {
  return UNASPIRATED.get(consonant) ?? consonant;
}
