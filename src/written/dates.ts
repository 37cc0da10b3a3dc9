import { twoDigits } from "./figures.ts";
import { follower, follows, type Match, MEASURES, type Place, precedes, spokenNumber } from "./match.ts";
import { numberAt, type SpokenNumber } from "./numbers.ts";

type Year = { value: number; end: number; ending: string; isPair: boolean };

/** Reads a year: "two thousand twenty four", "nineteen eighty four", "twenty oh five". */
export function yearAt(place: Place, at: number): Year | undefined {
  const first = spokenNumber(place, at);
  if (!isWhole(first) || first.isOrdinal) return undefined;
  if (first.value >= 1000 && first.value < 3000) {
    return first.isBareScale
      ? undefined
      : { value: first.value, end: first.end, ending: first.ending, isPair: false };
  }
  if (first.value < 10 || first.value > 29 || first.ending !== "" || !follower(place, first.end))
    return undefined;
  const rest = endOfYear(place, first.end);
  return rest && { value: first.value * 100 + rest.value, end: rest.end, ending: rest.ending, isPair: true };
}

function endOfYear(place: Place, at: number): { value: number; end: number; ending: string } | undefined {
  const second = spokenNumber(place, at);
  if (isWhole(second) && second.value >= 10 && second.value < 100 && !second.isOrdinal) return second;
  const isZero = follows(place, at, "zero") || (second?.value === 0 && second.end === at + 1);
  const digit = isZero && follower(place, at + 1) ? spokenNumber(place, at + 1) : undefined;
  return isWhole(digit) && digit.isDigit ? digit : undefined;
}

function isWhole(number: SpokenNumber | undefined): number is SpokenNumber {
  return number !== undefined && !number.isMixed && number.decimals === undefined;
}

const isDay = (number: SpokenNumber | undefined): number is SpokenNumber =>
  isWhole(number) && number.value >= 1 && number.value <= 31 && !number.isBareScale;

/** A day and a month, in the order in which they were said, with or without a year; a month and a year. */
export function dateRule(place: Place, at: number): Match | undefined {
  return place.words[at]?.month === undefined ? dayFirst(place, at) : monthFirst(place, at);
}

function dayFirst(place: Place, at: number): Match | undefined {
  const day = spokenNumber(place, at);
  if (!isDay(day)) return undefined;
  const monthAt = follows(place, day.end, "of") ? day.end + 1 : day.end;
  const month = follower(place, monthAt);
  if (month?.month === undefined) return undefined;
  const year = yearAfter(place, monthAt + 1);
  const isAmbiguous = month.roles.has("company");
  if (isAmbiguous && !year && !day.isOrdinal && (day.value < 10 || !endsPhrase(place, monthAt + 1)))
    return undefined;
  const hasOf = monthAt > day.end;
  const text = hasOf
    ? `${day.value}${ordinalEnding(place, day)} ${place.words[day.end]?.raw} ${month.raw}`
    : `${day.value}${day.ending} ${month.raw}`;
  return date(place, {
    from: at,
    end: monthAt + 1,
    text,
    month: month.month,
    day: day.value,
    year,
    yearAt: monthAt + 1,
  });
}

function ordinalEnding({ lexicon }: Place, day: SpokenNumber): string {
  return day.isOrdinal ? (lexicon.ordinalFigure?.(day.value) ?? day.ending) : "";
}

/** Reports whether a sentence or its part ends here: a verb follows "ten may", and mostly nothing follows a date. */
function endsPhrase(place: Place, at: number): boolean {
  return place.words[at] === undefined || !/^\s+$/u.test(place.words[at]?.gap ?? "");
}

function monthFirst(place: Place, at: number): Match | undefined {
  const month = place.words[at];
  if (month?.month === undefined || !follower(place, at + 1)) return undefined;
  // The day is before it: "15 August", which is written already.
  if (follower(place, at) && place.words[at - 1]?.hasFigures) return undefined;
  const from = { from: at, month: month.month };
  const alone = yearAt(place, at + 1);
  if (alone && isYearOfMonth(alone)) {
    return date(place, {
      ...from,
      end: at + 1,
      text: month.raw,
      day: undefined,
      year: alone,
      yearAt: at + 1,
    });
  }
  const day = dayAfterMonth(place, at + 1);
  if (!isDay(day)) return undefined;
  const year = yearAfter(place, day.end);
  const isClear = day.isOrdinal || year !== undefined || (day.value >= 10 && !month.roles.has("company"));
  if (!isClear) return undefined;
  return date(place, {
    ...from,
    end: day.end,
    text: `${month.raw} ${day.value}${year ? "" : endingAfterMonth(place, day)}`,
    day: day.value,
    year,
    yearAt: day.end,
  });
}

/**
 * Reads the day after a month. A year after it does not belong to it, even where both could be one number: "July twenty two
 * thousand twenty three", ஆகஸ்ட் பதினைந்து ஆயிரத்து தொள்ளாயிரத்து நாற்பத்தேழு.
 */
