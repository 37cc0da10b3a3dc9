import { dateRule, dayRule, yearRule } from "./dates.ts";
import { digitsRule } from "./digit-runs.ts";
import { buildLexicon, type Lexicon } from "./lexicon.ts";
import { follows, type Match, MEASURES, type Place, precedes, spokenNumber } from "./match.ts";
import { moneyRule } from "./money.ts";
import {
  cardinalRule,
  fractionRule,
  ordinalRule,
  percentRule,
  pointFirstRule,
  rowRule,
} from "./plain-numbers.ts";
import { bankCodeRule, mixedCodeRule, panRule, vehicleRule } from "./plates.ts";
import { hundredsRule, rangeRule } from "./ranges.ts";
import { TABLES } from "./tables.ts";
import { timeRule } from "./times.ts";
import type { WrittenChange, WrittenOptions } from "./types.ts";
import { isClose, wordsOf } from "./words.ts";

/** The rules, in the order in which they are asked at each word. The first that answers is followed. */
const RULES: readonly ((place: Place, at: number) => Match | undefined)[] = [
  oldFigureRule,
  vehicleRule,
  panRule,
  bankCodeRule,
  mixedCodeRule,
  digitsRule,
  idiomRule,
  dateRule,
  dayRule,
  timeRule,
  rangeRule,
  hundredsRule,
  moneyRule,
  percentRule,
  pointFirstRule,
  fractionRule,
  yearRule,
  rowRule,
  ordinalRule,
  cardinalRule,
];

const lexicons = new Map<string, Lexicon>();

/** Reports whether numbers of a language can be written. */
export function canBeWritten(language: string): boolean {
  return Object.hasOwn(TABLES, language);
}

/**
 * Writes the numbers, money, dates and times of a text as people write them. What has two readings stays.
 *
 * @returns the new text, and each change with the words that it replaces. The text is the old one where no rule applies,
 * or where the language has no table
 */
export function applyWritten(
  text: string,
  options: WrittenOptions,
): { text: string; changes: WrittenChange[] } {
  const lexicon = lexiconOf(options.language);
  if (!lexicon) return { text, changes: [] };
  const words = wordsOf(text, lexicon);
  const place: Place = { text, words, lexicon, grouping: options.grouping ?? "indian", numbers: new Map() };
  const changes: WrittenChange[] = [];
  let written = "";
  let copied = 0;
  for (let at = 0; at < words.length; ) {
    const match = matchAt(place, at);
    const first = words[at];
    const last = match && words[match.end - 1];
    if (first && last && match.text !== undefined) {
      written += text.slice(copied, first.start);
      const figures = options.digits === "own" ? withOwnDigits(match.text, lexicon) : match.text;
      const spoken = text.slice(first.start, last.end);
      const { kind = "cardinal", value = "" } = match;
      if (figures !== spoken)
        changes.push({ start: written.length, end: written.length + figures.length, kind, value, spoken });
      written += figures;
      copied = last.end;
    }
    at = match ? match.end : at + 1;
  }
  return { text: written + text.slice(copied), changes };
}

/** Puts the spoken words back. */
export function spokenAgain(text: string, changes: readonly WrittenChange[]): string {
  let spoken = "";
  let copied = 0;
  for (const change of changes) {
    spoken += text.slice(copied, change.start) + change.spoken;
    copied = change.end;
  }
  return spoken + text.slice(copied);
}

function lexiconOf(language: string): Lexicon | undefined {
  const known = lexicons.get(language);
  if (known || !canBeWritten(language)) return known;
  const table = TABLES[language];
  const lexicon = table && buildLexicon(table);
  if (lexicon) lexicons.set(language, lexicon);
  return lexicon;
}

function matchAt(place: Place, at: number): Match | undefined {
  for (const rule of RULES) {
    const match = rule(place, at);
    if (match) return match;
  }
  return undefined;
}

/** Idioms, names and turns of phrase. */
function idiomRule(place: Place, at: number): Match | undefined {
  const { words, lexicon } = place;
  let phrase = words[at]?.key ?? "";
  const longest = lexicon.idiomLengths.get(phrase.split(" ", 1)[0] ?? "") ?? 0;
  let found: Match | undefined;
  for (let end = at + 1; phrase.length <= longest; end += 1) {
    if (lexicon.idioms.has(phrase)) found = { from: at, end };
    const next = words[end];
    if (!next || !isClose(next.gap)) break;
    phrase += ` ${next.key}`;
  }
  // With a measure after it, or as the beginning of a longer number, it is a number: चार सौ बीस रुपये.
  for (let from = at; found && from < found.end; from += 1) {
    const number = spokenNumber(place, from);
    if (!number || number.end < found.end) continue;
    const isCounted =
      follows(place, number.end, ...MEASURES, "label") || precedes(place, at, 1, "label", "house");
    if (number.end > found.end || isCounted) return undefined;
  }
  return found;
}

/** Text that has figures already stays, with the number words that follow at once: "5 lakh". */
function oldFigureRule(place: Place, at: number): Match | undefined {
  if (!place.words[at]?.hasFigures) return undefined;
  const next = place.words[at + 1];
  const isScale = next && isClose(next.gap) && next.parts[0]?.type === "scale";
  const number = isScale ? spokenNumber(place, at + 1) : undefined;
  return { from: at, end: number?.end ?? at + 1 };
}

function withOwnDigits(text: string, lexicon: Lexicon): string {
  const digits = [...(lexicon.ownDigits ?? "0123456789")];
  return text.replace(/\d/gu, (digit) => digits[Number(digit)] ?? digit);
}
