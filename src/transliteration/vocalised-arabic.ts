/**
 * Punjabi and Sindhi in Arabic letters, from the letters of Devanagari, with a mark for each short vowel. Arabic letters without these
 * marks leave the short vowels out, so only text with all marks has a way back.
 *
 * | of a syllable | written |
 * |---|---|
 * | a, i, u | zabar, zer, pesh; nothing for an a that ends a word |
 * | aa, e, o | alif, ye, waw |
 * | ii, uu | zer and ye, pesh and waw |
 * | ai, au | zabar, and ye or waw with a sukun |
 * | no vowel | sukun |
 */
export type ArabicAlphabet = {
  /** Consonants of Devanagari in NFC with their letters. */
  consonants: readonly (readonly [devanagari: string, arabic: string])[];
  ye: string;
  /** The e that ends a word. */
  finalE: string;
};

const ZABAR = "\u064E";
const ZER = "\u0650";
const PESH = "\u064F";
const SHADDA = "\u0651";
const SUKUN = "\u0652";
const NASAL_MARK = "\u0658";
const NOON = "\u0646";
const FINAL_NASAL = "\u06BA";
const ALIF = "\u0627";
const LONG_ALIF = "\u0622";
const WAW = "\u0648";
const HAMZA = "\u0626";
const ASPIRATION = "\u06BE";

/** Shahmukhi, the Punjabi alphabet of Pakistan. */
export const PUNJABI_ALPHABET: ArabicAlphabet = {
  ye: "\u06CC",
  finalE: "\u06D2",
  consonants: [
    ...stops("क", "ک", "ख"),
    ...stops("ग", "گ", "घ"),
    ...stops("च", "چ", "छ"),
    ...stops("ज", "ج", "झ"),
    ...stops("ट", "ٹ", "ठ"),
    ...stops("ड", "ڈ", "ढ"),
    ...stops("त", "ت", "थ"),
    ...stops("द", "د", "ध"),
    ...stops("प", "پ", "फ"),
    ...stops("ब", "ب", "भ"),
    ["ण", "\u0768"],
    ["न", "ن"],
    ["म", "م"],
    ["य", "\u06CC"],
    ["र", "ر"],
    ["ल", "ل"],
    ["ळ", "\u08C7"],
    ["व", "و"],
    ["श", "ش"],
    ["स", "س"],
    ["ह", "\u06C1"],
    ["ड\u093C", "ڑ"],
    ["क\u093C", "ق"],
    ["ख\u093C", "خ"],
    ["ग\u093C", "غ"],
    ["ज\u093C", "ز"],
    ["फ\u093C", "ف"],
  ],
};

/** The alphabet of Sindhi. */
export const SINDHI_ALPHABET: ArabicAlphabet = {
  ye: "\u064A",
  finalE: "\u064A",
  consonants: [
    ["क", "ڪ"],
    ["ख", "ک"],
    ["ग", "گ"],
    ["घ", "گ\u06BE"],
    ["ॻ", "ڳ"],
    ["ङ", "ڱ"],
    ["च", "چ"],
    ["छ", "ڇ"],
    ["ज", "ج"],
    ["झ", "ج\u06BE"],
    ["ॼ", "ڄ"],
    ["ञ", "ڃ"],
    ["ट", "ٽ"],
    ["ठ", "ٺ"],
    ["ड", "ڊ"],
    ["ढ", "ڍ"],
    ["ॾ", "ڏ"],
    ["ण", "ڻ"],
    ["त", "ت"],
    ["थ", "ٿ"],
    ["द", "د"],
    ["ध", "ڌ"],
    ["न", "ن"],
    ["प", "پ"],
    ["फ", "ڦ"],
    ["ब", "ب"],
    ["ॿ", "ٻ"],
    ["भ", "ڀ"],
    ["म", "م"],
    ["य", "\u064A"],
    ["र", "ر"],
    ["ल", "ل"],
    ["व", "و"],
    ["श", "ش"],
    ["स", "س"],
    ["ह", "\u0647"],
    ["ड\u093C", "ڙ"],
    ["ढ\u093C", "ڙ\u06BE"],
    ["क\u093C", "ق"],
    ["ख\u093C", "خ"],
    ["ग\u093C", "غ"],
    ["ज\u093C", "ز"],
    ["फ\u093C", "ف"],
  ],
};

