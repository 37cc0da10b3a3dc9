import type { ChunkRegion } from "../domain/chunk.ts";
import type { SpanMs } from "../domain/result.ts";
import { lettersOf, speechCoverage } from "./guards.ts";
import { overlapMs, spanOf } from "./spans.ts";
import type { LooseSegment } from "./stitch.ts";

/** Slow speech has this many letters per second. Measured: jfk.wav 8.6, a slow actor 7.1, readers 10 to 16. */
const SLOW_LETTERS_PER_SECOND = 8;
/** Fewer letters over much sound are an interjection beside laughter or noise, and no part of a longer text. */
const LEAST_LETTERS = 20;
/** Speech beyond what slow reading of a segment's letters takes, from which the segment may have lost a sentence. */
const SPARE_MS = 1_500;

/**
 * Reports whether a segment has so few letters for its speech that it may have lost a sentence. Models stretch the times
 * of a segment over speech that they leave out, so times alone do not tell.
 */
function isSparse({ text, ...span }: SpanMs & { text: string }, regions: readonly ChunkRegion[]): boolean {
  const letters = lettersOf(text);
  if (letters < LEAST_LETTERS) return false;
  return speechMs(span, regions) - (letters * 1000) / SLOW_LETTERS_PER_SECOND > SPARE_MS;
}

/** Text for the speech of a chunk, and the speech that is still to be tried. */
export type Covered = {
  segments: LooseSegment[];
  /** Segments that were tried again without more text. */
  settled: ReadonlySet<LooseSegment>;
};

/**
 * Returns the speech that should be recognized again: what has no segment, and what has too few letters.
 *
 * @param others spans that count as covered, though they have no text
 * @param leastBetweenMs shorter speech without a segment is a pause where the same region has segments on both sides. At the edges
 *   of regions, and in those without segments, it is a pause up to a second
 */
export function speechToTryAgain(
  regions: readonly ChunkRegion[],
  { segments, settled }: Covered,
  others: readonly SpanMs[],
  leastBetweenMs: number,
): ChunkRegion[] {
  const kept = segments.filter((segment) => settled.has(segment) || !isSparse(segment, regions));
  return speechCoverage(regions, [...kept, ...others], leastBetweenMs).uncovered;
}

/**
 * Adds what another attempt found to the segments. A segment over speech that was tried again stays, unless the attempt
 * found more letters there.
 */
export function withFound(
  { segments, settled }: Covered,
  tried: readonly ChunkRegion[],
  found: readonly LooseSegment[],
): Covered {
  const old = segments.filter((span) => 2 * speechMs(span, tried) > span.endMs - span.startMs);
  const inPlace = found.filter((other) => old.some((segment) => overlapMs(segment, other) > 0));
  const letters = (some: readonly LooseSegment[]) => some.reduce((sum, { text }) => sum + lettersOf(text), 0);
  const dropped = new Set(letters(inPlace) > letters(old) ? old : inPlace);
  return {
    segments: [...segments, ...found]
      .filter((segment) => !dropped.has(segment))
      .sort((a, b) => a.startMs - b.startMs),
    settled: new Set([...settled, ...old]),
  };
}

/** Spans this close are one. */
const JOINED_MS = 300;

/** Joins spans that overlap or are close to each other. Returns whole milliseconds, in order. */
export function joinedSpans(spans: readonly SpanMs[]): SpanMs[] {
  const joined: SpanMs[] = [];
  for (const { startMs, endMs } of spans.toSorted((a, b) => a.startMs - b.startMs)) {
    const last = joined.at(-1);
    if (last && startMs - last.endMs < JOINED_MS) last.endMs = Math.max(last.endMs, Math.round(endMs));
    else joined.push({ startMs: Math.round(startMs), endMs: Math.round(endMs) });
  }
  return joined;
}

function speechMs(span: SpanMs, regions: readonly ChunkRegion[]): number {
  return regions.reduce((sum, region) => sum + overlapMs(span, spanOf(region)), 0);
}
