import type { AudioFacts } from "../domain/audio.ts";
import { CLIPPING } from "./decode-graphs.ts";
import { readExact, readFaintRmsDb, readLevels, SILENCE_DB } from "./measures.ts";
import type { MediaOutcome } from "./media-process.ts";
import type { AudioProbe } from "./probe.ts";
import { mayBeQuiet } from "./quiet-tracks.ts";

/** Headers round, and codecs have a delay: only a longer lack is a cut. */
const TRUNCATION_TOLERANCE_MS = 500;
const TRUNCATION_TOLERANCE_RATIO = 0.01;
/** Equal channels leave this little in their difference, after any codec. */
const IDENTICAL_BELOW_DB = -50;
/** With fewer samples near full scale no share worth telling stands at it. */
const CLIPPING_FROM_RATIO = 0.0001;

/** Whether sound is missing that the file was to hold. */
export function isTruncated(outcome: MediaOutcome, probe: AudioProbe, durationMs: number): boolean {
  const missingMs = (probe.durationMs ?? 0) - durationMs;
  return (
    outcome.status !== 0 ||
    probe.overstatesSize ||
    missingMs > Math.max(TRUNCATION_TOLERANCE_MS, durationMs * TRUNCATION_TOLERANCE_RATIO)
  );
}

/** What the filters of decode-graphs.ts tell of a recording, and what is left to be looked at closely. */
export type FirstLook = {
  facts: Omit<AudioFacts, "clippedRatio">;
  mayBeClipped: boolean;
  /** Numbers of the tracks that may be quiet. */
  quietTracks: number[];
};

/** @param isSeparate each channel went to a file of its own, else their mix to one */
export function readFacts(
  outcome: MediaOutcome,
  probe: AudioProbe,
  durationMs: number,
  isSeparate: boolean,
): FirstLook {
  const source = readLevels(outcome, "source");
  const { rmsDb } = readLevels(outcome, "mix");
  const { rmsDb: sidesDb } = readLevels(outcome, "sides");
  const names = isSeparate ? Array.from({ length: probe.channels }, (_, index) => `track${index}`) : ["mix"];
  const tracks = names.map((name) => readLevels(outcome, name));
  return {
    facts: {
      truncated: isTruncated(outcome, probe, durationMs),
      peakDb: source.peakDb,
      rmsDb,
      highFrequencyDb: Math.max(SILENCE_DB, readFaintRmsDb(outcome, "high") - rmsDb),
      identicalChannels: probe.channels === 2 && rmsDb > SILENCE_DB && sidesDb - rmsDb < IDENTICAL_BELOW_DB,
      tracks: tracks.map(({ peakDb }) => ({ peakDb })),
    },
    mayBeClipped: source.nearFullScale > source.samples * CLIPPING_FROM_RATIO,
    quietTracks: tracks.flatMap((track, index) => (mayBeQuiet(track) ? [index] : [])),
  };
}

const FULL_SCALE_FROM_DB = -0.01;

/**
 * The share of a recording's samples at full scale, from what `clippingGraph` tells. A stream whose parameters change
 * midway is heard by one filter after another.
 */
export function readClippedRatio(outcome: MediaOutcome): number {
  let samples = 0;
  let clipped = 0;
  for (const heard of readExact(outcome, CLIPPING)) {
    samples += heard.get("Number of samples") ?? 0;
    const peakDb = heard.get("Peak level dB") ?? SILENCE_DB;
    if (peakDb >= FULL_SCALE_FROM_DB) clipped += heard.get("Peak count") ?? 0;
  }
  return samples === 0 ? 0 : clipped / samples;
}
