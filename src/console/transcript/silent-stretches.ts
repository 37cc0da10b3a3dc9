import type { Gap, Segment, SilentStretch } from "./rows.ts";
import type { Waveform } from "./waveform-data.ts";

/** Shorter pauses are breaths and clicks. */
const MIN_SECONDS = 1.5;
/** Words begin and end softly. */
const MARGIN_SECONDS = 0.4;
/** Sound counts when it is louder than this share of the usual level of words. */
const LEVEL = 0.3;
const LEAST_LEVEL = 0.012;
/** At least this share of a stretch must be loud. */
const LOUD_SHARE = 0.5;

type Span = { start: number; end: number };

/** Finds sound that has no words: a pause may hide a muffled word, or music. */
export function silentStretches(
  { seconds, peaks }: Waveform,
  segments: readonly Segment[],
  gaps: readonly Gap[],
): SilentStretch[] {
  const timed = segments.flatMap(({ start, end, channel }) =>
    start === undefined || end === undefined ? [] : [{ start, end, channel }],
  );
  if (timed.length < segments.length || seconds === 0) return [];
  const isSeparate = timed.some(({ channel }) => channel !== undefined);
  const loudest = isSeparate ? peaks : [loudestOf(peaks)];
  return loudest.flatMap((values, channel) => {
    const own = (one: { channel?: number | undefined }) => !isSeparate || one.channel === channel;
    const taken = [...timed.filter(own), ...gaps.filter(own)].sort((a, b) => a.start - b.start);
    const rate = values.length / seconds;
    const level = Math.max(LEAST_LEVEL, LEVEL * usualLevel(values, rate, timed.filter(own)));
    return between(taken, seconds)
      .filter((span) => span.end - span.start >= MIN_SECONDS && isLoud(values, rate, span, level))
      .map((span) => (isSeparate ? { ...span, channel } : span));
  });
}

function loudestOf(peaks: readonly Float32Array[]): Float32Array {
  const [first = new Float32Array()] = peaks;
  return first.map((value, index) => peaks.reduce((most, one) => Math.max(most, one[index] ?? 0), value));
}

/** The median peak inside words. */
function usualLevel(values: Float32Array, rate: number, spans: readonly Span[]): number {
  const inside: number[] = [];
  for (const { start, end } of spans) {
    for (let at = Math.floor(start * rate); at < end * rate; at++) inside.push(values[at] ?? 0);
  }
  inside.sort((a, b) => a - b);
  return inside[inside.length >> 1] ?? 0;
}

/** Returns what is between spans that are in the order of their starts. */
function between(spans: readonly Span[], seconds: number): Span[] {
  const free: Span[] = [];
  let from = 0;
  for (const { start, end } of [...spans, { start: seconds, end: seconds }]) {
    const span = { start: from === 0 ? 0 : from + MARGIN_SECONDS, end: start === seconds ? start : start - MARGIN_SECONDS };
    if (span.end > span.start) free.push(span);
    from = Math.max(from, end);
  }
  return free;
}

function isLoud(values: Float32Array, rate: number, { start, end }: Span, level: number): boolean {
  let loud = 0;
  let all = 0;
  for (let at = Math.ceil(start * rate); at < Math.floor(end * rate); at++) {
    all++;
    if ((values[at] ?? 0) >= level) loud++;
  }
  return all > 0 && loud / all >= LOUD_SHARE;
}
