export const DAY_MS = 86_400_000;
/** Timers of more milliseconds than this, nearly 25 days, fire at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Renders a time as RFC 3339, UTC, with milliseconds (docs/decisions/conventions.md). */
export function toTimestamp(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/** Renders a time as a part of a file's name, such as `2026-11-26T14-03-07-123Z`. Such names sort by time. */
export function toFileStamp(epochMs: number): string {
  return toTimestamp(epochMs).replaceAll(/[:.]/g, "-");
}

/** Returns the time of a file's name as RFC 3339; undefined for a text of another form. */
export function fromFileStamp(stamp: string): string | undefined {
  const [, day, hours, minutes, seconds, milliseconds] =
    /^(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)-(\d{3})Z$/.exec(stamp) ?? [];
  return day === undefined ? undefined : `${day}T${hours}:${minutes}:${seconds}.${milliseconds}Z`;
}

/** Converts milliseconds to seconds with at most three decimals, the form of durations in answers. */
export function toSeconds(milliseconds: number): number {
  return Math.round(milliseconds) / 1000;
}

const dayFormats = new Map<string, Intl.DateTimeFormat>();

/** Returns the calendar day of an instant in a time zone, such as `2026-11-21`. */
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

/** Returns the first instant after `epochMs` of the next calendar day in a time zone, epoch milliseconds. */
export function nextMidnightIn(timeZone: string, epochMs: number): number {
  const today = dayIn(timeZone, epochMs);
  let low = epochMs;
  // No civil day is longer than 25 hours. One more hour covers zones that moved across the date line.
  let high = epochMs + 26 * 3_600_000;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (dayIn(timeZone, middle) === today) low = middle;
    else high = middle;
  }
  return high;
}

const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
  ["s", 1],
] as const;

/** Renders a duration for people with its two largest units, such as `1 h 10 min`, `42 s` or `3 d 0 h`. */
export function describeDuration(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  const first = UNITS.findIndex(([, size]) => seconds >= size);
  if (first < 0) return "0 s";
  let rest = seconds;
  return UNITS.slice(first, first + 2)
    .map(([unit, size]) => {
      const count = Math.floor(rest / size);
      rest -= count * size;
      return `${count} ${unit}`;
    })
    .join(" ");
}
