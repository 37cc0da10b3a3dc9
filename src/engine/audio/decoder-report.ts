import type { AudioMeasurements } from "../../domain/audio.ts";

/** The level of digital silence; lower levels are raised to it. */
export const SILENCE_DB = -120;

/** What the decoder reports about a recording; see `report` in src/native/decoder/main.c. */
export type DecoderReport = {
  /** Samples of each track at 16 kHz, counted while decoding. */
  samples: number;
  channels: number;
  sample_rate_hz: number;
  /** Length of the sound whose packets could not be decoded. */
  lost_ms: number;
  /** Reading ended early, or a part of a joined recording could not be read. */
  broke_off: boolean;
  /** The length that the headers claim; absent when they claim none, or only estimate it. */
  claimed_ms?: number;
  /** The file has no signature, and was read in the format that was named. */
  is_raw: boolean;
  /** The audio track that was read; absent where the file has only one. */
  track?: number;
  /** Other audio tracks that have sound; empty where the track was given. */
  left_out?: number[];
  /** The audio tracks that were read side by side, instead of one. */
  mixed?: number[];
};

/** What the decoder also reports when it writes tracks. */
export type LevelsReport = {
  peak_db: number;
  mix_db: number;
  high_db: number;
  /** Level of half the difference of the two channels; absent unless the recording has two from beginning to end. */
  sides_db?: number;
  clipped_ratio: number;
  tracks: { peak_db: number; loudest_db: number }[];
};

/** Headers round and codecs have a delay, so only a longer difference means that sound is missing. */
const TRUNCATION_TOLERANCE_MS = 500;
const TRUNCATION_TOLERANCE_RATIO = 0.01;
/** The difference of equal channels is at least this far below them, after any codec. */
const IDENTICAL_BELOW_DB = -50;

/** Reports whether the file claims to hold more sound than was decoded. */
export function isTruncated(report: DecoderReport, durationMs: number): boolean {
  const missingMs = Math.max((report.claimed_ms ?? 0) - durationMs, report.lost_ms);
  return (
    report.broke_off || missingMs > Math.max(TRUNCATION_TOLERANCE_MS, durationMs * TRUNCATION_TOLERANCE_RATIO)
  );
}

/** Describes the sound of a recording whose tracks were written. */
export function measurementsOf(report: DecoderReport & LevelsReport, truncated: boolean): AudioMeasurements {
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
