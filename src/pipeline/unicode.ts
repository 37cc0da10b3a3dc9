import type { Script } from "../domain/languages.ts";

/**
 * The Unicode form of all text that leaves the program: NFC, and the corrections for the scripts of India that NFC does
 * not make (The Unicode Standard 16.0, chapter 12, and its "Do Not Emit" data file). The encoding of a text changes, and
 * its meaning never does.
 */

/** Byte order marks, zero-width spaces, directions, soft hyphens, replacement and control characters. */
const INVISIBLE = /[\u00AD\u200B\u200E\u200F\u202A-\u202E\u2060-\u2069\uFEFF\uFFFD]|(?![\t\n\r])\p{Cc}/gu;
const ARABIC_PRESENTATION_FORMS = /[\uFB50-\uFDFF\uFE70-\uFEFC]+/gu;
const TATWEEL = /\u0640/gu;

/**
 * The dependent vowels and the marks of nasalisation and aspiration of each script, without nuktas and viramas, for a character
 * class. Scripts of alphabets have none.
 */
const VOWEL_SIGNS_OF: Record<Script, string> = {
  Arabic: "",
  Bengali: "\u0981-\u0983\u09BE-\u09CC",
  Devanagari: "\u0900-\u0903\u093A\u093B\u093E-\u094C\u0955-\u0957",
  Gujarati: "\u0A81-\u0A83\u0ABE-\u0ACC",
  Gurmukhi: "\u0A01-\u0A03\u0A3E-\u0A4C\u0A70\u0A71",
  Kannada: "\u0C81-\u0C83\u0CBE-\u0CCC",
  Latin: "",
  Malayalam: "\u0D00-\u0D03\u0D3E-\u0D4C",
  Meetei_Mayek: "\uABE3-\uABEA",
  Ol_Chiki: "",
  Oriya: "\u0B01-\u0B03\u0B3E-\u0B4C",
  Tamil: "\u0B82\u0BBE-\u0BCC",
  Telugu: "\u0C00-\u0C04\u0C3E-\u0C4C",
};
const VOWEL_SIGNS = Object.values(VOWEL_SIGNS_OF).join("");
const NUKTAS = "\u093C\u09BC\u0A3C\u0ABC\u0B3C\u0C3C\u0CBC";
/** The viramas of all scripts: canonical combining class 9 of Unicode 17. */
const VIRAMAS =
  "\u094D\u09CD\u0A4D\u0ACD\u0B4D\u0BCD\u0C4D\u0CCD\u0D3B\u0D3C\u0D4D\u0DCA\u0E3A\u0EBA" +
  "\u0F84\u1039\u103A\u1714\u1715\u1734\u17D2\u1A60\u1B44\u1BAA\u1BAB\u1BF2\u1BF3\u2D7F" +
  "\uA806\uA82C\uA8C4\uA953\uA9C0\uAAF6\uABED\u{10A3F}\u{11046}\u{11070}\u{1107F}\u{110B9}" +
  "\u{11133}\u{11134}\u{111C0}\u{11235}\u{112EA}\u{1134D}\u{113CE}\u{113CF}\u{113D0}\u{11442}" +
  "\u{114C2}\u{115BF}\u{1163F}\u{116B6}\u{1172B}\u{11839}\u{1193D}\u{1193E}\u{119E0}\u{11A34}" +
  "\u{11A47}\u{11A99}\u{11C3F}\u{11D44}\u{11D45}\u{11D97}\u{11F41}\u{11F42}\u{1612F}";

/** It looks behind itself so that a long row of signs is read once, and not again from each of them. */
const NUKTA_BEHIND_VOWEL = new RegExp(`(?<![${VOWEL_SIGNS}])([${VOWEL_SIGNS}]+)([${NUKTAS}])`, "gu");
const DOUBLED_MARK = new RegExp(`([${VOWEL_SIGNS}${NUKTAS}${VIRAMAS}])\\1+`, "gu");
/**
 * Joiners have a meaning on both sides of a virama, where they choose between a conjunct, a half letter and a letter with a
 * visible virama; ra with a joiner stays whole. The non-joiner has one also between Arabic letters. All others are removed.
 */
