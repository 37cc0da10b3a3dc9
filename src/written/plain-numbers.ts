import { figure, plainNumber } from "./figures.ts";
import { follower, follows, type Match, type Place, precedes, spokenNumber } from "./match.ts";
import { decimalsAt, type SpokenNumber } from "./numbers.ts";
import type { Role, WrittenKind } from "./types.ts";

const exact = (number: SpokenNumber) =>
  number.decimals === undefined ? plainNumber(number.value) : `${number.value}.${number.decimals}`;

/** Writes "point five percent", whose zero is not said. */
export function pointFirstRule(place: Place, at: number): Match | undefined {
  if (!place.words[at]?.roles.has("point") || !follower(place, at + 1)) return undefined;
  const fraction = decimalsAt(place.words, at + 1);
  const word = fraction && fraction.ending === "" ? follower(place, fraction.end) : undefined;
  if (!fraction || !word?.roles.has("percent")) return undefined;
  const value = `0.${fraction.digits}`;
  return { from: at, end: fraction.end + 1, text: `${value}%${word.ending}`, kind: "percent", value };
}

/** Writes percent: "fifty percent" is 50%, and so is "percent fifty" in languages that say so. */
export function percentRule(place: Place, at: number): Match | undefined {
  if (place.words[at]?.roles.has("percent_first")) return percentFirst(place, at);
  const number = spokenNumber(place, at);
  if (!number || number.isOrdinal || number.ending !== "") return undefined;
  const word = follower(place, number.end);
  if (!word?.roles.has("percent")) return undefined;
  const text = `${figure(number.value, number.decimals, place.grouping)}%${word.ending}`;
  return { from: at, end: number.end + 1, text, kind: "percent", value: exact(number) };
}

function percentFirst(place: Place, at: number): Match | undefined {
  const number = follower(place, at + 1) && spokenNumber(place, at + 1);
  if (!number || number.isOrdinal) return undefined;
  const share =
    number.ending === "" && follows(place, number.end, "share") ? follower(place, number.end) : undefined;
  const ending = share ? share.ending : number.ending;
  const text = `${figure(number.value, number.decimals, place.grouping)}%${ending}`;
  return { from: at, end: share ? number.end + 1 : number.end, text, kind: "percent", value: exact(number) };
}

/** Writes fractions: "three by four" is 3/4. Thirds, quarters and halves in words of their own stay. */
export function fractionRule(place: Place, at: number): Match | undefined {
  const named = namedFraction(place, at);
  if (named) return named;
  const [above, below] = overPair(place, at);
  if (!above || !below) return undefined;
  const text = `${above.value}/${below.value}${below.ending}`;
  const kind: WrittenKind = precedes(place, at, 3, "house") ? "house_number" : "fraction";
  return { from: at, end: below.end, text, kind, value: `${above.value}/${below.value}` };
}

/** Reads "three fourths". */
function namedFraction(place: Place, at: number): Match | undefined {
  const above = spokenNumber(place, at);
  if (!isPlain(above) || !above.isDigit || above.value === 0 || above.ending !== "") return undefined;
  const word = follower(place, above.end);
  if (word?.denominator === undefined || above.value >= word.denominator) return undefined;
  const text = `${above.value}/${word.denominator}`;
  return { from: at, end: above.end + 1, text: text + word.ending, kind: "fraction", value: text };
}

function overPair(place: Place, at: number): [SpokenNumber, SpokenNumber] | [] {
  const above = spokenNumber(place, at);
  if (!isPlain(above) || above.ending !== "" || !follows(place, above.end, "over")) return [];
  const below = follower(place, above.end + 1) && spokenNumber(place, above.end + 1);
  return isPlain(below) ? [above, below] : [];
}

const isPlain = (number: SpokenNumber | undefined): number is SpokenNumber =>
  number !== undefined &&
  Number.isInteger(number.value) &&
  number.decimals === undefined &&
  !number.isOrdinal &&
  !number.isBareScale;

