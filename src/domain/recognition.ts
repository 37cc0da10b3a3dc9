import type { LanguageCandidate } from "./result.ts";

/** Settings for recognizers of all families; each family adds its own. Plain values, because they are sent between processes. */
export type RecognizerSettings = {
  /** The code under which the model knows the language. */
  language: string;
  /** Most work for this call. Left out, and for families that do the same work for all audio of a length: any. */
  effort?: EffortLimit;
  /** Words are to have times. Left out: they need none, and cost nothing. */
  words?: boolean;
  /** The text is English, whatever is spoken; only for models that can. Left out: it is in the language. */
  translates?: boolean;
};

/** An amount of work, measured by that for clear speech, so that it is the same on every machine. */
export type EffortLimit = {
  /** Milliseconds of the speech with which the work is compared. */
  ofMs: number;
  /** How many times as much work as for so much clear speech. */
  most: number;
};

/** What a recognizer found in audio, and what it cost. */
export type Recognition = {
  segments: RecognizedSegment[];
  /** In the unit of the limit in the settings; left out where these have none. */
  effort?: number;
  /** Tokens that a draft model wrote, and those of them that were accepted; left out: none was asked. */
  draft?: { drafted: number; accepted: number };
  /** What the family's settings have asked for besides, such as in a trial; only the family knows the form. */
  measured?: unknown;
};

/** A word that a recognizer found. Times count from the beginning of the audio. */
export type RecognizedWord = {
  /** Without white space. */
  text: string;
  startMs: number;
  endMs: number;
  /** Mean probability of its tokens, 0 to 1. */
  confidence: number;
};

/** Text that a recognizer found in a stretch of audio. Times count from the beginning of that audio. */
export type RecognizedSegment = {
  startMs: number;
  endMs: number;
  text: string;
  /** Code that the recognizer received or detected. */
  language: string;
  /** Mean probability of the tokens, those of one character taken together, 0 to 1; 0 for a segment without any. */
  confidence: number;
  /** Probability that there was no speech, 0 to 1; absent from families that do not estimate it. */
  noSpeechProbability?: number;
  /**
   * The languages that may be spoken in the audio as a whole, the most probable first; empty or absent where the model
   * cannot tell.
   */
  spokenLanguages?: LanguageCandidate[];
  /** The model repeated itself after this text; the repetition is left out. */
  isCut?: boolean;
  /**
   * The words of the text with their times, where the settings ask for them. In order, not overlapping, within the segment;
   * without their white space, text and words are the same characters. Absent where the model cannot align its text with
   * the sound: times are measured or missing, never guessed.
   */
  words?: RecognizedWord[];
};
