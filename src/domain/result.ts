/** The result of a transcription: segments of timed text, gaps without text, and warnings. */

/** A word of a segment, on the recording's own clock. */
export type Word = {
  /** Without white space. */
  text: string;
  startMs: number;
  /** `startMs < endMs`. */
  endMs: number;
  /** 0 to 1. */
  confidence: number;
};

/** Words of a segment that were rewritten in figures. */
export type Rewriting = {
  /** Where the figures are in the segment's text, in UTF-16 units, the end behind the last one. */
  start: number;
  end: number;
  /** What it is, such as `money` or `date`. */
  kind: string;
  /** Numbers in decimal, ₹ in paise, dates, times and durations in the forms of ISO 8601. */
  value: string;
  /** The words that were said, in the language's own script. */
  spoken: string;
};

/** One timed stretch of text on the recording's own clock (docs/decisions/transcriptions.md, "Result"). */
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
  /** The channel, counted from 0; only with channel mode `separate`. */
  channel?: number;
  /**
   * With `timestamps=word`: the words of the text, in order of time, not overlapping, within the segment. Joined by the
   * segment's white space they are its text. Absent where they were not asked for, or could not be measured.
   */
  words?: Word[];
  /** What was rewritten in figures, in order, not overlapping; with `numerals=written`. */
  written?: Rewriting[];
  /** The text as it was said, in the language's own script; where `text` is in another script. */
  nativeText?: string;
};

export const GAP_REASONS = ["engine_error", "time_limit"] as const;
export type GapReason = (typeof GAP_REASONS)[number];

/** A stretch of time, milliseconds of the recording. */
export type SpanMs = { startMs: number; endMs: number };

/** A stretch of speech that was recognized, and whose words are unknown. It is charged, unlike a gap. */
export type Unrecognized = SpanMs & { channel?: number };

/** A language that may be spoken. */
export type LanguageCandidate = {
  /** ISO 639 code, as the model's manifest has it, or the model's own code where the manifest does not name it. */
  language: string;
  /** 0 to 1. */
  probability: number;
};

/** What the text of a chunk does not tell. */
export type ChunkDoubts = {
  /** Speech whose words are unknown, in order. */
  unrecognized: SpanMs[];
  /** The languages that may be spoken, the most probable first; empty where the model cannot tell. */
  languages: LanguageCandidate[];
};

/** What becomes of text below the model's floor of confidence: it is left out of the transcript, or kept. */
export const DOUBTFUL_TEXT_CHOICES = ["omit", "keep"] as const;
export type DoubtfulText = (typeof DOUBTFUL_TEXT_CHOICES)[number];

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
  "unrecognized_speech",
  "language_mismatch",
  "word_times_missing",
  "punctuation_missing",
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
  /** In order of time, with the warning `unrecognized_speech`. Absent from results of earlier versions. */
  unrecognized?: Unrecognized[];
  /** The most probable first, with the warning `language_mismatch`. */
  languageCandidates?: LanguageCandidate[];
};

export type AudioTracks = { transcribed: number; leftOut: number[] };
