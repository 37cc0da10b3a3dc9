import type { AudioFacts } from "../domain/audio.ts";
import type { MediaOutcome } from "./media-process.ts";
import type { AudioProbe } from "./probe.ts";

const SILENCE_DB = -120;
/** Headers round, and codecs have a delay: only a longer lack is a cut. */
const TRUNCATION_TOLERANCE_MS = 500;
const TRUNCATION_TOLERANCE_RATIO = 0.01;
/** Equal channels leave this little in their difference, after any codec. */
const IDENTICAL_BELOW_DB = -50;
const FULL_SCALE_FROM_DB = -0.01;

/** Tracks whose loudest moment lies below it are amplified. */
const QUIET_BELOW_DB = -36;
/** What an amplified track's loudest moment comes to: speech there peaks some 10 dB higher, far from clipping. */
const AMPLIFIED_TO_DB = -20;
/** A channel on which nobody speaks stays quiet. */
const MAX_GAIN_DB = 40;

/**
 * By how much a decoded track is amplified: the far end of a call is often 30 dB below the near one. Speech detector
 * and decoder were measured on four samples (212 words): 6 errors at the samples' own level, 7 at 30 dB less, 17 at
 * 40 dB less, 113 at 50 dB less; amplified again, 6, 6 and 9.
 *
 * @returns dB; 0 for a track that is loud enough, or silent
 */
export function gainFor(loudestDb: number): number {
  if (loudestDb >= QUIET_BELOW_DB || loudestDb <= SILENCE_DB) return 0;
  return Math.min(AMPLIFIED_TO_DB - loudestDb, MAX_GAIN_DB);
}

/** Whether sound is missing that the file was to hold. */
export function isTruncated(outcome: MediaOutcome, probe: AudioProbe, durationMs: number): boolean {
  const missingMs = (probe.durationMs ?? 0) - durationMs;
  return (
    outcome.status !== 0 ||
    probe.overstatesSize ||
    missingMs > Math.max(TRUNCATION_TOLERANCE_MS, durationMs * TRUNCATION_TOLERANCE_RATIO)
  );
}

/** @param isSeparate each channel went to a file of its own, else their mix to one */
export function readFacts(
  outcome: MediaOutcome,
  probe: AudioProbe,
  durationMs: number,
  isSeparate: boolean,
): AudioFacts {
  const level = (name: string, value: string) =>
    Math.max(SILENCE_DB, lastMeasured(outcome, name, value) ?? SILENCE_DB);
  const highest = (name: string, value: string) => Math.max(SILENCE_DB, ...measured(outcome, name, value));
  const peakDb = level("source", "Peak level dB");
  const rmsDb = level("mix", "RMS level dB");
  const atPeak = lastMeasured(outcome, "source", "Peak count") ?? 0;
  const sourceSamples = lastMeasured(outcome, "source", "Number of samples") ?? 0;
  const tracks = isSeparate ? Array.from({ length: probe.channels }, (_, index) => `track${index}`) : ["mix"];
  return {
    truncated: isTruncated(outcome, probe, durationMs),
    clippedRatio: peakDb >= FULL_SCALE_FROM_DB && sourceSamples > 0 ? atPeak / sourceSamples : 0,
    peakDb,
    rmsDb,
    highFrequencyDb: Math.max(SILENCE_DB, level("high", "RMS level dB") - rmsDb),
    identicalChannels:
      probe.channels === 2 &&
      rmsDb > SILENCE_DB &&
      level("sides", "RMS level dB") - rmsDb < IDENTICAL_BELOW_DB,
    tracks: tracks.map((name) => ({
      peakDb: highest(name, "Peak level dB"),
      loudestDb: highest(name, "RMS peak dB"),
    })),
  };
}

/** All values of one name, as the filters report them; a stream whose parameters change midway reports twice. */
export function measured(outcome: MediaOutcome, name: string, value: string): number[] {
  const found: number[] = [];
  const start = `[astats@${name} @ `;
  for (const line of outcome.stderr.split("\n")) {
    const text = line.startsWith(start) ? line.split(`] ${value}: `)[1] : undefined;
    if (text !== undefined) found.push(text === "-inf" ? Number.NEGATIVE_INFINITY : Number(text));
  }
  return found.filter((number) => !Number.isNaN(number));
}

function lastMeasured(outcome: MediaOutcome, name: string, value: string): number | undefined {
  return measured(outcome, name, value).at(-1);
}
