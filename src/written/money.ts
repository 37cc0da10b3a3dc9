import { amount } from "./figures.ts";
import { follower, follows, type Match, type Place, spokenNumber } from "./match.ts";
import type { SpokenNumber } from "./numbers.ts";
import type { Role } from "./types.ts";

type Currency = { role: Role; small: Role; sign: string; code: string };

const CURRENCIES: readonly Currency[] = [
  { role: "rupees", small: "paise", sign: "₹", code: "INR" },
  { role: "dollars", small: "cents", sign: "$", code: "USD" },
  { role: "euros", small: "cents", sign: "€", code: "EUR" },
  { role: "pounds", small: "cents", sign: "£", code: "GBP" },
];

/** An amount before or after the word for its money: "twelve rupees fifty paise", "rupees five hundred". */
export function moneyRule(place: Place, at: number): Match | undefined {
  return amountFirst(place, at) ?? wordFirst(place, at);
}

function amountFirst(place: Place, at: number): Match | undefined {
  const number = spokenNumber(place, at);
  if (!number || number.isOrdinal || number.ending !== "" || number.decimals?.includes(".")) return undefined;
  const word = follower(place, number.end);
  const currency = word && CURRENCIES.find((each) => word.roles.has(each.role));
  if (!word || !currency) return undefined;
  const small = smallAt(place, number.end + 1, currency);
  const value = amountOf(number) + (small?.value ?? 0) / 100;
  const ending = small ? small.ending : word.ending;
  return money(place, at, small?.end ?? number.end + 1, currency, value, ending, number);
}

function amountOf(number: SpokenNumber): number {
  return number.decimals === undefined ? number.value : Number(`${number.value}.${number.decimals}`);
}

/** Reads the paise after the rupees, if any. */
function smallAt(
  place: Place,
  at: number,
  currency: Currency,
): { value: number; end: number; ending: string } | undefined {
  const from = follows(place, at, "and") ? at + 1 : at;
  const number = follower(place, from) && spokenNumber(place, from);
  if (
    !number ||
    !Number.isInteger(number.value) ||
    number.value >= 100 ||
    number.isOrdinal ||
    number.decimals !== undefined
  )
    return undefined;
  const word = follower(place, number.end);
  // "two dollars fifty", where the sentence ends.
  if (number.value >= 10 && endsPart(place, number.end) && from === at) return number;
  return word?.roles.has(currency.small)
    ? { value: number.value, end: number.end + 1, ending: word.ending }
    : undefined;
}

/** Reads "and paise fifty" after "rupees seven". */
function smallFirst(place: Place, at: number, { small }: Currency): SpokenNumber | undefined {
  const from = follows(place, at, "and") ? at + 1 : at;
  if (!follows(place, from, small)) return undefined;
  const number = follower(place, from + 1) && spokenNumber(place, from + 1);
  return number && Number.isInteger(number.value) && number.value < 100 && !number.isOrdinal
    ? number
    : undefined;
}

function endsPart({ words }: Place, at: number): boolean {
  const word = words[at];
  return word === undefined || !/^\s+$/u.test(word.gap);
}

function wordFirst(place: Place, at: number): Match | undefined {
  const word = place.words[at];
  const currency = CURRENCIES.find(({ role }) =>
    role === "rupees"
      ? word?.roles.has("rupees_first")
      : role === "dollars" && word?.roles.has("dollars_first"),
  );
  const isNear = /^\.?\s+$/u.test(place.words[at + 1]?.gap ?? "");
  const number = currency && isNear ? spokenNumber(place, at + 1) : undefined;
  if (!currency || !number || number.isOrdinal || number.isBareScale) return undefined;
  const small = smallAt(place, number.end, currency) ?? smallFirst(place, number.end, currency);
  const isWhole = endsPart(place, number.end) || place.words[number.end]?.key === "only";
  if (number.isDigit && !small && !isWhole) return undefined;
  const value = amountOf(number) + (small?.value ?? 0) / 100;
  return money(place, at, small?.end ?? number.end, currency, value, small?.ending ?? number.ending, number);
}

function money(
  place: Place,
  from: number,
  end: number,
  currency: Currency,
  value: number,
  ending: string,
  number: SpokenNumber,
): Match {
  const hasTooMany = number.decimals !== undefined && number.decimals.length > 2;
  const figures = hasTooMany ? `${number.value}.${number.decimals}` : amount(value, place.grouping);
  const coded =
    currency.code === "INR" ? String(Math.round(value * 100)) : `${currency.code} ${value.toFixed(2)}`;
  return { from, end, text: `${currency.sign}${figures}${ending}`, kind: "money", value: coded };
}