const IDLE_JOINER = new RegExp(
  `(?<![${VIRAMAS}])\\u200D(?![${VIRAMAS}])|\\u200D(?![\\p{L}${VIRAMAS}])|` +
    `(?<![${VIRAMAS}]|\\p{Script=Arabic})\\u200C(?![${VIRAMAS}])|\\u200C(?![\\p{L}${VIRAMAS}])`,
  "gu",
);

/** Spellings that look like a letter and are not canonically equal to it, with that letter. */
const LOOKALIKES: readonly (readonly [string, string])[] = [
  // Independent vowels that were typed as several characters.
  ["\u0905\u200D\u0945", "\u0972"],
  ["\u0905\u0945", "\u0972"],
  ["\u0905\u093E", "\u0906"],
  ["\u0905\u0949", "\u0911"],
  ["\u0905\u094B", "\u0913"],
  ["\u0905\u094C", "\u0914"],
  ["\u0906\u0945", "\u0911"],
  ["\u0906\u0947", "\u0913"],
  ["\u0906\u0948", "\u0914"],
  ["\u090F\u0945", "\u090D"],
  ["\u090F\u0947", "\u0910"],
  ["\u0985\u09BE", "\u0986"],
  ["\u0A05\u0A3E", "\u0A06"],
  ["\u0A05\u0A48", "\u0A10"],
  ["\u0A05\u0A4C", "\u0A14"],
  ["\u0A85\u0ABE", "\u0A86"],
  ["\u0A85\u0AC7", "\u0A8F"],
  ["\u0A85\u0AC8", "\u0A90"],
  ["\u0A85\u0ACB", "\u0A93"],
  ["\u0A85\u0ACC", "\u0A94"],
  ["\u0B05\u0B3E", "\u0B06"],
  // Letters that older text spells with a joiner: Bengali khanda ta and the Malayalam chillus.
  ["\u09A4\u09CD\u200D", "\u09CE"],
  ["\u0D23\u0D4D\u200D", "\u0D7A"],
  ["\u0D28\u0D4D\u200D", "\u0D7B"],
  ["\u0D30\u0D4D\u200D", "\u0D7C"],
  ["\u0D32\u0D4D\u200D", "\u0D7D"],
  ["\u0D33\u0D4D\u200D", "\u0D7E"],
  ["\u0D15\u0D4D\u200D", "\u0D7F"],
];
const LOOKALIKE = new RegExp(
  LOOKALIKES.map(([found]) => found)
    .toSorted((a, b) => b.length - a.length)
    .join("|"),
  "gu",
);
const MEANT = new Map(LOOKALIKES);

/** Arabic letters, and the letters of Urdu and Kashmiri that look the same. */
const URDU_LETTERS = new Map([
  ["\u0643", "\u06A9"],
  ["\u0647", "\u06C1"],
  ["\u0649", "\u06CC"],
  ["\u064A", "\u06CC"],
]);
const URDU_LIKE = new Set(["ur", "ks"]);

/**
 * Normalizes text.
 *
 * @param language ISO code; it matters for languages in Arabic script, whose letters differ
 * @returns the text in NFC, without invisible characters, with single spaces, trimmed; a second application changes nothing
 */
export function normalizeText(text: string, language: string): string {
  let clean = text;
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const before = clean;
    clean = normalizeOnce(before, language);
    if (clean === before) break;
  }
  return clean;
}

/** What a step removes can bring letters together that an earlier step corrects. Two or three passes are usual. */
const MAX_PASSES = 10;

function normalizeOnce(text: string, language: string): string {
  let clean = text
    .replace(INVISIBLE, "")
    .replace(ARABIC_PRESENTATION_FORMS, (letters) => letters.normalize("NFKC"))
    .replace(TATWEEL, "")
    .normalize("NFC")
    .replace(NUKTA_BEHIND_VOWEL, "$2$1")
    .replace(DOUBLED_MARK, "$1")
    .replace(LOOKALIKE, (found) => MEANT.get(found) ?? found)
    .replace(IDLE_JOINER, "");
  if (URDU_LIKE.has(language)) {
    clean = clean.replace(/[\u0643\u0647\u0649\u064A]/gu, (letter) => URDU_LETTERS.get(letter) ?? letter);
  }
  return clean.replace(/\s+/gu, " ").trim().normalize("NFC");
}
