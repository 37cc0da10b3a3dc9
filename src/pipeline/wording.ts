import { type Language, languageOf, type Script } from "../domain/languages.ts";
import type { Mode } from "../domain/transcription.ts";
import { loanWordsOf } from "./loan-words.ts";
import { SENTENCE_ENDS } from "./sentence-ends.ts";
import { normalizeText } from "./unicode.ts";
import { ENDS_WITH_DANDA, type LanguageWording, wordingOf } from "./wording-tables.ts";

/**
 * The wording stage, which applies a mode to recognized text. A mode also acts before: `suppressPattern` and `promptFor`
 * limit what the model writes.
 *
 * | mode     | letters                          | text                                                              |
 * |----------|----------------------------------|-------------------------------------------------------------------|
 * | native   | the language's own scripts       | cleaned: no hesitations, no stutters, punctuation, digits 0 to 9  |
 * | codemix  | own scripts and Latin            | cleaned, and English words of the lexicon back in Latin letters   |
 * | verbatim | own scripts and Latin, no digits | as it was said: Unicode form and white space only                 |
 */
export type WordingOptions = {
  /** ISO code. */
  language: string;
  mode: Mode;
};

/**
 * Applies the wording of a mode to the text of one segment. A second application changes nothing. The result is empty
 * where the text was only a hesitation.
 *
 * Digits: in native and codemix, digits of Indian scripts become 0 to 9, the international form of Indian numerals that
 * article 343 of the Constitution prescribes. Numbers stay in digits or words as the model wrote them. In verbatim the
 * model cannot write digits, so numbers are the words that were spoken. If it writes digits nevertheless (byte by byte),
 * they stay: "25" does not show whether "twenty-five", "two five" or "पच्चीस" was said.
 *
 * Annotations of sounds in brackets are removed in native and codemix, and stay in verbatim. Control tokens (`<unk>`,
 * `<|nospeech|>`) are always removed.
 *
 * @param onStep called with each text on the way, the wording last, if it differs from the one before. The differences are
 *   few, so that it is known which words became which
 */
export function applyWording(
  text: string,
  { language, mode }: WordingOptions,
  onStep: (text: string) => void = () => {},
): string {
  let worded = text;
  const step = (next: string) => {
    if (next !== worded) onStep(next);
    worded = next;
  };
  step(text.replace(CONTROL_TOKEN, " "));
  step(normalizeText(worded, language));
  if (mode === "verbatim") return worded;
  const cleaning = cleaningOf(tableOf(language), mode, language);
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const before = worded;
    for (const clean of cleaning) step(clean(worded));
    if (worded === before) break;
  }
  return worded;
}

/** A removal can create text that another step removes, so the steps are repeated. Two or three passes are usual. */
const MAX_PASSES = 10;

function cleaningOf(table: Table, mode: Mode, language: string): ((text: string) => string)[] {
  return [
    (text) => text.replace(ANNOTATION, " "),
    (text) => dropFillers(text, table.filler),
    (text) => dropStutters(text, table.neverDoubled),
    (text) => cleanPunctuation(text, table.hasDanda),
    (text) => text.replace(INDIAN_DIGIT, toAsciiDigit),
    ...(mode === "codemix" ? [(text: string) => restoreLoanWords(text, table.loanWords)] : []),
    (text) => normalizeText(text, language),
  ];
}

/** Annotations of sounds that models write: [Music], (laughs), *coughs*, ♪. */
const ANNOTATION = /\[[^[\]]{0,60}\]|\([^()]{0,60}\)|\*[^*]{1,60}\*|[♪♫♬♩]+/gu;
const CONTROL_TOKEN = /<\|[^<>|]{0,40}\|>|<(?:unk|pad|s|\/s)>/gu;
const WORD_EDGES = /^([^\p{L}\p{M}\p{N}]*)(.*?)([^\p{L}\p{M}\p{N}\u200C\u200D]*)$/su;

type Table = {
  filler: RegExp;
  neverDoubled: ReadonlySet<string>;
  loanWords: ReadonlyMap<string, string>;
  hasDanda: boolean;
};
const tables = new Map<string, Table>();

function tableOf(code: string): Table {
  let table = tables.get(code);
  if (!table) {
    const scripts = scriptsOf(code);
    table = compile(wordingOf(code, scripts), code, scripts);
    // Codes come from manifests, which an admin writes, so there are few.
    tables.set(code, table);
  }
  return table;
}

function compile(wording: LanguageWording, code: string, scripts: readonly Script[]): Table {
  return {
    filler: new RegExp(`^(?:${wording.fillers})$`, "u"),
    neverDoubled: new Set((wording.neverDoubled ?? []).map((word) => normalizeText(word, code))),
    loanWords: loanWordsOf(code, scripts),
    hasDanda: scripts.some((script) => ENDS_WITH_DANDA[script]),
  };
}

