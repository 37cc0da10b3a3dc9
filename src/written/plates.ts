import { digitRunAt } from "./digit-runs.ts";
import type { Lexicon } from "./lexicon.ts";
import { follower, type Match, type Place, precedes, spokenNumber } from "./match.ts";
import type { Word } from "./words.ts";

/** States and union territories of the plates of Indian vehicles (Central Motor Vehicles Rules, with older codes). */
const STATES = new Set(
  "AN AP AR AS BH BR CG CH DD DL DN GA GJ HP HR JH JK KA KL LA LD MH ML MN MP MZ NL OD OR PB PY RJ SK TG TN TR TS UA UK UP WB".split(
    " ",
  ),
);

/** Reads letters that are spelled out, or written as one word of capitals, from a word. */
function lettersAt(place: Place, from: number, most: number): { letters: string; end: number } | undefined {
  let letters = "";
  let at = from;
  for (; at < place.words.length && letters.length < most; at += 1) {
    const word = at === from ? place.words[at] : follower(place, at);
    if (!word) break;
    const next = spelledLetters(word, place.lexicon);
    if (next === "" || letters.length + next.length > most) break;
    letters += next;
  }
  return letters === "" ? undefined : { letters, end: at };
}

/** Small words that are no letters of a plate. */
const SHORT_WORDS = new Set(
  "an as at am be by cm do gb go he hp if in is it kg km la mb me ml mm my no of on or pm so to up us we".split(
    " ",
  ),
);

function spelledLetters({ raw, key, letter, parts, roles }: Word, { letterNames }: Lexicon): string {
  if (/^[A-Z]{1,5}$/u.test(raw)) return raw;
  if (letter !== undefined) return letter;
  if (letterNames.size > 0 && parts.length === 0 && roles.size === 0)
    return joinedLetters(key, letterNames, 4) ?? lowerLetters(raw);
  return lowerLetters(raw);
}

/** Divides a word such as एमएच into the names of at most so many letters. */
function joinedLetters(key: string, names: ReadonlyMap<string, string>, most: number): string | undefined {
  if (key === "") return "";
  if (most === 0) return undefined;
  for (let length = Math.min(key.length, 8); length > 0; length -= 1) {
    const letter = names.get(key.slice(0, length));
    const rest = letter === undefined ? undefined : joinedLetters(key.slice(length), names, most - 1);
    if (rest !== undefined) return letter + rest;
  }
  return undefined;
}

function lowerLetters(raw: string): string {
  return /^[a-z]{1,2}$/u.test(raw) && !SHORT_WORDS.has(raw) ? raw.toUpperCase() : "";
}

/** Reads digits that are said one by one or in pairs, at most so many. */
function plateDigits(place: Place, from: number, most: number): { digits: string; end: number } | undefined {
  if (!follower(place, from)) return undefined;
  const run = digitRunAt(place, from);
  if (run && run.digits.length <= most) return { digits: run.digits, end: run.end };
  const number = spokenNumber(place, from);
  if (!number || number.isOrdinal || number.isMixed || number.decimals !== undefined) return undefined;
  const digits = String(number.value);
  return digits.length <= most ? { digits, end: number.end } : undefined;
}

/** A vehicle's number: "M H fourteen B T six zero three two". */
export function vehicleRule(place: Place, at: number): Match | undefined {
  const state = lettersAt(place, at, 2);
  if (!state || !STATES.has(state.letters)) return undefined;
  const district = plateDigits(place, state.end, 2);
  if (!district || !follower(place, district.end)) return undefined;
  const series = lettersAt(place, district.end, 3);
  const number = plateDigits(place, series?.end ?? district.end, 4);
  if (!series || !number) return undefined;
  const text = [state.letters, district.digits, series.letters, number.digits].join(" ");
  return { from: at, end: number.end, text, kind: "vehicle", value: text.replaceAll(" ", "") };
}

/** A PAN: five letters, four digits, a letter. */
export function panRule(place: Place, at: number): Match | undefined {
  const head = lettersAt(place, at, 5);
  if (head?.letters.length !== 5) return undefined;
  const digits = plateDigits(place, head.end, 4);
  if (digits?.digits.length !== 4 || !follower(place, digits.end)) return undefined;
  const last = lettersAt(place, digits.end, 1);
  if (!last) return undefined;
  const text = head.letters + digits.digits + last.letters;
  return { from: at, end: last.end, text, kind: "pan", value: text };
}

/** The code of a branch of a bank (IFSC): four letters and seven digits. */
export function bankCodeRule(place: Place, at: number): Match | undefined {
  const bank = lettersAt(place, at, 4);
  if (bank?.letters.length !== 4) return undefined;
  const digits = plateDigits(place, bank.end, 7);
  if (digits?.digits.length !== 7) return undefined;
  const text = bank.letters + digits.digits;
  return { from: at, end: digits.end, text, kind: "digits", value: text };
}

/** The shortest code of letters and digits that is joined, and how far before it a word says that it is one. */
const FEWEST_SIGNS = 6;
const CUE_WITHIN = 4;

/** A code of letters and digits beside a word such as "number": the number of a tax registration, or of a flight. */
export function mixedCodeRule(place: Place, at: number): Match | undefined {
  if (!precedes(place, at, CUE_WITHIN, "code_cue", "pan_cue", "vehicle_cue")) return undefined;
  let code = "";
  // What is said after the last digit may be another word: के is a letter, and "of".
  let upToDigit = { code: "", end: at };
  for (let next = at; next === at || follower(place, next); ) {
    const run = digitRunAt(place, next);
    const letters = run ? undefined : lettersAt(place, next, 5);
    if (!run && !letters) break;
    code += run?.digits ?? letters?.letters ?? "";
    next = run?.end ?? letters?.end ?? next;
    if (run || isCapital(place, next - 1)) upToDigit = { code, end: next };
  }
  const isMixed = /[A-Z]/u.test(upToDigit.code) && (upToDigit.code.match(/\d/gu)?.length ?? 0) >= 2;
  if (!isMixed || upToDigit.code.length < FEWEST_SIGNS) return undefined;
  return { from: at, end: upToDigit.end, text: upToDigit.code, kind: "digits", value: upToDigit.code };
}

const isCapital = ({ words }: Place, at: number) => /^[A-Z]+$/u.test(words[at]?.raw ?? "");