/** Numbers one after another are about so many, or have another sense that no rule knows: दस बारह. They stay. */
export function rowRule(place: Place, at: number): Match | undefined {
  let number = spokenNumber(place, at);
  let count = 0;
  let end = at;
  while (number && !number.isOrdinal) {
    count += 1;
    end = number.end;
    if (number.ending !== "" || number.decimals !== undefined || !follower(place, end)) break;
    number = spokenNumber(place, end);
  }
  return count > 1 ? { from: at, end } : undefined;
}

/** Ordinals from the tenth on. */
export function ordinalRule(place: Place, at: number): Match | undefined {
  const number = spokenNumber(place, at);
  if (
    !number?.isOrdinal ||
    isName(place, at) ||
    number.value < 10 ||
    (number.isBareScale && number.value > 100)
  )
    return undefined;
  const ending =
    place.lexicon.ordinalFigure && number.ending === ""
      ? place.lexicon.ordinalFigure(number.value)
      : number.ending;
  // "A tenth of the disk" is a fraction.
  if (precedes(place, at, 1, "article") && follows(place, number.end, "of"))
    return { from: at, end: number.end };
  const text = figure(number.value, undefined, place.grouping) + ending;
  return { from: at, end: number.end, text, kind: "ordinal", value: exact(number) };
}

const TIMES: readonly Role[] = ["hours", "minutes", "seconds", "days", "weeks", "months_long", "years"];

/** Decimals, numbers before a unit, and cardinals. */
export function cardinalRule(place: Place, at: number): Match | undefined {
  const isBelowZero = place.words[at]?.roles.has("minus") ?? false;
  const from = isBelowZero ? at + 1 : at;
  const number = isBelowZero && !follower(place, from) ? undefined : spokenNumber(place, from);
  if (!number || number.isOrdinal) return undefined;
  if (isName(place, at) && number.decimals === undefined) return { from: at, end: number.end };
  const unit = follower(place, number.end);
  const isUnit = unit?.roles.has("unit") ?? false;
  const isTime = TIMES.some((role) => unit?.roles.has(role));
  if (isBelowZero && !isUnit && number.decimals === undefined) return undefined;
  const isWritten = isBelowZero || isWorthFigures(place, at, number, isUnit, isTime);
  // A number that stays is not read again from its second word.
  if (!isWritten) return number.end > at + 1 ? { from: at, end: number.end } : undefined;
  const sign = isBelowZero ? "-" : "";
  const letter = letterAfter(place, at, number);
  const text = sign + figure(number.value, number.decimals, place.grouping) + number.ending + (letter ?? "");
  const kind: WrittenKind = isUnit ? "unit" : isTime ? "duration" : kindAlone(place, at, number);
  return {
    from: at,
    end: letter === undefined ? number.end : number.end + 1,
    text,
    kind,
    value: kind === "duration" && unit ? durationOf(number, unit.roles) : sign + exact(number),
  };
}

/** Reads the letter of "section four hundred ninety eight A" or "flat twelve B". */
export function letterAfter(place: Place, at: number, number: SpokenNumber): string | undefined {
  const word =
    number.ending === "" && number.decimals === undefined ? follower(place, number.end) : undefined;
  const isNumbered = precedes(place, at, 2, "label", "house") && follower(place, at) !== undefined;
  return word && isNumbered && /^[A-Z]$/u.test(word.raw) && word.raw !== "I" ? word.raw : undefined;
}

