import type { RawFormat } from "./raw-formats.ts";

/**
 * How the decoder reads a file, beyond what the file says itself. What verification has found is kept with the upload, so
 * that every later decoding hears the same sound, whatever the settings are by then.
 */
export type Reading = {
  /** The format of a file that has no signature. */
  format?: RawFormat;
  /** The audio track that is read, from 0 in the order of the file. Left out: the file has one, or it is not known yet. */
  track?: number;
  /** The other audio tracks that have sound, in the order of the file. */
  leftOut?: number[];
  /** The audio tracks that are read side by side, each as a channel, instead of `track`; at least two. */
  mixed?: number[];
};

/** A file, and how it is read where that is known already. */
export type FileToRead = { path: string; reading?: Reading | undefined };

/** Which audio tracks of a file are read where it is not known yet: one, or all that have sound. */
export const TRACK_CHOICES = ["one", "all"] as const;
export type TrackChoice = (typeof TRACK_CHOICES)[number];

/** How recordings were read that an older version has verified. */
export const FIRST_TRACK: Reading = { track: 0 };
