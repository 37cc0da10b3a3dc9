/** What subtitles may be like at most. */
export type SubtitleLimits = {
  /** Characters of a line; wide ones count as two. */
  maxLineCharacters: number;
  /** Lines on the screen at one time. */
  maxLines: number;
  /** How long a cue stays, milliseconds. Undefined: 7 s where words have times, else as long as the segment. */
  maxCueMs?: number | undefined;
};

/** Subtitle practice (Netflix Timed Text Style Guide, general requirements): two lines of 42 characters. */
export const SUBTITLE_LIMITS: SubtitleLimits = { maxLineCharacters: 42, maxLines: 2 };

/** Bounds of the limits that can be asked for. */
export const SUBTITLE_BOUNDS = {
  maxLineCharacters: { min: 10, max: 200 },
  maxLines: { min: 1, max: 5 },
  maxCueSeconds: { min: 1, max: 60 },
} as const;