function scriptsOf(code: string): Language["scripts"] {
  return languageOf(code)?.scripts ?? ["Latin"];
}

/** Separates a word from the punctuation around it. */
function splitWord(word: string): { before: string; core: string; after: string } {
  const [, before = "", core = "", after = ""] = WORD_EDGES.exec(word) ?? [];
  return { before, core, after };
}

const SENTENCE_END = new RegExp(`[${SENTENCE_ENDS}]`, "u");
const AT_SENTENCE_END = new RegExp(`[${SENTENCE_ENDS}]$`, "u");

/**
 * Removes hesitations. The punctuation of a removed last word moves to the word before it. The capital letter of a removed
 * first word moves to the next word. "ER" in capitals is not a hesitation.
 */
function dropFillers(text: string, filler: RegExp): string {
  const kept: string[] = [];
  let wantsCapital = false;
  for (const word of text.split(" ")) {
    const { before, core, after } = splitWord(word);
    const isShout = core.length > 1 && core !== core.toLowerCase() && core === core.toUpperCase();
    if (core === "" || isShout || !filler.test(core.toLowerCase())) {
      kept.push(wantsCapital ? capitalize(word) : word);
      wantsCapital = false;
      continue;
    }
    const previous = kept.at(-1);
    if (previous !== undefined && SENTENCE_END.test(after)) {
      kept[kept.length - 1] = AT_SENTENCE_END.test(previous)
        ? previous
        : previous.replace(/[,;:]$/u, "") + after;
    }
    wantsCapital ||= core !== core.toLowerCase();
    if (before !== "" && !/^[-–—,.…]+$/u.test(before)) kept.push(before);
  }
  return kept.join(" ");
}

function capitalize(word: string): string {
  return word.replace(/\p{Ll}/u, (letter) => letter.toUpperCase());
}

/**
 * Matches "w-what", "कु-कुछ" and "wh- what": beginnings of the word that follows, with hyphens. Joiners are parts of words.
 */
const FALSE_START =
  /(?<![\p{L}\p{M}\p{N}\u200C\u200D])((?:[\p{L}][\p{L}\p{M}\u200C\u200D]{0,5}[-–—]+ ?)+)(?=([\p{L}\p{M}\u200C\u200D]+))/gu;
/** Words with a prefix of one letter. */
const HYPHENATED = /^(?:e-|t-tests?$|x-)/iu;

/**
 * Removes stutters: beginnings of a word before the word itself, and doubled function words. Other doubled words stay,
 * because many languages of India double words on purpose ("धीरे-धीरे", "बार बार"). Compounds such as "re-read" stay.
 */
function dropStutters(text: string, neverDoubled: ReadonlySet<string>): string {
  const started = text.replace(FALSE_START, (starts: string, _: string, word: string) => {
    const parts = starts.split(/[-–—]+ ?/u).filter((part) => part !== "");
    const whole = word.toLowerCase();
    const isBeginning = parts.every(
      (part) => whole.startsWith(part.toLowerCase()) && part.length < word.length,
    );
    const isSpaced = starts.includes(" ");
    const isLatinPrefix = !isSpaced && parts.length === 1 && /^\p{Script=Latin}{2,}$/u.test(parts[0] ?? "");
    if (!isBeginning || isLatinPrefix || (!isSpaced && HYPHENATED.test(`${parts.join("-")}-${word}`)))
      return starts;
    return "";
  });
  const kept: string[] = [];
  let previous = "";
  for (const word of started.split(" ")) {
    const { before, core } = splitWord(word);
    const key = core.toLowerCase();
    if (before === "" && key === previous && neverDoubled.has(key)) kept.pop();
    kept.push(word);
    previous = AT_SENTENCE_END.test(word) ? "" : key;
  }
  return kept.join(" ");
}

/** Marks within a sentence. */
const PAUSES = ",;:،؛";
const SPACE_BEFORE_MARK = new RegExp(`\\s+([${PAUSES}${SENTENCE_ENDS}%])`, "gu");
const SEVERAL_PAUSES = new RegExp(`([${PAUSES}])[${PAUSES}]+`, "gu");
const PAUSES_BEFORE_END = new RegExp(`[${PAUSES}]+([${SENTENCE_ENDS}])`, "gu");
/** A full stop or a colon may be inside a word or a number. */
const NO_SPACE_AFTER_MARK = new RegExp(`((?![.:])[${PAUSES}${SENTENCE_ENDS}])(?=[\\p{L}\\p{M}])`, "gu");
const MARKS_AT_START = new RegExp(`^[\\s${PAUSES}${SENTENCE_ENDS}…–—-]+(?=[\\s\\p{L}\\p{N}"“‘'(₹$]|$)`, "u");

