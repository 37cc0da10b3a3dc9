/** What a recognizer is asked for, whatever its family; families add their own. Plain values, sent between processes. */
export type RecognizerSettings = {
  /** The code under which the model knows the language. */
  language: string;
};

/** What a recognizer hears in a stretch of audio; times count from the beginning of that audio. */
export type RecognizedSegment = {
  startMs: number;
  endMs: number;
  text: string;
  /** Code that the recognizer was told or heard. */
  language: string;
  /** Mean probability of the tokens, those of one character taken together, 0 to 1; 0 for a segment without any. */
  confidence: number;
  /** That there was no speech, 0 to 1; absent from families that do not estimate it. */
  noSpeechProbability?: number;
};
