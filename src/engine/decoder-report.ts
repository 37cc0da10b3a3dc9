import type { AudioFacts } from "../domain/audio.ts";

/** Digital silence, and everything below it. */
export const SILENCE_DB = -120;

/** What the decoder reports of a recording; see `report` in scripts/native/decoder/main.c. */
export type DecoderReport = {
  /** Of each track at 16 kHz, counted while they were decoded. */
  samples: number;
  channels: number;
  sample_rate_hz: number;
  /** Sound whose packets could not be decoded. */
  lost_ms: number;
  /** Reading ended early, or a part of a joined recording could not be read. */
  broke_off: boolean;
  /** As the headers claim; absent when they claim nothing, or the claim is a guess. */
  claimed_ms?: number;
};

/** And what it measures when it writes tracks. */
export type LevelsReport = {
  peak_db: number;
  mix_db: number;
  high_db: number;
  /** Half the difference of the two channels; present for recordings that have two throughout. */
  sides_db?: number;
  clipped_ratio: number;
  tracks: { peak_db: number; loudest_db: number }[];
};

/** Headers round, and codecs have a delay: only a longer lack is a cut. */
const TRUNCATION_TOLERANCE_MS = 500;
const TRUNCATION_TOLERANCE_RATIO = 0.01;
/** Equal channels leave this little in their difference, after any codec. */
const IDENTICAL_BELOW_DB = -50;

/** Whether sound is missing that the file claims to hold. */
export function isTruncated(report: DecoderReport, overstatesSize: boolean, durationMs: number): boolean {
  const missingMs = Math.max((report.claimed_ms ?? 0) - durationMs, report.lost_ms);
  return (
    report.broke_off ||
    overstatesSize ||
    missingMs > Math.max(TRUNCATION_TOLERANCE_MS, durationMs * TRUNCATION_TOLERANCE_RATIO)
  );
}

/** What is known of the sound of a recording whose tracks were written. */
export function factsOf(report: DecoderReport & LevelsReport, truncated: boolean): AudioFacts {
  const { mix_db, sides_db } = report;
  return {
    truncated,
    clippedRatio: report.clipped_ratio,
    peakDb: report.peak_db,
    rmsDb: mix_db,
    highFrequencyDb: Math.max(SILENCE_DB, report.high_db - mix_db),
    identicalChannels:
      sides_db !== undefined && mix_db > SILENCE_DB && sides_db - mix_db < IDENTICAL_BELOW_DB,
    tracks: report.tracks.map(({ peak_db }) => ({ peakDb: peak_db })),
  };
}
