import type { Part } from "./lexicon.ts";
import { isClose, type Word } from "./words.ts";

/** A number as it was said, from the words `from` to `end` (exclusive). */
export type SpokenNumber = {
  from: number;
  end: number;
  value: number;
  /** The digits after the point as they were said; undefined: no point was said. */
  decimals: string | undefined;
  isOrdinal: boolean;
  ending: string;
  /** It has half or quarter in it. */
  isMixed: boolean;
  /** It is one word such as "hundred", which is also said for many. */
  isBareScale: boolean;
  /** It is one word of 0 to 9. */
  isDigit: boolean;
};

/** A summand of a number, and what a summand after it must be smaller than. */
type Term = { value: number; below: number };

/** What may be before a scale: sixty hundred, 999 thousand, 99,99,999 crore. */
function coefficientLimit(scale: number): number {
  if (scale === 100) return 100;
  return scale === 1e7 || scale >= 1e11 ? 1e7 : 1000;
}

type State = { terms: Term[]; lead: number | undefined; isMixed: boolean; hasScale: boolean };

/**
 * Reads the number that begins at a word: the longest row of words that is one cardinal or ordinal.
 *
 * @returns undefined: there is none, or its words are in an order that no number has
 */
export function numberAt(words: readonly Word[], from: number): SpokenNumber | undefined {
  let state: State = { terms: [], lead: undefined, isMixed: false, hasScale: false };
  let end = from;
  let decimals: string | undefined;
  let [isOrdinal, ending] = [false, ""];
  for (let at = from; at < words.length; at += 1) {
    const word = words[at];
    if (!word || (at > from && !isClose(word.gap))) break;
    if (word.roles.has("article") && at === from && isScaleWord(words[at + 1])) continue;
    if (
      word.roles.has("and") &&
      word.parts.length === 0 &&
      end === at &&
      state.hasScale &&
      joinsAfterAnd(words[at + 1])
    )
      continue;
    if (word.roles.has("point") && end === at && at > from && !state.isMixed) {
      const fraction = decimalsAt(words, at + 1);
      if (!fraction) break;
      // "version three point two point one"
      decimals = decimals === undefined ? fraction.digits : `${decimals}.${fraction.digits}`;
      [at, end, ending] = [fraction.end - 1, fraction.end, fraction.ending];
      if (ending !== "") break;
      continue;
    }
    const next = decimals === undefined ? addParts(state, word.parts) : undefined;
    if (!next) {
      const scaled = decimals === undefined ? undefined : scaledDecimal(state, decimals, word.parts);
      if (!scaled) break;
      return {
        ...finish(from, at + 1, scaled, words),
        isOrdinal: false,
        ending: word.ending,
        decimals: undefined,
        isMixed: true,
      };
    }
    state = next;
    [end, isOrdinal, ending] = [at + 1, word.isOrdinal, word.ending];
    if (isOrdinal || ending !== "") break;
  }
  if (end === from || state.lead !== undefined || state.terms.length === 0) return loneLead(words, from);
  const number = { ...finish(from, end, state, words), decimals, isOrdinal, ending };
  // "hundreds", "కోట్ల రూపాయలు": many, and no number.
  return number.isBareScale && words[from]?.roles.has("company") ? undefined : number;
}

function finish(from: number, end: number, state: State, words: readonly Word[]) {
  const value = state.terms.reduce((sum, term) => sum + term.value, 0);
  const only = end === from + 1 ? words[from]?.parts : undefined;
  return {
    from,
    end,
    value,
    isMixed: state.isMixed,
    isBareScale: only?.length === 1 && only[0]?.type === "scale",
    isDigit: only?.length === 1 && only[0]?.type === "unit" && value < 10,
  };
}

/** "सवा" or "पौन" with nothing after them: one and a quarter, three quarters. */
function loneLead(words: readonly Word[], from: number): SpokenNumber | undefined {
  const word = words[from];
  const part = word?.parts.length === 1 ? word.parts[0] : undefined;
  if (!word || part?.type !== "lead" || part.value === 0.5) return undefined;
  const rest = { decimals: undefined, isOrdinal: false, ending: word.ending, isMixed: true };
  return { from, end: from + 1, value: 1 + part.value, isBareScale: false, isDigit: false, ...rest };
}

function isScaleWord(word: Word | undefined): boolean {
  return word !== undefined && word.parts[0]?.type === "scale" && isClose(word.gap);
}

function joinsAfterAnd(word: Word | undefined): boolean {
  const part = word?.parts[0];
  return word !== undefined && isClose(word.gap) && (part?.type === "unit" || part?.type === "lead");
}

/** Adds the parts of one word. @returns undefined: the word does not continue the number */
function addParts(state: State, parts: readonly Part[]): State | undefined {
  if (parts.length === 0) return undefined;
  let current: State | undefined = state;
  for (const part of parts) current = current && addPart(current, part);
  return current;
}