function stops(plain: string, arabic: string, aspirated: string): (readonly [string, string])[] {
  return [
    [plain, arabic],
    [aspirated, arabic + ASPIRATION],
  ];
}

/** Vowels by their letter in Devanagari: its sign, its mark and its letter of prolongation. */
type Vowel = {
  letter: string;
  sign: string;
  mark: string;
  long: "" | "alif" | "waw" | "ye";
  hasSukun?: true;
};
const VOWELS: readonly Vowel[] = [
  { letter: "अ", sign: "", mark: ZABAR, long: "" },
  { letter: "आ", sign: "ा", mark: "", long: "alif" },
  { letter: "इ", sign: "ि", mark: ZER, long: "" },
  { letter: "ई", sign: "ी", mark: ZER, long: "ye" },
  { letter: "उ", sign: "ु", mark: PESH, long: "" },
  { letter: "ऊ", sign: "ू", mark: PESH, long: "waw" },
  { letter: "ए", sign: "े", mark: "", long: "ye" },
  { letter: "ऐ", sign: "ै", mark: ZABAR, long: "ye", hasSukun: true },
  { letter: "ओ", sign: "ो", mark: "", long: "waw" },
  { letter: "औ", sign: "ौ", mark: ZABAR, long: "waw", hasSukun: true },
];
const VOWELS_BY_LENGTH = VOWELS.toSorted(
  (a, b) => b.mark.length + b.long.length - (a.mark.length + a.long.length),
);
const VIRAMA = "\u094D";
const ANUSVARA = "\u0902";
const MARKS: readonly (readonly [string, string])[] = [
  [",", "،"],
  ["?", "؟"],
  [";", "؛"],
  ["।", "۔"],
];

/** One vowel with its nasal sign, or one consonant with its vowel or virama. */
type Unit = { consonant?: string; isDoubled?: boolean; vowel?: Vowel; isNasal: boolean };

const SIGNS = VOWELS.map(({ sign }) => sign).join("");
const WORD = /[\p{L}\p{M}\u200C\u200D]+/gu;
const LONGEST_WORD = 64;
/** NFC puts the marks of vowels before the shadda, which belongs to the letter. */
const MARK_BEFORE_SHADDA = new RegExp(`([${ZABAR}${ZER}${PESH}${SUKUN}])(${SHADDA})`, "gu");

/** Returns the words of a text in Arabic letters; undefined: a word has a letter that the alphabet does not write. */
export function devanagariToArabic(text: string, alphabet: ArabicAlphabet): string | undefined {
  const arabicOf = new Map(alphabet.consonants);
  const written = replaceWords(text, /\p{Script=Devanagari}/u, (word) => {
    const units = unitsOfDevanagari(word, arabicOf);
    return units?.map((unit, index) => writeUnit(unit, index, units.length, alphabet, arabicOf)).join("");
  });
  return written === undefined ? undefined : replaceMarks(written, MARKS).normalize("NFC");
}

/** Returns the words of a text in Devanagari; undefined: a word lacks the marks of its vowels. */
export function arabicToDevanagari(text: string, alphabet: ArabicAlphabet): string | undefined {
  const marked = replaceMarks(
    text,
    MARKS.map(([own, arabic]) => [arabic, own]),
  );
  return replaceWords(marked, /\p{Script=Arabic}/u, (word) => {
    const units = parseArabic(word.replace(MARK_BEFORE_SHADDA, "$2$1"), alphabet);
    return units?.map(devanagariOfUnit).join("");
  });
}

function replaceMarks(text: string, pairs: readonly (readonly [string, string])[]): string {
  const meant = new Map(pairs);
  return text.replace(/[,?;।،؟؛۔]/gu, (mark) => meant.get(mark) ?? mark);
}

function replaceWords(
  text: string,
  letter: RegExp,
  convert: (word: string) => string | undefined,
): string | undefined {
  let isComplete = true;
  const converted = text.replace(WORD, (word) => {
    if (!letter.test(word)) return word;
    const written = word.length > LONGEST_WORD ? undefined : convert(word);
    if (written === undefined) isComplete = false;
    return written ?? word;
  });
  return isComplete ? converted : undefined;
}

