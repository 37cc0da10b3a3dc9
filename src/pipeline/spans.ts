import { type ChunkRegion, SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import type { SpanMs } from "../domain/result.ts";

const SAMPLES_PER_MS = SAMPLE_RATE_HZ / 1000;

/** Returns the time of a region, with fractions of a millisecond. */
export function spanOf({ startSample, endSample }: ChunkRegion): SpanMs {
  return { startMs: startSample / SAMPLES_PER_MS, endMs: endSample / SAMPLES_PER_MS };
}

/** Returns the milliseconds that two spans have in common. */
export function overlapMs(a: SpanMs, b: SpanMs): number {
  return Math.max(0, Math.min(a.endMs, b.endMs) - Math.max(a.startMs, b.startMs));
}

/** Returns how long regions are together, milliseconds. */
export function lengthMs(regions: readonly ChunkRegion[]): number {
  return (
    regions.reduce((sum, { startSample, endSample }) => sum + endSample - startSample, 0) / SAMPLES_PER_MS
  );
}
