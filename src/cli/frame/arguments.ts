import { InvalidArgumentError } from "commander";
import { type Metadata, metadataFault } from "../../domain/metadata.ts";
import { ID_PREFIXES, type IdKind, isId } from "../../lib/ids.ts";
import { dayIn, nextMidnightIn } from "../../lib/time.ts";

/** Parsers of arguments. Each takes a text and returns a value, or throws InvalidArgumentError (wrong usage). */

/** Makes a parser of whole numbers within bounds. */
export function wholeNumber(min: number, max = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
    if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
    const isOpen = max === Number.MAX_SAFE_INTEGER && !(value > max);
    const from = min === Number.MIN_SAFE_INTEGER ? "" : ` from ${min}`;
    throw new InvalidArgumentError(`It is a whole number${from}${isOpen ? "" : ` to ${max}`}.`);
  };
}

/** Makes a parser of whole numbers and of the word `default`, which means the config's value. */
export function wholeNumberOrDefault(min: number, max?: number): (text: string) => number | "default" {
  const read = wholeNumber(min, max);
  return (text) => (text === "default" ? text : read(text));
}

/** Parses a code of a language, or the word `default`, which means the config's value. */
export function languageOrDefault(text: string): string {
  if (text === "default" || /^[a-z]{2,3}$/.test(text)) return text;
  throw new InvalidArgumentError("It is a code of two or three small letters, such as hi, or `default`.");
}

/** Makes a parser of identifiers of a kind. */
export function identifier(kind: IdKind): (text: string) => string {
  return (text) => {
    if (isId(kind, text)) return text;
    throw new InvalidArgumentError(`It is an ID that begins with ${ID_PREFIXES[kind]}_.`);
  };
}

/** Parses `name=value`, and adds it to what the option gave before. */
export function metadataPair(text: string, before: Metadata = {}): Metadata {
  const at = text.indexOf("=");
  if (at < 0) throw new InvalidArgumentError("It is a name, an equals sign and a value, such as agent=12.");
  const name = text.slice(0, at);
  if (Object.hasOwn(before, name)) throw new InvalidArgumentError(`${name} is given twice.`);
  const metadata = Object.fromEntries([...Object.entries(before), [name, text.slice(at + 1)]]);
  const fault = metadataFault(metadata);
  if (fault)
    throw new InvalidArgumentError(`${fault.name === "" ? "It" : JSON.stringify(fault.name)} ${fault.is}.`);
  return metadata;
}

const UNIT_MS: Record<string, number> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 7 * 86_400_000,
  y: 365 * 86_400_000,
};
/** Longest duration. It is longer than any key should live, and keeps times within what a date can hold. */
const MAX_DURATION_MS = 100 * 365 * 86_400_000;

/** Parses a duration such as `90d` to milliseconds: s, m (minutes), h, d, w, y (365 days). */
export function duration(text: string): number {
  const [, count, unit] = /^(\d{1,9})([smhdwy])$/.exec(text) ?? [];
  const milliseconds = Number(count) * (UNIT_MS[unit ?? ""] ?? Number.NaN);
  if (milliseconds > 0 && milliseconds <= MAX_DURATION_MS) return milliseconds;
  throw new InvalidArgumentError("Give a number with a unit, such as 30m, 12h, 90d, 52w or 1y.");
}

/** A calendar day, or an instant in milliseconds. */
export type DateOrInstant = { day: string } | { epochMs: number };

/** Parses a day such as `2026-11-21`, or an RFC 3339 time such as `2026-11-21T00:00:00+05:30`. */
export function dateOrInstant(text: string): DateOrInstant {
  if (/^\d{4}-\d{2}-\d{2}$/.test(text) && isDay(text)) return { day: text };
  const isRfc3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/i.test(text);
  const epochMs = isRfc3339 && isDay(text.slice(0, 10)) ? Date.parse(text) : Number.NaN;
  if (Number.isFinite(epochMs)) return { epochMs };
  throw new InvalidArgumentError(
    "Give a day such as 2026-11-21, or a time such as 2026-11-21T00:00:00+05:30.",
  );
}

/** An entry of a chained log that was noted earlier. */
export type Anchor = { sequence: number; hash: string };

/** Parses the number of an entry, a colon and its hash. */
export function anchor(text: string): Anchor {
  const [, sequence, hash] = /^(\d{1,15}):([0-9a-f]{64})$/.exec(text) ?? [];
  if (sequence === undefined || hash === undefined) {
    throw new InvalidArgumentError("It is the number of an entry, a colon and its hash.");
  }
  return { sequence: Number(sequence), hash };
}

/** A moment of the past: a day, an instant, or how long ago it was. */
export type Since = DateOrInstant | { agoMs: number };

/** Parses a moment of the past: a day, an RFC 3339 time, or a duration such as `2h` or `7d`. */
export function since(text: string): Since {
  try {
    return /^\d+[a-z]$/.test(text) ? { agoMs: duration(text) } : dateOrInstant(text);
  } catch {
    throw new InvalidArgumentError(
      "Give a duration such as 2h or 7d, a day such as 2026-11-21, or a time such as 2026-11-21T00:00:00+05:30.",
    );
  }
}

/** Returns a moment of the past as epoch milliseconds. */
export function sinceMs(timeZone: string, moment: Since, nowMs: number): number {
  return "agoMs" in moment ? nowMs - moment.agoMs : startOf(timeZone, moment);
}

function isDay(text: string): boolean {
  const epochMs = Date.parse(`${text}T00:00:00Z`);
  return Number.isFinite(epochMs) && new Date(epochMs).toISOString().startsWith(text);
}

/** Returns the first instant of a calendar day in a time zone, epoch milliseconds. */
export function startOfDay(timeZone: string, day: string): number {
  // No zone is farther than 14 hours from UTC, so this is before the day in each zone.
  let epochMs = Date.parse(`${day}T00:00:00Z`) - 15 * 3_600_000;
  while (dayIn(timeZone, epochMs) < day) epochMs = nextMidnightIn(timeZone, epochMs);
  return epochMs;
}

/** Returns the end of a range that includes its last day, or ends before an instant; epoch milliseconds, not included. */
export function endOf(timeZone: string, end: DateOrInstant): number {
  return "day" in end ? nextMidnightIn(timeZone, startOfDay(timeZone, end.day)) : end.epochMs;
}

export function startOf(timeZone: string, start: DateOrInstant): number {
  return "day" in start ? startOfDay(timeZone, start.day) : start.epochMs;
}
