import { normalizeForScoring } from "../../../src/pipeline/wer.ts";
import { compareWords } from "../../../src/pipeline/word-differences.ts";

/** What is said between two times of a recording, in seconds. */
export type Utterance = { start: number; end: number; text: string };
/** What a program has written for a stretch of it. */
export type Heard = Utterance;

/** The difference between what was said and what a program wrote, in words. */
export type SpeechScore = {
  words: number;
  replaced: number;
  /** Words that were said and not written. */
  lost: number;
  /** Words that were written and not said, those of `inSilence` included. */
  invented: number;
  /** Utterances of which fewer than half of the words were written. */
  lostUtterances: number;
  /** Words of segments that have speech in less than half of their length. */
  inSilence: number;
};

/**
 * Compares the segments of a program with the utterances of a recording. Words are compared in order, without case and
 * punctuation. Their times decide only what was written without speech.
 *
 * @throws RangeError where the texts are too long to compare
 */
export function scoreSpeech(
  said: readonly Utterance[],
  heard: readonly Heard[],
  language: string,
): SpeechScore {
  const spoken = said.flatMap(({ text }, utterance) =>
    wordsOf(text, language).map((word) => ({ word, utterance })),
  );
  const written = heard.flatMap(({ text }) => wordsOf(text, language));
  const compared = compareWords(spoken.map(({ word }) => word).join(" "), written.join(" "));
  if (compared === undefined) throw new RangeError("the recording has too many words to compare");
  const score = { words: spoken.length, replaced: 0, lost: 0, invented: 0, lostUtterances: 0, inSilence: 0 };
  const right = said.map(() => 0);
  let at = 0;
  for (const word of compared) {
    const utterance = word.said === undefined ? undefined : spoken[at++]?.utterance;
    if (word.said === undefined) score.invented++;
    else if (word.heard === undefined) score.lost++;
    else if (word.said !== word.heard) score.replaced++;
    else if (utterance !== undefined) right[utterance] = (right[utterance] ?? 0) + 1;
  }
  for (const [utterance, { text }] of said.entries())
    if (2 * (right[utterance] ?? 0) < wordsOf(text, language).length) score.lostUtterances++;
  for (const segment of heard)
    if (2 * spokenSeconds(segment, said) < segment.end - segment.start)
      score.inSilence += wordsOf(segment.text, language).length;
  return score;
}

function spokenSeconds({ start, end }: Heard, said: readonly Utterance[]): number {
  return said.reduce((sum, one) => sum + Math.max(0, Math.min(end, one.end) - Math.max(start, one.start)), 0);
}

function wordsOf(text: string, language: string): string[] {
  return normalizeForScoring(text, language).split(" ").filter(Boolean);
}
