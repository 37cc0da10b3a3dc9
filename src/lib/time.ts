/** RFC 3339, UTC, milliseconds (docs/decisions.md section 1). */
export function toTimestamp(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/** Milliseconds as seconds with at most three decimals, the wire's form of a duration. */
export function toSeconds(milliseconds: number): number {
  return Math.round(milliseconds) / 1000;
}

const dayFormats = new Map<string, Intl.DateTimeFormat>();

/** The calendar day of an instant in a time zone, as `2026-11-21`. */
export function dayIn(timeZone: string, epochMs: number): string {
  let format = dayFormats.get(timeZone);
  if (!format) {
    format = new Intl.DateTimeFormat("en-CA", {
      timeZone,
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
    });
    dayFormats.set(timeZone, format);
  }
  return format.format(epochMs);
}

/** The first instant after `epochMs` that belongs to the next calendar day of the time zone. */
export function nextMidnightIn(timeZone: string, epochMs: number): number {
  const today = dayIn(timeZone, epochMs);
  let low = epochMs;
  // No civil day is longer than 25 hours; one more covers zones that skipped a date line.
  let high = epochMs + 26 * 3_600_000;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (dayIn(timeZone, middle) === today) low = middle;
    else high = middle;
  }
  return high;
}
