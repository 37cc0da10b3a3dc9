import { expect } from "bun:test";
import type { TranscriptionResult } from "../http/wire/schemas.ts";
import type { Utterance } from "./samples.ts";

/** Whisper's times have steps of 20 ms, the detector's edges steps of 32 ms. */
const MAX_TIME_ERROR_SECONDS = 0.2;

/** Expects one segment for every utterance, with its words, its times, and its channel where there are several. */
export function expectUtterances(
  result: Pick<TranscriptionResult, "segments">,
  said: readonly Utterance[],
): void {
  expect(result.segments.map(({ text }) => text)).toEqual(said.map(({ text }) => text));
  for (const [index, { start, end, channel }] of said.entries()) {
    const segment = result.segments[index];
    expect(Math.abs((segment?.start ?? Number.NaN) - start)).toBeLessThanOrEqual(MAX_TIME_ERROR_SECONDS);
    expect(segment?.end).toBeGreaterThan(start);
    expect(segment?.end).toBeLessThanOrEqual(end + MAX_TIME_ERROR_SECONDS);
    if (segment?.channel !== undefined) expect(segment.channel).toBe(channel);
  }
}
