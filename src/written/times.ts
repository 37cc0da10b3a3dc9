import { twoDigits } from "./figures.ts";
import { foldWord } from "./fold.ts";
import { follower, follows, type Match, MEASURES, type Place, precedes, spokenNumber } from "./match.ts";
import type { SpokenNumber } from "./numbers.ts";

/** Writes times of the day: "quarter to ten", "साढ़े चार बजे", "ten thirty am". */
export function timeRule(place: Place, at: number): Match | undefined {
  return pastOrTo(place, at) ?? clock(place, at);
}

/** Reads "quarter to ten", "half past four", "ten minutes past five". */
function pastOrTo(place: Place, at: number): Match | undefined {
  const hasArticle = (place.words[at]?.roles.has("article") ?? false) && follows(place, at + 1, "quarter");
  const from = hasArticle ? at + 1 : at;
  const minutes = minutesBefore(place, from);
  if (!minutes) return undefined;
  const isTo = follows(place, minutes.end, "to");
  if (!isTo && !follows(place, minutes.end, "past")) return undefined;
  const hour = follower(place, minutes.end + 1) && spokenNumber(place, minutes.end + 1);
  if (!isClockNumber(hour, 12) || hour.value === 0 || follows(place, hour.end, ...COUNTED)) return undefined;
  const saysTime = precedes(place, at, 1, "time_cue") || follows(place, hour.end, "oclock", "day_half");
  if (!(minutes.isSure || !isTo || saysTime)) {
    // "ten to six" is a time or a range that falls.
    return minutes.value > hour.value ? { from: at, end: hour.end } : undefined;
  }
  if (minutes.value === 30 && isTo) return undefined;
  const whole = isTo ? (hour.value === 1 ? 12 : hour.value - 1) : hour.value;
  return time(at, hour.end, whole, isTo ? 60 - minutes.value : minutes.value, hour.ending);
}

const COUNTED = ["percent", "rupees", "dollars", "unit", "range"] as const;

/** Reads the minutes before "to" and "past". `isSure`: they cannot be anything else. */
function minutesBefore(
  place: Place,
  at: number,
): { value: number; end: number; isSure: boolean } | undefined {
  const word = place.words[at];
  if (word?.roles.has("half")) return { value: 30, end: at + 1, isSure: true };
  if (word?.roles.has("quarter")) return { value: 15, end: at + 1, isSure: true };
  const number = spokenNumber(place, at);
  if (!isClockNumber(number, 59) || number.value === 0 || number.isBareScale) return undefined;
  const isSure = follows(place, number.end, "minutes");
  return { value: number.value, end: isSure ? number.end + 1 : number.end, isSure };
}

function clock(place: Place, at: number): Match | undefined {
  const isCued = precedes(place, at, 1, "time_cue");
  const hour = spokenNumber(place, at);
  if (!hour || hour.isOrdinal || hour.isBareScale || hour.decimals !== undefined || hour.value >= 25)
    return undefined;
  const ending = foldWord(hour.ending);
  const { clockEndings, mixedClockEndings } = place.lexicon;
  const hasClockEnding =
    clockEndings.has(ending) || ((hour.isMixed || isCued) && mixedClockEndings.has(ending));
  const saysClock = hasClockEnding || follows(place, hour.end, "oclock", "day_half");
  const isMixedTime = isCued && hour.isMixed && !follows(place, hour.end, ...MEASURES);
  if (hour.value >= 0.75 && (saysClock || isMixedTime)) return fromHours(at, hour);
  if (hour.isMixed) return mixedRange(place, at, hour);
  return hour.ending === "" ? hourAndMinutes(place, at, isCued) : undefined;
}

/** Reads "साढ़े नौ से साढ़े पाँच": a range that falls is of times. One that rises may be of anything, and stays. */
function mixedRange(place: Place, at: number, low: SpokenNumber): Match | undefined {
  if (low.value >= 13 || low.ending !== "" || !follows(place, low.end, "range")) return undefined;
  const high = follower(place, low.end + 1) && spokenNumber(place, low.end + 1);
  if (!high?.isMixed || high.value >= 13 || high.ending !== "" || follows(place, high.end, ...MEASURES))
    return undefined;
  if (high.value >= low.value) return { from: at, end: high.end };
  const [from, until] = [fromHours(at, low), fromHours(high.from, high)];
  const between = place.text.slice(place.words[low.end - 1]?.end, place.words[high.from]?.start);
  return {
    ...from,
    end: high.end,
    text: from.text + between + until.text,
    value: `${from.value}/${until.value}`,
  };
}

