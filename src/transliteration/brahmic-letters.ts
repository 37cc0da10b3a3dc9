import type { Script } from "../domain/languages.ts";

/**
 * The letters of the nine Brahmic scripts that Unicode encodes in the order of ISCII, by the letter of Devanagari that
 * has the same place. Devanagari is the pivot: a text goes from its script to Devanagari, and from there to the other.
 */
export const BRAHMIC_SCRIPTS = [
  "Bengali",
  "Devanagari",
  "Gujarati",
  "Gurmukhi",
  "Kannada",
  "Malayalam",
  "Oriya",
  "Tamil",
  "Telugu",
] as const satisfies readonly Script[];
export type BrahmicScript = (typeof BRAHMIC_SCRIPTS)[number];

export function isBrahmic(script: Script): script is BrahmicScript {
  return (BRAHMIC_SCRIPTS as readonly Script[]).includes(script);
}

/** The first code point of each block (The Unicode Standard 16.0, chapter 12). */
const BLOCKS: Record<BrahmicScript, number> = {
  Bengali: 0x0980,
  Devanagari: 0x0900,
  Gujarati: 0x0a80,
  Gurmukhi: 0x0a00,
  Kannada: 0x0c80,
  Malayalam: 0x0d00,
  Oriya: 0x0b00,
  Tamil: 0x0b80,
  Telugu: 0x0c00,
};

/** Places in a block where every script that has a letter there has the same one: marks, vowels, consonants, signs, digits. */
const SHARED_PLACES: readonly (readonly [number, number])[] = [
  [0x01, 0x03],
  [0x05, 0x39],
  [0x3c, 0x4d],
  [0x50, 0x50],
  [0x60, 0x63],
  [0x66, 0x6f],
];

const NUKTA = 0x3c;
/** Letters of Devanagari that NFC composes of another letter and a nukta, by place, with the place of that letter. */
const WITH_NUKTA = new Map([
  [0x29, 0x28],
  [0x31, 0x30],
  [0x34, 0x33],
]);

/** A letter of Devanagari, with the spelling of it in another script. Longer spellings are found first. */
export type LetterPair = readonly [pivot: string, own: string];

/** What differs from the order of ISCII. Each spelling is used in one pair only, so that the way back is known. */
const OWN_LETTERS: Record<BrahmicScript, readonly LetterPair[]> = {
  Bengali: [
    ["व", "ৱ"],
    ["ळ", "ল়"],
    ["ऑ", "অৗ"],
    ["ॉ", "ৗ"],
    ["त्\u200D", "ৎ"],
  ],
  Devanagari: [],
  Gujarati: [],
  Gurmukhi: [
    ["श", "ਸ਼"],
    ["ळ", "ਲ਼"],
    ["ड़", "ੜ"],
  ],
  Kannada: [["ऴ", "ೞ"]],
  Malayalam: [
    ["ण्\u200D", "ൺ"],
    ["न्\u200D", "ൻ"],
    ["र्\u200D", "ർ"],
    ["ल्\u200D", "ൽ"],
    ["ळ्\u200D", "ൾ"],
    ["क्\u200D", "ൿ"],
    ["ौ", "ൗ"],
  ],
  Oriya: [
    ["व", "ୱ"],
    ["य़", "ୟ"],
    ["ऑ", "ଅୗ"],
    ["ॉ", "ୗ"],
  ],
  Tamil: [],
  Telugu: [],
};

/** Assamese writes another ra than Bengali in the same script. */
const ASSAMESE_LETTERS: readonly LetterPair[] = [["र", "ৰ"]];

/**
 * The open vowels of English loan words, for languages that have them and no short e and o: the scripts of the south write them with
 * their letters of these.
 */
const OPEN_VOWELS: Partial<Record<BrahmicScript, readonly LetterPair[]>> = {
  Kannada: [
    ["ऍ", "ಎ"],
    ["ॅ", "ೆ"],
    ["ऑ", "ಒ"],
    ["ॉ", "ೊ"],
  ],
  Malayalam: [
    ["ऍ", "എ"],
    ["ॅ", "െ"],
    ["ऑ", "ഒ"],
    ["ॉ", "ൊ"],
  ],
  Telugu: [
    ["ऍ", "ఎ"],
    ["ॅ", "ె"],
    ["ऑ", "ఒ"],
    ["ॉ", "ొ"],
  ],
};
/** Scripts whose languages have the open vowels and no short e and o. */
const WITH_OPEN_VOWELS = new Set<BrahmicScript>(["Devanagari", "Gujarati"]);
/** Languages that write the open e at the beginning of a syllable with a letter of their own, ॲ. */
const WITH_MARATHI_OPEN_E = new Set(["mr", "kok"]);

/**
 * Returns the letters of a script with their letters of Devanagari, one to one. What is in neither column has no counterpart.
 *
 * @param language ISO code: Assamese differs in the script of Bengali
 * @param home the usual script of the language, which decides about the open vowels of loan words
 */
export function lettersOf(
  script: BrahmicScript,
  language: string,
  home: BrahmicScript,
): readonly LetterPair[] {
  const own = [
    ...OWN_LETTERS[script],
    ...(script === "Bengali" && language === "as" ? ASSAMESE_LETTERS : []),
    ...(WITH_OPEN_VOWELS.has(home) ? (OPEN_VOWELS[script] ?? []) : []),
  ];
  const pairs = new Map(own.map(([pivot, spelled]) => [pivot.normalize("NFC"), spelled.normalize("NFC")]));
  const taken = new Set(pairs.values());
  const add = (pivot: string, spelled: string): void => {
    if (pairs.has(pivot) || taken.has(spelled)) return;
    pairs.set(pivot, spelled);
    taken.add(spelled);
  };
  for (const [first, last] of SHARED_PLACES) {
    for (let place = first; place <= last; place++) {
      const spelled = spelledAt(script, place);
      if (isLetter(0x0900 + place) && spelled !== undefined)
        add(String.fromCodePoint(0x0900 + place), spelled);
    }
  }
  const openE = pairs.get("ऍ");
  if (WITH_MARATHI_OPEN_E.has(language) && script !== "Devanagari" && openE !== undefined) {
    pairs.delete("ऍ");
    pairs.set("ॲ", openE);
  }
  return [...pairs];
}

/** Returns how a script writes the letter of a place; undefined: not at all. Malayalam has a virama at the place of the nukta. */
function spelledAt(script: BrahmicScript, place: number): string | undefined {
  const base = BLOCKS[script];
  if (script === "Malayalam" && place === NUKTA) return undefined;
  if (isLetter(base + place)) return String.fromCodePoint(base + place);
  const plain = WITH_NUKTA.get(place);
  const canSpell = plain !== undefined && isLetter(base + plain) && isLetter(base + NUKTA);
  return canSpell ? String.fromCodePoint(base + plain, base + NUKTA) : undefined;
}

/** Reports whether a code point is assigned. */
function isLetter(code: number): boolean {
  return /^[\p{L}\p{M}\p{Nd}]$/u.test(String.fromCodePoint(code));
}
