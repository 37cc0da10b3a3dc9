import type { Gap, Segment, SilentStretch } from "./rows.ts";
import type { Waveform } from "./waveform-data.ts";

/** Shorter ones are breaths and clicks. */
const MIN_SECONDS = 1;
/** Words begin and end softly. */
const MARGIN_SECONDS = 0.3;

type Span = { start: number; end: number };

/** Finds stretches in which the appliance heard speech and wrote no words: a pause may hide a muffled word. */
export function silentStretches(
  { speech, seconds }: Waveform,
  segments: readonly Segment[],
  gaps: readonly Gap[],
): SilentStretch[] {
  const timed = segments.flatMap(({ start, end, channel }) =>
    start === undefined || end === undefined ? [] : [{ start, end, channel }],
  );
  if (timed.length < segments.length) return [];
  return speech.flatMap((regions, channel) => {
    const isSeparate = speech.length > 1;
    const own = (one: { channel?: number | undefined }) => !isSeparate || one.channel === channel;
    const taken = [...timed.filter(own), ...gaps.filter(own)].sort((a, b) => a.start - b.start);
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
