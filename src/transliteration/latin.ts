import { languageOf } from "../domain/languages.ts";
import { toPivot } from "./brahmic.ts";
import { isBrahmic } from "./brahmic-letters.ts";
import { ENGLISH_WORDS } from "./english-words.ts";
import { LATIN_RULES, type LatinRules, USUAL } from "./latin-rules.ts";
import { CONSONANTS, phonemesOf, VOWELS } from "./phonemes.ts";
import { dropSchwas, type SchwaWay } from "./schwas.ts";

/**
 * Writes text in Latin letters as people type it: without diacritics, in small letters.
 *
 * @param pivot the letters of Devanagari, in NFC
 * @param language ISO code of a language that has rules
 */
export function latinOf(pivot: string, language: string): string {
  const rules = rulesOf(language);
  const known = pivot.replace(WORD, (word) => rules.words.get(word) ?? word);
  const voiced = language === "ml" ? known.replace(HALF_U, "ु") : known;
  const sounds = dropSchwas(applyAll(phonemesOf(voiced), rules.before), rules.schwas);
  const spelled = applyAll(sounds, rules.sounds).replace(
    LETTER,
    (letter) => rules.letters.get(letter) ?? letter,
  );
  return applyAll(spelled, rules.spellings);
}

const WORD = /[\p{Script=Devanagari}\u200C\u200D]+/gu;
/** A virama at the end of a word is a short u in Malayalam, which most English words do not have. A chillu has a joiner. */
const HALF_U = /(?<=[कचटणतनरऱळ])्(?![\u200D\p{L}\p{M}])/gu;
const LETTER = /[\p{Script=Devanagari}ə।॥\u200C\u200D]/gu;

/** Languages whose English words have the spellings of `english-words.ts`. */
const NORTHERN = new Set(["hi", "mr", "gu", "pa", "ne", "mai", "doi", "brx", "kok"]);

type Change = readonly [RegExp, string];
type Compiled = {
  words: ReadonlyMap<string, string>;
  before: readonly Change[];
  schwas: SchwaWay;
  sounds: readonly Change[];
  letters: ReadonlyMap<string, string>;
  spellings: readonly Change[];
};
/** By language: compiled when a language is first written. */
const compiled = new Map<string, Compiled>();

function rulesOf(language: string): Compiled {
  let rules = compiled.get(language);
  if (!rules) {
    const written = LATIN_RULES[language];
    if (!written) throw new Error(`No Latin rules for ${language}`);
    rules = compile(written, language);
    compiled.set(language, rules);
  }
  return rules;
}

function compile(
  { words, before = [], schwas, sounds = [], letters, spellings = [] }: LatinRules,
  language: string,
): Compiled {
  const home = languageOf(language)?.scripts.find(isBrahmic) ?? "Devanagari";
  return {
    words: new Map([
      ...(NORTHERN.has(language) ? Object.entries(ENGLISH_WORDS) : []),
      ...Object.entries(words).map(([word, latin]): [string, string] => [
        toPivot(word.normalize("NFC"), home, { language, home }),
        latin,
      ]),
    ]),
    before: before.map(changeOf),
    schwas,
    sounds: sounds.map(changeOf),
    letters: new Map(Object.entries({ ...USUAL, ...letters })),
    spellings: spellings.map(changeOf),
  };
}

const CLASSES: Readonly<Record<string, string>> = {
  C: `[${CONSONANTS}]`,
  V: `[${VOWELS}]`,
  B: "(?<![\\p{L}\\p{M}])",
  E: "(?![\\p{L}\\p{M}])",
};

function changeOf([pattern, replacement]: readonly [string, string]): Change {
  return [
    new RegExp(
      pattern.replace(/[CVBE]/gu, (name) => CLASSES[name] ?? name),
      "gv",
    ),
    replacement,
  ];
}

function applyAll(text: string, changes: readonly Change[]): string {
  let changed = text;
  for (const [pattern, replacement] of changes) changed = changed.replace(pattern, replacement);
  return changed;
}
