import type { LanguageCandidate } from "./result.ts";

/** Settings for recognizers of all families; each family adds its own. Plain values, because they are sent between processes. */
export type RecognizerSettings = {
  /** The code under which the model knows the language. */
  language: string;
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
};
