import type { Segment, SilentStretch } from "./rows.ts";
import type { Waveform } from "./waveform-data.ts";

/** Shorter ones are breaths and clicks. */
const MIN_SECONDS = 1;
/** Words begin and end softly. */
const MARGIN_SECONDS = 0.3;

type Span = { start: number; end: number };

/** Returns the stretches that the result calls unrecognized, but none whose doubtful text it has. */
export function unrecognizedStretches(
  segments: readonly Segment[],
  unrecognized: readonly SilentStretch[],
): SilentStretch[] {
  const middles = segments.map(({ start = Number.NaN, end = Number.NaN, channel }) => ({
    seconds: (start + end) / 2,
    channel,
  }));
  // Where the segments have no times, nothing else has a place among them.
  if (middles.some(({ seconds }) => Number.isNaN(seconds))) return [];
  return unrecognized.filter(
    ({ start, end, channel }) =>
      !middles.some((one) => one.channel === channel && one.seconds > start && one.seconds < end),
  );
}

/**
 * Finds stretches in which the appliance heard speech and wrote no words: a pause may hide a muffled word.
 *
 * @param others stretches that have rows of their own: gaps, and what is unrecognized
 */
export function silentStretches(
  { speech, seconds }: Waveform,
  segments: readonly Segment[],
  others: readonly SilentStretch[],
): SilentStretch[] {
  const timed = segments.flatMap(({ start, end, channel }) =>
    start === undefined || end === undefined ? [] : [{ start, end, channel }],
  );
  if (timed.length < segments.length) return [];
  return speech.flatMap((regions, channel) => {
    const isSeparate = speech.length > 1;
    const own = (one: { channel?: number | undefined }) => !isSeparate || one.channel === channel;
    const taken = [...timed.filter(own), ...others.filter(own)].sort((a, b) => a.start - b.start);
    const found = (regions ?? []).flatMap(([start = 0, end = 0]) => without({ start, end }, taken));
    return found
      .filter(({ start, end }) => end - start >= MIN_SECONDS)
      .map(({ start, end }) => ({ start, end: Math.min(end, seconds), ...(isSeparate ? { channel } : {}) }));
  });
}

/** Returns what is left of a span without others, which are in the order of their starts. */
function without({ start, end }: Span, taken: readonly Span[]): Span[] {
  const left: Span[] = [];
  let from = start;
  for (const other of taken) {
    if (other.end + MARGIN_SECONDS <= from) continue;
    if (other.start - MARGIN_SECONDS >= end) break;
    if (other.start - MARGIN_SECONDS > from) left.push({ start: from, end: other.start - MARGIN_SECONDS });
    from = Math.max(from, other.end + MARGIN_SECONDS);
  }
  if (from < end) left.push({ start: from, end });
  return left;
}