/** Reports whether a word has a capital inside of a sentence, as names and titles have: "Ocean's Eleven". */
function isName({ words }: Place, at: number): boolean {
  const word = words[at];
  if (!word || at === 0 || word.raw === word.key || /[.!?:"“\n]/u.test(word.gap)) return false;
  const isTitle = /^[A-Z][a-z]/u.test(word.raw);
  return isTitle && /^[A-Z][a-z']/u.test(words[at - 1]?.raw ?? "") && !words[at - 1]?.roles.has("label");
}

function kindAlone(place: Place, at: number, number: SpokenNumber): WrittenKind {
  if (number.decimals !== undefined || number.isMixed) return "decimal";
  if (precedes(place, at, 2, "house")) return "house_number";
  return number.value >= 1000 && number.value < 3000 && precedes(place, at, 1, "year_cue")
    ? "year"
    : "cardinal";
}

/** Decides whether a number is written in figures at all. */
function isWorthFigures(
  place: Place,
  at: number,
  number: SpokenNumber,
  isUnit: boolean,
  isTime: boolean,
): boolean {
  if (number.decimals !== undefined) return true;
  const isAlone = number.end === at + 1;
  if (isAlone && !isUnit && !isTime && place.words[at]?.roles.has("company"))
    return isLabelled(place, at, number);
  const hasArticle = place.words[at]?.roles.has("article") ?? false;
  if (number.isBareScale || (hasArticle && number.end === at + 2))
    return number.value === 100 || isUnit || isTime;
  // Three quarters alone stay, as half does.
  if (number.isMixed && number.value < 1) return false;
  if (number.isMixed) return !isAlone || place.words[at]?.parts[0]?.type !== "lead" || isUnit || isTime;
  if (number.value >= 10) return true;
  if (isLabelled(place, at, number) || isInRange(place, number)) return true;
  if (isUnit) return number.value > 1 || number.value === 0;
  return isTime && isInLongTime(place, at, number);
}

/** Reports whether a word before a number names what it numbers, such as house or page. */
function isLabelled(place: Place, at: number, number: SpokenNumber): boolean {
  const before = place.words[at - 1];
  if (!before || !follower(place, at)) return false;
  const isName = before.roles.has("label") || before.roles.has("house");
  const isNamedNumber = before.roles.has("code_cue") && precedes(place, at - 1, 1, "label", "house");
  if (isNamedNumber && follower(place, at - 1)) return true;
  // "In the yard five boys sat", "he is number one": these count, or are words of another sense, such as दो for "give".
  const isOther =
    precedes(place, at - 1, 1, "determiner") || (place.words[at]?.roles.has("doubtful") ?? false);
  return isName && !isOther && (number.value !== 1 || !before.roles.has("code_cue"));
}

/** Reports whether a number begins a range, "five to ten people". Both of its ends are written alike. */
function isInRange(place: Place, number: SpokenNumber): boolean {
  if (number.ending !== "" || !follows(place, number.end, "range")) return false;
  const other = follower(place, number.end + 1) && spokenNumber(place, number.end + 1);
  if (!other || other.isOrdinal || other.isBareScale || other.value <= number.value) return false;
  return other.value >= 10 || follows(place, other.end, "percent", "rupees", "dollars", "unit", "oclock");
}

/** Reports whether a number belongs to a duration with several units, "two hours thirty minutes". */
function isInLongTime(place: Place, at: number, number: SpokenNumber): boolean {
  const next = follows(place, number.end + 1, "and") ? number.end + 2 : number.end + 1;
  const after = follower(place, next) && spokenNumber(place, next);
  if (after && TIMES.some((role) => follows(place, after.end, role))) return true;
  if (!follower(place, at)) return false;
  const before = place.words[at - 1]?.roles.has("and") ? at - 2 : at - 1;
  const word = place.words[before];
  const isAfterTime =
    word !== undefined && (word.roles.has("oclock") || TIMES.some((role) => word.roles.has(role)));
  return isAfterTime && before > 0;
}

/** ISO 8601's duration. Half years and months are written with decimals, which ISO allows in the smallest part. */
function durationOf(number: SpokenNumber, roles: ReadonlySet<Role>): string {
  const value = exact(number);
  for (const [role, before, after] of ISO_UNITS) if (roles.has(role)) return `${before}${value}${after}`;
  return value;
}

const ISO_UNITS: readonly (readonly [Role, string, string])[] = [
  ["hours", "PT", "H"],
  ["minutes", "PT", "M"],
  ["seconds", "PT", "S"],
  ["days", "P", "D"],
  ["weeks", "P", "W"],
  ["months_long", "P", "M"],
  ["years", "P", "Y"],
];
