/** The result of a transcription: segments of timed text, gaps without text, and warnings. */

/** One timed stretch of text on the recording's own clock (docs/decisions.md section 4, "Result"). */
export type Segment = {
  /** Position in the result, from 0. */
  index: number;
  /** Start on the recording's clock, milliseconds. */
  startMs: number;
  /** End on the recording's clock, milliseconds; `startMs < endMs`. */
  endMs: number;
  text: string;
  /** ISO 639 code. */
  language: string;
  /** 0 to 1. */
  confidence: number;
  /** `speaker_1`, … in order of first appearance; only with diarization. */
  speaker?: string;
  /** From 0; only with channel mode `separate`. */
  channel?: number;
};

export const GAP_REASONS = ["engine_error", "time_limit"] as const;
export type GapReason = (typeof GAP_REASONS)[number];

/** A stretch of speech that could not be transcribed. */
export type Gap = { startMs: number; endMs: number; reason: GapReason; channel?: number };

export const WARNINGS = [
  "no_speech",
  "low_confidence",
  "repetition_removed",
  "suspected_hallucination",
  "clipped_audio",
  "low_volume",
  "narrowband_audio",
  "identical_channels",
  "script_mismatch",
  "speaker_count_uncertain",
  "truncated_audio",
  "tracks_left_out",
] as const;
export type Warning = (typeof WARNINGS)[number];

/** The result of a completed or partial transcription. Times are in milliseconds. */
export type TranscriptionResult = {
  status: "completed" | "partial";
  durationMs: number;
  /** Channels of the recording, not of the request. */
  channels: number;
  /** Codes found in the segments. */
  languages: string[];
  text: string;
  segments: Segment[];
  warnings: Warning[];
  gaps: Gap[];
  /** With the warning `tracks_left_out`: which audio tracks of the file, from 0 in its order. */
  audioTracks?: AudioTracks;
};

export type AudioTracks = { transcribed: number; leftOut: number[] };