function addPart(state: State, part: Part): State | undefined {
  const last = state.terms.at(-1);
  switch (part.type) {
    case "lead":
      if (state.lead !== undefined || (last && last.below < 100)) return undefined;
      return { ...state, lead: part.value, isMixed: true };
    case "unit": {
      const value = part.value + (state.lead ?? 0);
      if (last && (last.value === 0 || part.value === 0 || part.value >= last.below)) return undefined;
      if (last && state.isMixed) return undefined;
      const below = part.isOpen && part.value >= 10 && state.lead === undefined ? 10 : 1;
      return { ...state, lead: undefined, terms: [...state.terms, { value, below }] };
    }
    case "mixed":
      if (state.lead !== undefined || (last && last.below < 100)) return undefined;
      return { ...state, isMixed: true, terms: [...state.terms, { value: part.value, below: 1 }] };
    case "addition":
      if (!last || state.isMixed || state.lead !== undefined) return undefined;
      return { ...state, isMixed: true, terms: [...state.terms, { value: part.value, below: 0 }] };
    case "value": {
      if (last && part.value >= last.below) return undefined;
      // A quarter before two hundred is one of hundreds: પોણા બસો is 175.
      if (state.lead !== undefined) {
        const isHundreds = last === undefined && part.value < 1000 && part.value % 100 === 0;
        return isHundreds ? withCoefficient([], part.value / 100 + state.lead, 100) : undefined;
      }
      return {
        ...state,
        hasScale: true,
        terms: [...state.terms, { value: part.value, below: lowestStep(part.value) }],
      };
    }
    case "scale":
      return scaled(state, part.value);
  }
}

/** What may follow a value: less than 100 after 200, less than 1,000 after 50,000. */
function lowestStep(value: number): number {
  for (const step of [1e7, 1e5, 1e3, 100]) if (value % step === 0) return step;
  return 1;
}

function scaled(state: State, scale: number): State | undefined {
  if (state.lead !== undefined) {
    if (state.lead === 0.5) return undefined;
    return withCoefficient(state.terms, 1 + state.lead, scale);
  }
  const cut = state.terms.findIndex((term) => term.value < scale && term.below < scale);
  const kept = cut === -1 ? state.terms : state.terms.slice(0, cut);
  const coefficient = state.terms.slice(kept.length).reduce((sum, term) => sum + term.value, 0);
  if (coefficient === 0 && kept.length < state.terms.length) return undefined;
  if (coefficient >= coefficientLimit(scale)) return undefined;
  return withCoefficient(kept, coefficient === 0 ? 1 : coefficient, scale);
}

function withCoefficient(kept: Term[], coefficient: number, scale: number): State | undefined {
  const value = coefficient * scale;
  const last = kept.at(-1);
  if (last && value >= last.below) return undefined;
  // What follows half a hundred must be smaller than that half.
  const below = Number.isInteger(coefficient) ? scale : lowestStep(value);
  return { terms: [...kept, { value, below }], lead: undefined, isMixed: false, hasScale: true };
}

/** "two point five lakh": the value, without a rounding error. */
function scaledDecimal(state: State, decimals: string, parts: readonly Part[]): State | undefined {
  const [part] = parts;
  if (parts.length !== 1 || part?.type !== "scale" || decimals.includes(".")) return undefined;
  const whole = state.terms.reduce((sum, term) => sum + term.value, 0);
  const value = Math.round(Number(`${whole}.${decimals}`) * part.value * 1e4) / 1e4;
  return { terms: [{ value, below: 1 }], lead: undefined, isMixed: true, hasScale: true };
}

/** Reads the digits after the point: one by one, or a number of two digits. */
export function decimalsAt(
  words: readonly Word[],
  from: number,
): { digits: string; end: number; ending: string } | undefined {
  let digits = "";
  let end = from;
  let ending = "";
  for (let at = from; at < words.length && ending === ""; at += 1) {
    const word = words[at];
    const part = word?.parts.length === 1 ? word.parts[0] : undefined;
    if (!word || word.isOrdinal || !isClose(word.gap)) break;
    if (word.roles.has("zero") && part === undefined) digits += "0";
    else if (part?.type === "unit" && (part.value < 10 || digits === "")) {
      const follows = part.isOpen ? openDigit(words[at + 1]) : 0;
      digits += String(part.value + follows);
      if (follows > 0) at += 1;
      if (part.value >= 10) {
        end = at + 1;
        ending = words[at]?.ending ?? "";
        break;
      }
    } else break;
    end = at + 1;
    ending = words[at]?.ending ?? "";
  }
  return digits === "" ? undefined : { digits, end, ending };
}

function openDigit(word: Word | undefined): number {
  const part = word?.parts.length === 1 ? word.parts[0] : undefined;
  return word && isClose(word.gap) && part?.type === "unit" && part.value > 0 && part.value < 10
    ? part.value
    : 0;
}