function dayAfterMonth(place: Place, at: number): SpokenNumber | undefined {
  const number = spokenNumber(place, at);
  if (!number || number.value < 1000) return number;
  for (let end = number.end - 1; end > at; end -= 1) {
    const day = numberAt(place.words.slice(0, end), at);
    const year = spokenNumber(place, end);
    if (isDay(day) && day.end === end && year && year.value >= 1500 && year.value < 2200) return day;
  }
  return number;
}

/** Only years near ours: "March ten twenty" may be a day and something else. */
const isYearOfMonth = (year: Year) => year.value >= 1500 && year.value < 2200;

/** "August fifteenth" is August 15. Endings in a script of India stay: మార్చి 27వ. */
function endingAfterMonth({ lexicon, words }: Place, day: SpokenNumber): string {
  if (!day.isOrdinal || day.ending !== "" || /^[a-z]/iu.test(words[day.from]?.raw ?? "")) return day.ending;
  const ending = lexicon.ordinalFigure?.(day.value) ?? "";
  return /^[a-z]/u.test(ending) ? "" : ending;
}

/** Reads the year after a day and a month; a comma may be between. */
function yearAfter(place: Place, at: number): Year | undefined {
  const word = place.words[at];
  if (!word || !(follower(place, at) || /^,\s*$/u.test(word.gap))) return undefined;
  const year = yearAt(place, at);
  return year && isYearOfMonth(year) ? year : undefined;
}

type DateParts = {
  from: number;
  end: number;
  text: string;
  day: number | undefined;
  month: number;
  year: Year | undefined;
  yearAt: number;
};

function date(place: Place, parts: DateParts): Match {
  const { from, day, month, year } = parts;
  const monthDay = day === undefined ? twoDigits(month) : `${twoDigits(month)}-${twoDigits(day)}`;
  if (!year) return { from, end: parts.end, text: parts.text, kind: "date", value: `--${monthDay}` };
  const gap = place.words[parts.yearAt]?.gap ?? " ";
  const text = `${parts.text}${gap}${year.value}${year.ending}`;
  return { from, end: year.end, text, kind: "date", value: `${year.value}-${monthDay}` };
}

/** Writes the day before a word for days of the month: पाँच तारीख. */
export function dayRule(place: Place, at: number): Match | undefined {
  const day = spokenNumber(place, at);
  if (!isDay(day) || day.isOrdinal || day.ending !== "" || !follows(place, day.end, "day_word"))
    return undefined;
  return {
    from: at,
    end: day.end,
    text: String(day.value),
    kind: "date",
    value: `---${twoDigits(day.value)}`,
  };
}

/** A year that is said in pairs: "nineteen eighty four". */
export function yearRule(place: Place, at: number): Match | undefined {
  return decade(place, at) ?? pairOfDigits(place, at);
}

/** Writes "nineteen sixties". The sixties alone stay. */
function decade(place: Place, at: number): Match | undefined {
  const century = spokenNumber(place, at);
  if (!isWhole(century) || century.value < 10 || century.value > 20 || century.isOrdinal) return undefined;
  const word = follower(place, century.end);
  if (word?.decade === undefined) return undefined;
  const text = `${century.value * 100 + word.decade}s`;
  return { from: at, end: century.end + 1, text, kind: "year", value: text };
}

function pairOfDigits(place: Place, at: number): Match | undefined {
  const year = yearAt(place, at);
  if (!year) return undefined;
  const financial = financialYear(place, at, year);
  if (financial || !year.isPair) return financial;
  const [first, second] = [Math.floor(year.value / 100), year.value % 100];
  const isCued = precedes(place, at, 2, "year_cue");
  // Two numbers that are near each other mean about so many, such as "fifteen twenty people".
  const isFar = first >= 15 && first <= 19 && second - first > 10;
  const isExact = first === 20 && second > 20 && second < 60 && second % 5 !== 0;
  const isPlausible = year.value >= 1500 && year.value < 2200 && !follows(place, year.end, ...MEASURES);
  if (!isPlausible || !(isCued || isFar || isExact)) return undefined;
  return {
    from: at,
    end: year.end,
    text: `${year.value}${year.ending}`,
    kind: "year",
    value: String(year.value),
  };
}

/** Writes the year from April to March: "twenty twenty three twenty four" is 2023-24. */
function financialYear(place: Place, at: number, year: Year): Match | undefined {
  const next = year.ending === "" && follower(place, year.end) ? spokenNumber(place, year.end) : undefined;
  if (!isWhole(next) || next.value < 10 || next.value !== (year.value + 1) % 100) return undefined;
  if (year.value < 1900 || year.value > 2100) return undefined;
  const text = `${year.value}-${next.value}${next.ending}`;
  return { from: at, end: next.end, text, kind: "year", value: `${year.value}/${year.value + 1}` };
}