const DEVANAGARI_UNIT = new RegExp(
  `(?:(\\p{Lo}\u093C?)${VIRAMA}(?=(\\p{Lo}\u093C?)))?(\\p{Lo}\u093C?)([${SIGNS}${VIRAMA}]?)(${ANUSVARA}?)`,
  "uy",
);

function unitsOfDevanagari(word: string, arabicOf: ReadonlyMap<string, string>): Unit[] | undefined {
  const units: Unit[] = [];
  DEVANAGARI_UNIT.lastIndex = 0;
  let end = 0;
  while (end < word.length) {
    DEVANAGARI_UNIT.lastIndex = end;
    const found = DEVANAGARI_UNIT.exec(word);
    if (!found) return undefined;
    const [whole, first, , letter = "", sign = "", nasal = ""] = found;
    if (first !== undefined && first !== UNASPIRATED.get(letter) && first !== letter) {
      // It is a conjunct of two different consonants: the first one is a unit of its own.
      if (!arabicOf.has(first)) return undefined;
      units.push({ consonant: first, isNasal: false });
      end += first.length + VIRAMA.length;
      continue;
    }
    const vowel = VOWELS.find((one) => one.letter === letter);
    if (vowel ? sign !== "" : !arabicOf.has(letter)) return undefined;
    const ownVowel = vowel ?? VOWELS.find((one) => sign !== VIRAMA && one.sign === sign);
    units.push({
      ...(vowel ? {} : { consonant: letter, isDoubled: first !== undefined }),
      ...(ownVowel ? { vowel: ownVowel } : {}),
      isNasal: nasal !== "",
    });
    end += whole.length;
  }
  return units;
}

const UNASPIRATED = new Map([
  ["ख", "क"],
  ["घ", "ग"],
  ["छ", "च"],
  ["झ", "ज"],
  ["ठ", "ट"],
  ["ढ", "ड"],
  ["थ", "त"],
  ["ध", "द"],
  ["फ", "प"],
  ["भ", "ब"],
]);

function writeUnit(
  { consonant, isDoubled, vowel, isNasal }: Unit,
  index: number,
  count: number,
  { ye, finalE }: ArabicAlphabet,
  arabicOf: ReadonlyMap<string, string>,
): string {
  const isLast = index === count - 1;
  const nasal = isNasal ? (isLast ? FINAL_NASAL : NOON + NASAL_MARK) : "";
  const arabic = consonant === undefined ? "" : (arabicOf.get(consonant) ?? "");
  const letter = isDoubled ? (arabic[0] ?? "") + SHADDA + arabic.slice(1) : arabic;
  if (!vowel) return letter + SUKUN;
  if (consonant === undefined && vowel.long === "alif" && index === 0) return LONG_ALIF + nasal;
  const carrier = consonant === undefined ? (index === 0 ? ALIF : HAMZA) : letter;
  const isSilent =
    vowel.letter === "अ" && isLast && !isNasal && consonant !== undefined && !isHalfVowel(arabic, ye);
  if (isSilent) return carrier;
  const longYe = isLast && !isNasal && vowel.mark !== ZER ? finalE : ye;
  const long = { "": "", alif: ALIF, waw: WAW, ye: longYe }[vowel.long];
  return carrier + vowel.mark + long + (vowel.hasSukun ? SUKUN : "") + nasal;
}

/** Ye and waw are consonants and letters of prolongation, so that a consonant ye always has a vowel. */
function isHalfVowel(arabic: string, ye: string): boolean {
  return arabic === WAW || arabic === ye;
}

function devanagariOfUnit({ consonant, isDoubled, vowel, isNasal }: Unit): string {
  const doubled =
    isDoubled && consonant !== undefined ? (UNASPIRATED.get(consonant) ?? consonant) + VIRAMA : "";
  const nasal = isNasal ? ANUSVARA : "";
  if (consonant === undefined) return (vowel?.letter ?? "") + nasal;
  return doubled + consonant + (vowel ? vowel.sign : VIRAMA) + nasal;
}

type Spelling = { consonant: string; letter: string; isDoubled: boolean; isHalfVowel: boolean };
const spellingTables = new WeakMap<ArabicAlphabet, ReadonlyMap<string, readonly Spelling[]>>();

