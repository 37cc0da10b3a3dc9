import type { PunctuationFiles } from "../domain/model.ts";

/** Asks for the punctuation of words that follow one another. */
export type PunctuateJob = {
  model: PunctuationFiles;
  /** Words as they were recognized, without white space. */
  words: readonly string[];
};

/** What a model of punctuation says of one word. It never says another word. */
export type WordMarks = {
  /** The model's label of the mark behind the word, such as `,`; left out: none. */
  after?: string;
  /** Places of the letters that are capitals, counted in characters (code points) from 0; left out: none. */
  capitals?: number[];
};

/** For each word of the job its marks. */
export type PunctuateOutcome = { marks: WordMarks[] };