function fromHours(at: number, hour: SpokenNumber): TimeMatch {
  const whole = Math.floor(hour.value);
  const minutes = Math.round((hour.value - whole) * 60);
  if (minutes === 0) {
    return {
      from: at,
      end: hour.end,
      text: `${whole}${hour.ending}`,
      kind: "time",
      value: `${twoDigits(whole)}:00`,
    };
  }
  return time(at, hour.end, whole === 0 ? 12 : whole, minutes, hour.ending);
}

/** Writes "ten thirty am", "at ten thirty", "five oh five pm", "nine thirty to six thirty". */
function hourAndMinutes(place: Place, at: number, isCued: boolean): Match | undefined {
  const pair = pairAt(place, at);
  if (!pair) return undefined;
  const text = clockText(pair);
  const value = isoTime(pair);
  if (follows(place, pair.end, "hours") && isRailwayTime(pair)) {
    const padded = pair.isPadded ? value : text;
    return { from: at, end: pair.end, text: padded, kind: "time", value };
  }
  // Later hours than twelve are said with "hours" or o'clock; "nineteen thirty nine to nineteen forty five" are years.
  const until =
    pair.hours > 12
      ? undefined
      : follows(place, pair.end, "range") && follower(place, pair.end + 1)
        ? pairAt(place, pair.end + 1)
        : undefined;
  if (until) {
    const between = place.text.slice(place.words[pair.end - 1]?.end, place.words[pair.end + 1]?.start);
    return {
      from: at,
      end: until.end,
      text: text + between + clockText(until),
      kind: "time",
      value: `${value}/${isoTime(until)}`,
    };
  }
  const saysHalf = follows(place, pair.end, "day_half", "oclock");
  if (
    !saysHalf &&
    (!(isCued || isTimed(place, pair)) ||
      pair.hours > 12 ||
      follows(place, pair.end, ...MEASURES) ||
      pair.minutes % 5 !== 0)
  )
    return undefined;
  return { from: at, end: pair.end, text, kind: "time", value };
}

/** Reports whether what follows runs at a time: "the ten thirty train", "दस तीस की बस". */
function isTimed(place: Place, { end, minutes }: Pair): boolean {
  if (minutes > 0 && minutes % 15 === 0 && follows(place, end, "time_after")) return true;
  return follows(place, end, "timed") || follows(place, end + 1, "timed");
}

/** Reports whether a pair is a time before "hours": "fourteen twenty hours". "Ten twelve hours" is about so long. */
function isRailwayTime({ hours, minutes, isPadded }: Pair): boolean {
  return isPadded || (hours > 12 && (minutes < hours || minutes > hours + 5));
}

type TimeMatch = Match & { text: string; value: string };

type Pair = { hours: number; minutes: number; end: number; ending: string; isPadded: boolean };

/** Reads an hour and its minutes, said one after the other. */
function pairAt(place: Place, at: number): Pair | undefined {
  const isPadded = spokenNumber(place, at)?.value === 0 || (place.words[at]?.roles.has("zero") ?? false);
  const hour = isPadded && follower(place, at + 1) ? spokenNumber(place, at + 1) : spokenNumber(place, at);
  if (!isClockNumber(hour, 24) || hour.isMixed || hour.isBareScale || hour.ending !== "" || hour.value < 1)
    return undefined;
  const isZero =
    follows(place, hour.end, "zero") ||
    (follower(place, hour.end) !== undefined && spokenNumber(place, hour.end)?.value === 0);
  const minutesAt = isZero ? hour.end + 1 : hour.end;
  const minutes = follower(place, minutesAt) && spokenNumber(place, minutesAt);
  if (!isClockNumber(minutes, 59) || minutes.isMixed || minutes.isDigit !== isZero) return undefined;
  return { hours: hour.value, minutes: minutes.value, end: minutes.end, ending: minutes.ending, isPadded };
}

const clockText = ({ hours, minutes, ending }: Pair) => `${hours}:${twoDigits(minutes)}${ending}`;
const isoTime = ({ hours, minutes }: Pair) => `${twoDigits(hours)}:${twoDigits(minutes)}`;

function isClockNumber(number: SpokenNumber | undefined, most: number): number is SpokenNumber {
  return (
    number !== undefined &&
    Number.isInteger(number.value) &&
    number.value <= most &&
    !number.isOrdinal &&
    number.decimals === undefined
  );
}

function time(from: number, end: number, hours: number, minutes: number, ending: string): TimeMatch {
  return {
    from,
    end,
    text: `${hours}:${twoDigits(minutes)}${ending}`,
    kind: "time",
    value: `${twoDigits(hours)}:${twoDigits(minutes)}`,
  };
}
