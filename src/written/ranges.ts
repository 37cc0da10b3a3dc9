import { amount, figure, grouped } from "./figures.ts";
import { follower, follows, type Match, type Place, precedes, spokenNumber } from "./match.ts";
import type { SpokenNumber } from "./numbers.ts";
import { letterAfter } from "./plain-numbers.ts";

/**
 * Ranges whose ends share a word: "ten to fifteen thousand people" is 10,000 to 15,000, and "five to ten rupees" is ₹5 to ₹10.
 * Other ranges are two numbers of their own.
 */
export function rangeRule(place: Place, at: number): Match | undefined {
  const low = plainAt(place, at);
  if (low?.ending !== "" || !follows(place, low.end, "range")) return undefined;
  const high = follower(place, low.end + 1) && plainAt(place, low.end + 1);
  if (!high) return undefined;
  const scale = sharedScale(place, low, high);
  const lowest = low.value * scale;
  if (lowest >= high.value) return undefined;
  const between = place.text.slice(place.words[low.end - 1]?.end, place.words[high.from]?.start);
  const word = high.ending === "" ? follower(place, high.end) : undefined;
  if (word?.roles.has("rupees")) {
    const text = `₹${amount(lowest, place.grouping)}${between}₹${amount(high.value, place.grouping)}${word.ending}`;
    return { from: at, end: high.end + 1, text, kind: "money", value: `${lowest * 100}/${high.value * 100}` };
  }
  if (scale === 1) return undefined;
  const text =
    figure(lowest, undefined, place.grouping) +
    between +
    grouped(String(high.value), place.grouping) +
    high.ending;
  return { from: at, end: high.end, text, kind: "cardinal", value: `${lowest}/${high.value}` };
}

function plainAt(place: Place, at: number): SpokenNumber | undefined {
  const number = spokenNumber(place, at);
  return number && !number.isOrdinal && number.decimals === undefined && !number.isBareScale
    ? number
    : undefined;
}

/** Returns the scale at the end of the high number that the low one shares; 1: none. */
function sharedScale(place: Place, low: SpokenNumber, high: SpokenNumber): number {
  const part = place.words[high.end - 1]?.parts.at(-1);
  const scale = part?.type === "scale" ? part.value : 1;
  return scale >= 1000 && low.value < 1000 && low.value < high.value / scale && !low.isMixed ? scale : 1;
}

/** Hundreds whose "hundred" is not said: "section one forty four", "two fifty grams", "one twenty by eighty". */
export function hundredsRule(place: Place, at: number): Match | undefined {
  const hundreds = spokenNumber(place, at);
  if (!hundreds?.isDigit || hundreds.value === 0 || hundreds.ending !== "" || !follower(place, hundreds.end))
    return undefined;
  const rest = plainAt(place, hundreds.end);
  const isOpen =
    place.words[hundreds.end]?.parts.some((part) => part.type === "unit" && part.isOpen) ?? false;
  if (!rest || !Number.isInteger(rest.value) || rest.value < 20 || rest.value > 99 || !isOpen)
    return undefined;
  const value = hundreds.value * 100 + rest.value;
  const isNumbered = precedes(place, at, 1, "label", "house");
  const over = follows(place, rest.end, "over") ? plainAt(place, rest.end + 1) : undefined;
  if (over && !isNumbered) {
    return {
      from: at,
      end: over.end,
      text: `${value}/${over.value}${over.ending}`,
      kind: "fraction",
      value: `${value}/${over.value}`,
    };
  }
  const word = follower(place, rest.end);
  if (word?.roles.has("rupees")) {
    return {
      from: at,
      end: rest.end + 1,
      text: `₹${value}${word.ending}`,
      kind: "money",
      value: String(value * 100),
    };
  }
  if (!isNumbered && !follows(place, rest.end, "unit")) return undefined;
  const letter = letterAfter(place, at, rest);
  const end = letter === undefined ? rest.end : rest.end + 1;
  return {
    from: at,
    end,
    text: `${value}${rest.ending}${letter ?? ""}`,
    kind: "cardinal",
    value: String(value),
  };
}