/** Corrects spaces around punctuation, punctuation of removed words, and dandas that were written as bars. */
function cleanPunctuation(text: string, hasDanda: boolean): string {
  const withDandas = hasDanda
    ? text.replace(/\s*(?:\|\||।\s*।)/gu, "॥").replace(/\s*\|(?=\s|$)/gu, "।")
    : text;
  return withDandas
    .replace(/\s+/gu, " ")
    .replace(SPACE_BEFORE_MARK, "$1")
    .replace(SEVERAL_PAUSES, "$1")
    .replace(PAUSES_BEFORE_END, "$1")
    .replace(/([?!।۔؟])\1+/gu, "$1")
    .replace(NO_SPACE_AFTER_MARK, "$1 ")
    .replace(MARKS_AT_START, "")
    .trim();
}

/** Code points of zero in the scripts of India. The other digits follow in order. */
const DIGIT_ZEROS = [
  0x0660, 0x06f0, 0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6, 0x0d66, 0x1c50, 0xabf0,
];
const INDIAN_DIGIT = /(?![0-9])\p{Nd}/gu;

function toAsciiDigit(digit: string): string {
  const code = digit.codePointAt(0) ?? 0;
  const zero = DIGIT_ZEROS.find((first) => code >= first && code < first + 10);
  return zero === undefined ? digit : String(code - zero);
}

function restoreLoanWords(text: string, loanWords: ReadonlyMap<string, string>): string {
  if (loanWords.size === 0) return text;
  return text
    .split(" ")
    .map((word) => {
      const { before, core, after } = splitWord(word);
      const english = loanWords.get(core);
      return english === undefined ? word : before + english + after;
    })
    .join(" ");
}

/** Returns the scripts whose letters a mode may contain. */
function allowedScripts(language: string, mode: Mode): readonly Script[] {
  const own = scriptsOf(language);
  return mode === "native" || own.includes("Latin") ? own : [...own, "Latin"];
}

/** Returns a pattern of one character: a letter of a script that the mode excludes. */
function foreignLetter(language: string, mode: Mode): string {
  const classes = allowedScripts(language, mode).map((script) => `\\p{Script=${script}}`);
  return `(?![${classes.join("")}\\p{Script=Inherited}\\p{Script=Common}])[\\p{L}\\p{M}]`;
}

/** Characters that are written instead of spoken words. */
const SPOKEN_SIGN = "\\p{Nd}|[%$₹€£]";

/**
 * Returns the characters that the model must not write, as a JavaScript pattern (flag u) of one character: letters, digits
 * and marks of scripts that the mode excludes. For verbatim they are also digits, percent and currency signs, so that
 * numbers are written as words.
 *
 * @param scripts the scripts in which the model writes the language; left out: its own
 * @returns undefined for an unknown language
 */
export function heldBackCharacter(
  language: string,
  mode: Mode,
  scripts: readonly Script[] = scriptsOf(language),
): string | undefined {
  if (!languageOf(language)) return undefined;
  const latin = mode === "native" ? [] : ["Latin"];
  const allowed = [...scripts, ...latin, "Inherited", "Common"];
  const classes = allowed.map((script) => `\\p{Script_Extensions=${script}}`);
  return `[^${classes.join("")}]${mode === "verbatim" ? `|${SPOKEN_SIGN}` : ""}`;
}

/**
 * Returns the tokens that the model must not write, as a JavaScript pattern (flag u) that matches a token's whole text:
 * those with a character that is held back. It is for models whose tokens are whole characters.
 *
 * @returns undefined for an unknown language
 */
export function suppressPattern(language: string, mode: Mode): string | undefined {
  if (!languageOf(language)) return undefined;
  const spoken = mode === "verbatim" ? `|${SPOKEN_SIGN}` : "";
  return `[^]*(?:${foreignLetter(language, mode)}${spoken})[^]*`;
}

/**
 * Returns the prompt for the model: for codemix a sentence that keeps English words in Latin letters, else undefined. A
 * model with `accepts_prompt = false` in its manifest must not receive it.
 */
export function promptFor(language: string, mode: Mode): string | undefined {
  if (mode !== "codemix") return undefined;
  return wordingOf(language, scriptsOf(language)).codemixPrompt;
}

/** Returns a sentence in the language's own letters, for models that write others without it; undefined: none is known. */
export function ownSentenceOf(language: string): string | undefined {
  return wordingOf(language, scriptsOf(language)).ownSentence;
}

/** Reports whether a text has a letter of a script that the mode excludes. */
export function hasForeignScript(text: string, language: string, mode: Mode): boolean {
  if (!languageOf(language)) return false;
  return new RegExp(foreignLetter(language, mode), "u").test(text);
}
