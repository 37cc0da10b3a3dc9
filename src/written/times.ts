import { twoDigits } from "./figures.ts";
import { foldWord } from "./fold.ts";
import { follower, follows, type Match, MEASURES, type Place, precedes, spokenNumber } from "./match.ts";
import type { SpokenNumber } from "./numbers.ts";

/** Times of the day: "quarter to ten", "साढ़े चार बजे", "ten thirty am". */
export function timeRule(place: Place, at: number): Match | undefined {
  return pastOrTo(place, at) ?? clock(place, at);
}

/** "quarter to ten", "half past four", "ten minutes past five". */
function pastOrTo(place: Place, at: number): Match | undefined {
  const word = place.words[at];
  if (!word) return undefined;
  const named = word.roles.has("half") ? 30 : word.roles.has("quarter") ? 15 : undefined;
  const number = named === undefined ? spokenNumber(place, at) : undefined;
  const minutes = named ?? (isClockNumber(number, 59) ? number.value : undefined);
  if (minutes === undefined) return undefined;
  let next = number?.end ?? at + 1;
  const saysMinutes = follows(place, next, "minutes");
  if (saysMinutes) next += 1;
  const isTo = follows(place, next, "to");
  if (!isTo && !follows(place, next, "past")) return undefined;
  const hour = follower(place, next + 1) && spokenNumber(place, next + 1);
  if (!isClockNumber(hour, 12) || hour.value === 0 || follows(place, hour.end, "percent", "rupees", "unit"))
    return undefined;
  const isTime =
    named !== undefined ||
    saysMinutes ||
    !isTo ||
    precedes(place, at, 1, "time_cue") ||
    follows(place, hour.end, "oclock", "day_half");
  if (!isTime || (named === 30 && isTo)) return undefined;
  const whole = isTo ? (hour.value === 1 ? 12 : hour.value - 1) : hour.value;
  return time(at, hour.end, whole, isTo ? 60 - minutes : minutes, hour.ending);
}

function clock(place: Place, at: number): Match | undefined {
  const hour = spokenNumber(place, at);
  if (
    !hour ||
    hour.isOrdinal ||
    hour.isBareScale ||
    hour.decimals !== undefined ||
    hour.value >= 25 ||
    hour.value < 0.75
  )
    return undefined;
  const hasClockEnding = hour.ending !== "" && place.lexicon.clockEndings.has(foldWord(hour.ending));
  const isCued = precedes(place, at, 1, "time_cue");
  const saysClock = hasClockEnding || follows(place, hour.end, "oclock", "day_half");
  if (saysClock || (isCued && hour.isMixed && !follows(place, hour.end, ...MEASURES)))
    return fromHours(at, hour);
  if (hour.isMixed || hour.ending !== "") return undefined;
  return hourAndMinutes(place, at, hour, isCued);
}

function fromHours(at: number, hour: SpokenNumber): Match | undefined {
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

/** "ten thirty am", "at ten thirty", "five oh five". */
function hourAndMinutes(place: Place, at: number, hour: SpokenNumber, isCued: boolean): Match | undefined {
  const isZero =
    follows(place, hour.end, "zero") ||
    (follower(place, hour.end) !== undefined && spokenNumber(place, hour.end)?.value === 0);
  const minutesAt = isZero ? hour.end + 1 : hour.end;
  const minutes = follower(place, minutesAt) && spokenNumber(place, minutesAt);
  if (!isClockNumber(minutes, 59) || minutes.isDigit !== isZero || hour.value < 1) return undefined;
  const saysHalf = follows(place, minutes.end, "day_half", "oclock");
  if (!saysHalf && (!isCued || follows(place, minutes.end, ...MEASURES) || minutes.value % 5 !== 0))
    return undefined;
  return time(at, minutes.end, hour.value, minutes.value, minutes.ending);
}

function isClockNumber(number: SpokenNumber | undefined, most: number): number is SpokenNumber {
  return (
    number !== undefined &&
    Number.isInteger(number.value) &&
    number.value <= most &&
    !number.isOrdinal &&
    number.decimals === undefined
  );
}

function time(from: number, end: number, hours: number, minutes: number, ending: string): Match {
  return {
    from,
    end,
    text: `${hours}:${twoDigits(minutes)}${ending}`,
    kind: "time",
    value: `${twoDigits(hours)}:${twoDigits(minutes)}`,
  };
}
