import { follower, follows, type Match, MEASURES, type Place, precedes, spokenNumber } from "./match.ts";
import type { WrittenKind } from "./types.ts";

/** Digits that are said one after another, as far as they can belong together. */
export type DigitRun = { end: number; digits: string; count: number; isSingle: boolean; hasRepeats: boolean };

/** One piece of a run: a digit, "double seven", or a number of two digits. */
function pieceAt(
  place: Place,
  at: number,
): { end: number; digits: string; isSingle: boolean; repeats: boolean } | undefined {
  const word = place.words[at];
  if (!word) return undefined;
  const times = word.roles.has("double") ? 2 : word.roles.has("triple") ? 3 : 1;
  if (times > 1) {
    const digit = follower(place, at + 1) && digitAt(place, at + 1);
    return digit === undefined
      ? undefined
      : { end: at + 2, digits: digit.repeat(times), isSingle: true, repeats: true };
  }
  const digit = digitAt(place, at);
  if (digit !== undefined) return { end: at + 1, digits: digit, isSingle: true, repeats: false };
  const number = spokenNumber(place, at);
  const isPair = number && number.value >= 10 && number.value < 100 && Number.isInteger(number.value);
  if (!isPair || number.isOrdinal || number.decimals !== undefined || number.isMixed) return undefined;
  return { end: number.end, digits: String(number.value), isSingle: false, repeats: false };
}

/** Reads "eight hundred" among digits: "one eight hundred two three". */
function hundredAt(place: Place, at: number): ReturnType<typeof pieceAt> {
  const digit = digitAt(place, at);
  const part = follower(place, at + 1)?.parts[0];
  const isAmongDigits = follower(place, at + 2) !== undefined && digitAt(place, at + 2) !== undefined;
  if (digit === undefined || part?.type !== "scale" || part.value !== 100 || !isAmongDigits) return undefined;
  return { end: at + 2, digits: `${digit}00`, isSingle: false, repeats: false };
}

function digitAt(place: Place, at: number): string | undefined {
  const word = place.words[at];
  const part = word?.parts.length === 1 ? word.parts[0] : undefined;
  if (part?.type === "unit" && part.value < 10 && !word?.isOrdinal) return String(part.value);
  return word?.roles.has("zero") ? "0" : undefined;
}

/** What is said one by one is shorter. A bound keeps long lists of numbers from being read again at each of them. */
const MAX_PIECES = 64;

/** Reads the longest run of digits from a word, of at most `MAX_PIECES` pieces. Commas may divide groups. */
export function digitRunAt(place: Place, from: number): DigitRun | undefined {
  const run: DigitRun = { end: from, digits: "", count: 0, isSingle: true, hasRepeats: false };
  for (let at = from; at < place.words.length && run.count < MAX_PIECES; ) {
    const gap = place.words[at]?.gap ?? "";
    if (at > from && !follower(place, at) && !/^,\s*$/u.test(gap)) break;
    const piece = (run.count > 0 ? hundredAt(place, at) : undefined) ?? pieceAt(place, at);
    if (!piece) break;
    run.digits += piece.digits;
    run.count += 1;
    run.isSingle &&= piece.isSingle;
    run.hasRepeats ||= piece.repeats;
    at = piece.end;
    run.end = at;
    if (place.words[at - 1]?.ending !== "") break;
  }
  return run.count === 0 ? undefined : run;
}

const CUES = ["code_cue", "phone_cue", "aadhaar_cue", "pan_cue", "vehicle_cue"] as const;

/** Phone numbers, codes, accounts: digits that are said one by one, or in pairs beside a word such as "phone". */
export function digitsRule(place: Place, at: number): Match | undefined {
  const { words } = place;
  const hasPlus = words[at]?.roles.has("plus") ?? false;
  const from = hasPlus ? at + 1 : at;
  const run = hasPlus && !follower(place, from) ? undefined : withoutVerb(place, digitRunAt(place, from));
  if (!run || (run.digits.length < 2 && !hasPlus)) return undefined;
  const isCued = precedes(place, at, 6, ...CUES) || isCuedAfter(place, run.end);
  if (!isCued && run.isSingle && isCounting(run.digits))
    return run.count < 3 ? undefined : { from: at, end: run.end };
  if (!isAccepted(place, at, run, isCued, hasPlus)) return undefined;
  const text = (hasPlus ? "+" : "") + run.digits + (words[run.end - 1]?.ending ?? "");
  return {
    from: at,
    end: run.end,
    text,
    kind: kindOf(place, at, run.digits),
    value: (hasPlus ? "+" : "") + run.digits,
  };
}

/** Reports whether a word after the digits says what they are: "एक शून्य आठ पर कॉल करें". */
function isCuedAfter(place: Place, end: number): boolean {
  return (
    follows(place, end, ...CUES) ||
    follows(place, end + 1, "phone_cue") ||
    follows(place, end + 2, "phone_cue")
  );
}

/** How many digits PINs, OTPs, phones and Aadhaar have. */
const USUAL_LENGTHS = [4, 6, 10, 12];

/** Leaves out a last word that is not a digit when the others are as many as a code has: छ is "is" in Nepali, दो is "give". */
function withoutVerb({ words }: Place, run: DigitRun | undefined): DigitRun | undefined {
  if (!run?.isSingle || !words[run.end - 1]?.roles.has("doubtful")) return run;
  const { length } = run.digits;
  if (USUAL_LENGTHS.includes(length) || !USUAL_LENGTHS.includes(length - 1)) return run;
  return { ...run, end: run.end - 1, digits: run.digits.slice(0, -1), count: run.count - 1 };
}

function isAccepted(place: Place, at: number, run: DigitRun, isCued: boolean, hasPlus: boolean): boolean {
  const { length } = run.digits;
  if (hasPlus) return length >= 7;
  if (!run.isSingle && run.count > 2)
    return (isCued && length >= 4) || ((length === 10 || length === 12) && run.count >= 4);
  if (run.count >= 4) return true;
  if (run.count === 3) return isCued || isNear(place, at) || run.hasRepeats || run.digits.includes("0");
  if (run.hasRepeats) return isCued || isNear(place, at) || length >= 4;
  // Two numbers are mostly about so many, or a time: "call in five ten minutes", "call at ten thirty".
  const isOther =
    isAbout(place, at, run) || follows(place, run.end, ...MEASURES) || precedes(place, at, 1, "time_cue");
  return isNear(place, at) && !isOther && (run.isSingle || length >= 4);
}

function isNear(place: Place, at: number): boolean {
  return precedes(place, at, 3, ...CUES) || precedes(place, at, 2, "label", "house");
}

/** Reports whether two numbers are so near each other that they mean "about": "two three", "fifty sixty". */
function isAbout(place: Place, at: number, run: DigitRun): boolean {
  if (run.isSingle) return isCounting(run.digits);
  const [first, second] = [spokenNumber(place, at), spokenNumber(place, spokenNumber(place, at)?.end ?? at)];
  const difference = (second?.value ?? 0) - (first?.value ?? 0);
  return difference > 0 && difference <= 20 && (second?.value ?? 0) % 5 === 0;
}

/** Reports whether digits count up: "one two three". */
function isCounting(digits: string): boolean {
  return (
    digits.length >= 2 &&
    [...digits].every((digit, at) => at === 0 || Number(digit) === Number(digits[at - 1]) + 1)
  );
}

function kindOf(place: Place, at: number, digits: string): WrittenKind {
  if (digits.length === 12 && precedes(place, at, 6, "aadhaar_cue")) return "aadhaar";
  if (precedes(place, at, 6, "phone_cue") || digits.length === 10) return "phone";
  return "digits";
}