/** Returns the spellings of consonants, plain and doubled, by their first letter, the longest first. */
function spellingsOf(alphabet: ArabicAlphabet): ReadonlyMap<string, readonly Spelling[]> {
  let table = spellingTables.get(alphabet);
  if (!table) {
    const all = alphabet.consonants.flatMap(([consonant, arabic]): Spelling[] => {
      const half = isHalfVowel(arabic, alphabet.ye);
      const doubled = (arabic[0] ?? "") + SHADDA + arabic.slice(1);
      return [
        { consonant, letter: doubled, isDoubled: true, isHalfVowel: half },
        { consonant, letter: arabic, isDoubled: false, isHalfVowel: half },
      ];
    });
    const sorted = all.toSorted((a, b) => b.letter.length - a.letter.length);
    table = Map.groupBy(sorted, ({ letter }) => letter[0] ?? "");
    spellingTables.set(alphabet, table);
  }
  return table;
}

/** Reads a word of Arabic letters with all its marks; undefined: marks are missing, or it has another letter. */
function parseArabic(word: string, alphabet: ArabicAlphabet): Unit[] | undefined {
  const spellings = spellingsOf(alphabet);
  /** Places from which the rest of the word cannot be read, so that each is tried once. */
  const hopeless = new Set<number>();
  const read = (at: number): Unit[] | undefined => {
    if (at === word.length) return [];
    if (hopeless.has(at)) return undefined;
    for (const [unit, end] of unitsAt(word, at, alphabet, spellings)) {
      const rest = read(end);
      if (rest) return [unit, ...rest];
    }
    hopeless.add(at);
    return undefined;
  };
  return read(0);
}

/** Returns the units that can begin at a place of a word, the longest first. */
function unitsAt(
  word: string,
  at: number,
  alphabet: ArabicAlphabet,
  spellings: ReadonlyMap<string, readonly Spelling[]>,
): [Unit, number][] {
  const found: [Unit, number][] = [];
  const add = (unit: Omit<Unit, "isNasal">, end: number): void => {
    if (word.startsWith(NOON + NASAL_MARK, end) && end + 2 < word.length)
      found.push([{ ...unit, isNasal: true }, end + 2]);
    if (word[end] === FINAL_NASAL && end + 1 === word.length)
      found.push([{ ...unit, isNasal: true }, end + 1]);
    found.push([{ ...unit, isNasal: false }, end]);
  };
  if (at === 0 && word[0] === LONG_ALIF) {
    add(withVowel({}, "आ"), 1);
  }
  const isCarrier = at === 0 ? word[at] === ALIF : word[at] === HAMZA;
  if (isCarrier) addVowels(word, at + 1, alphabet, {}, add);
  for (const { consonant, letter, isDoubled, isHalfVowel: isHalf } of spellings.get(word[at] ?? "") ?? []) {
    if (!word.startsWith(letter, at)) continue;
    const end = at + letter.length;
    addVowels(word, end, alphabet, { consonant, isDoubled }, add);
    if (word[end] === SUKUN) found.push([{ consonant, isDoubled, isNasal: false }, end + 1]);
    const isSilent = end === word.length && !isHalf;
    if (isSilent) found.push([{ ...withVowel({ consonant, isDoubled }, "अ"), isNasal: false }, end]);
  }
  return found;
}

function withVowel(unit: Omit<Unit, "isNasal">, letter: string): Omit<Unit, "isNasal"> {
  const vowel = VOWELS.find((one) => one.letter === letter);
  return vowel ? { ...unit, vowel } : unit;
}

function addVowels(
  word: string,
  at: number,
  { ye, finalE }: ArabicAlphabet,
  unit: Omit<Unit, "isNasal">,
  add: (unit: Omit<Unit, "isNasal">, end: number) => void,
): void {
  for (const vowel of VOWELS_BY_LENGTH) {
    const isLast = (long: string): boolean => at + (vowel.mark + long).length === word.length;
    const longs = { "": [""], alif: [ALIF], waw: [WAW], ye: vowel.mark === ZER ? [ye] : [ye, finalE] }[
      vowel.long
    ];
    for (const long of new Set(longs)) {
      if (long === finalE && long !== ye && !isLast(long) && !vowel.hasSukun) continue;
      const spelled = vowel.mark + long + (vowel.hasSukun ? SUKUN : "");
      if (word.startsWith(spelled, at)) add({ ...unit, vowel }, at + spelled.length);
    }
  }
}
