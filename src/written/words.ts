import { foldWord, isDropped } from "./fold.ts";
import type { Entry, Lexicon, Part } from "./lexicon.ts";
import type { Role } from "./types.ts";

/** A word, or a known phrase, of a text. */
export type Word = {
  /** UTF-16 offsets in the text. */
  start: number;
  end: number;
  raw: string;
  key: string;
  /** What is between the word before and this one. */
  gap: string;
  parts: readonly Part[];
  isOrdinal: boolean;
  roles: ReadonlySet<Role>;
  month: number | undefined;
  letter: string | undefined;
  denominator: number | undefined;
  decade: number | undefined;
  /** An ending that stays on the figure, as it was written. */
  ending: string;
  /** The word has figures already. */
  hasFigures: boolean;
};

/**
 * Letters, marks and figures, with joiners and with apostrophes between them: "o'clock". Six of Bodo, द', ends with one, and so do
 * the numbers that end with it: जिद', जौद'.
 */
const WORD =
  /[\p{L}\p{M}\p{N}\u200c\u200d]+(?:['’][\p{L}\p{M}]+)*(?:(?<=(?<![\p{L}\p{M}])द|(?:जि|जौ|रोजा)द)['’])?/gu;
const NO_ROLES: ReadonlySet<Role> = new Set();
const MAX_GLUED_PARTS = 12;

/** Divides a text into words and says what the lexicon knows of each. */
export function wordsOf(text: string, lexicon: Lexicon): Word[] {
  const raw = [...text.matchAll(WORD)].map((match) => ({
    start: match.index,
    end: match.index + match[0].length,
    key: foldWord(match[0]),
  }));
  const words: Word[] = [];
  let last = 0;
  for (let index = 0; index < raw.length; ) {
    const length = phraseAt(text, raw, index, lexicon);
    const first = raw[index];
    const final = raw[index + length - 1];
    if (!first || !final) break;
    const spelling = text.slice(first.start, final.end);
    const key = raw
      .slice(index, index + length)
      .map((each) => each.key)
      .join(" ");
    words.push({
      start: first.start,
      end: final.end,
      raw: spelling,
      key,
      gap: text.slice(last, first.start),
      ...knownOf(spelling, key, lexicon),
    });
    last = final.end;
    index += length;
  }
  return words;
}

/** Returns how many words the longest known phrase at a place has; 1 where there is none. */
function phraseAt(
  text: string,
  raw: readonly { start: number; end: number; key: string }[],
  index: number,
  lexicon: Lexicon,
): number {
  const first = raw[index];
  const longest = (first && lexicon.phraseLengths.get(first.key)) ?? 1;
  for (let length = longest; length > 1; length -= 1) {
    const words = raw.slice(index, index + length);
    if (words.length < length) continue;
    if (!lexicon.entries.has(words.map((each) => each.key).join(" "))) continue;
    const isTogether = words.every(
      (each, at) => at === 0 || isClose(text.slice(words[at - 1]?.end ?? 0, each.start)),
    );
    if (isTogether) return length;
  }
  return 1;
}

/** Reports whether two words with this between them can belong to one number. */
export function isClose(gap: string): boolean {
  return /^(?:[\s\u00a0]+|\s*[-\u2010\u2011]\s*)$/u.test(gap) && !gap.includes("\n");
}

function knownOf(
  raw: string,
  key: string,
  lexicon: Lexicon,
): Omit<Word, "start" | "end" | "raw" | "key" | "gap"> {
  const hasFigures = /\p{N}/u.test(raw);
  const whole = lexicon.entries.get(key);
  if (whole || hasFigures) return wordOf(whole, "", false, hasFigures);
  const glued = glue(key, lexicon);
  if (glued) return wordOf({ parts: glued, roles: new Set() }, "", false, false);
  for (const { spelling, shown, isOrdinal } of lexicon.endings) {
    if (!key.endsWith(spelling) || key.length <= spelling.length) continue;
    const entry = stemOf(key.slice(0, -spelling.length), lexicon);
    if (!entry || !(entry.parts || (!isOrdinal && takesEnding(entry)))) continue;
    return wordOf(entry, shown ?? standingAlone(rawEnding(raw, spelling)), isOrdinal, false);
  }
  return wordOf(undefined, "", false, false);
}

function stemOf(stem: string, lexicon: Lexicon): Entry | undefined {
  for (const end of lexicon.stemEnds) {
    const entry = lexicon.entries.get(stem + end) ?? gluedEntry(stem + end, lexicon);
    if (entry) return entry;
  }
  return undefined;
}

function gluedEntry(key: string, lexicon: Lexicon): Entry | undefined {
  const parts = glue(key, lexicon);
  return parts && { parts, roles: new Set() };
}

const TAKES_ENDING: readonly Role[] = [
  "percent",
  "rupees",
  "paise",
  "dollars",
  "cents",
  "euros",
  "pounds",
  "oclock",
  "hours",
  "minutes",
  "unit",
];
const takesEnding = (entry: Entry) =>
  entry.month !== undefined || TAKES_ENDING.some((role) => entry.roles.has(role));

/** Finds the written form of a folded ending at the end of a word. */
function rawEnding(raw: string, ending: string): string {
  for (let at = raw.length - 1; at > 0; at -= 1)
    if (!isDropped(raw[at] ?? "") && foldWord(raw.slice(at)) === ending) return raw.slice(at);
  return ending;
}

/** The first and last vowel signs of a block of the scripts of India, and how far before them their vowels are. */
const SIGN_FROM = 0x3e;
const SIGN_TO = 0x4c;
const SIGN_TO_VOWEL = 0x38;
const FIRST_BLOCK = 0x0900;
const LAST_BLOCK = 0x0d7f;

/** Writes a vowel sign at the beginning as the vowel: after a figure, which has no consonant, ாவது is ஆவது. */
function standingAlone(ending: string): string {
  const code = ending.codePointAt(0) ?? 0;
  const inBlock = code & 0x7f;
  const isSign = code >= FIRST_BLOCK && code <= LAST_BLOCK && inBlock >= SIGN_FROM && inBlock <= SIGN_TO;
  return isSign ? String.fromCodePoint(code - SIGN_TO_VOWEL) + ending.slice(1) : ending;
}

function wordOf(entry: Entry | undefined, ending: string, isOrdinal: boolean, hasFigures: boolean) {
  return {
    parts: entry?.parts ?? [],
    isOrdinal: isOrdinal || (entry?.isOrdinal ?? false),
    roles: entry?.roles ?? NO_ROLES,
    month: entry?.month,
    letter: entry?.letter,
    denominator: entry?.denominator,
    decade: entry?.decade,
    ending,
    hasFigures,
  };
}

/** Reads a word as parts of a number that are written together. */
function glue(key: string, lexicon: Lexicon): Part[] | undefined {
  const { glued } = lexicon;
  if (!glued || key.length < 3) return undefined;
  const dead = new Set<number>();
  const from = (at: number, depth: number): Part[] | undefined => {
    if (at === key.length) return [];
    if (depth === MAX_GLUED_PARTS || dead.has(at)) return undefined;
    for (const [spelling, part] of glued.get(key[at] ?? "") ?? []) {
      if (!key.startsWith(spelling, at)) continue;
      const rest = from(at + spelling.length, depth + 1);
      if (rest) return [part, ...rest];
    }
    dead.add(at);
    return undefined;
  };
  return from(0, 0);
}
