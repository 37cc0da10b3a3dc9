import type { Grouping } from "./figures.ts";
import type { Lexicon } from "./lexicon.ts";
import { numberAt, type SpokenNumber } from "./numbers.ts";
import type { Role, WrittenKind } from "./types.ts";
import { isClose, type Word } from "./words.ts";

/** What a rule is asked for: the words of one text, and how figures are written. */
export type Place = {
  text: string;
  words: readonly Word[];
  lexicon: Lexicon;
  grouping: Grouping;
  /** Numbers by the word at which they begin: each is read once. */
  numbers: Map<number, SpokenNumber | undefined>;
};

/** A rewriting of the words `from` to `end` (exclusive). `text` undefined: they stay, and no other rule looks at them. */
export type Match = { from: number; end: number; text?: string; kind?: WrittenKind; value?: string };

/** Roles of words that say what a number before them counts. */
export const MEASURES = [
  "unit",
  "rupees",
  "paise",
  "percent",
  "dollars",
  "euros",
  "hours",
  "minutes",
  "days",
  "weeks",
  "months_long",
  "years",
  "oclock",
] as const satisfies readonly Role[];

/** Reads the number at a word. */
export function spokenNumber(place: Place, at: number): SpokenNumber | undefined {
  if (!place.numbers.has(at)) place.numbers.set(at, numberAt(place.words, at));
  return place.numbers.get(at);
}

/** Returns the word at a place, when only a space or a hyphen is before it. */
export function follower(place: Place, at: number): Word | undefined {
  const word = place.words[at];
  return word && isClose(word.gap) ? word : undefined;
}

/** Reports whether the word at a place follows closely and has one of the roles. */
export function follows(place: Place, at: number, ...roles: Role[]): boolean {
  const word = follower(place, at);
  return word !== undefined && roles.some((role) => word.roles.has(role));
}

/** Reports whether one of the words before a place, in the same sentence, has a role. */
export function precedes(place: Place, at: number, within: number, ...roles: Role[]): boolean {
  for (let before = at - 1; before >= Math.max(0, at - within); before -= 1) {
    const word = place.words[before];
    if (word && roles.some((role) => word.roles.has(role))) return true;
  }
  return false;
}
