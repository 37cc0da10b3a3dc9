import { type ChunkRegion, SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import type { SpanMs, Word } from "../domain/result.ts";
import { carryWords, withWords } from "./timed-words.ts";

/*
 * Who ends a loop. While Whisper writes, `src/native/whisper/decoding/loops.cc` ends an attempt whose text repeats itself,
 * and whisper.cpp makes its next attempt; where all fail, the segment comes with `isCut`. Texts that only have few different
 * words are whisper.cpp's own concern, by the entropy of their tokens. This module looks at what comes out, of any family: it
 * cuts loops that no recognizer has ended, such as those of CTC models and those across two calls, and it compares words
 * without case and punctuation, which the decoder does not. The bounds are the same.
 */

/** Longest repeated phrase that is searched for, in words. */
const MAX_PHRASE_WORDS = 24;
/** A loop has at least this many words, because people say "no no no no" and dictate "zero zero zero zero". */
const MIN_LOOP_WORDS = 12;
/** A sentence said twice is emphasis. Utterance three times it is a loop, if it is long enough. */
const MIN_REPEATS = 3;
/** Letters of a word that repeat a unit of up to eight letters. Fewer are a drawn-out "aaaah" and no loop. */
const MIN_LOOP_LETTERS = 24;

/**
 * Cuts loops to one occurrence. A loop is a phrase of 1 to 24 words that occurs at least three times in a row and fills at
 * least twelve words, or a unit of letters that fills 24 letters of a word. Loops may run across the segments of a chunk.
 * Segments that are left without words are removed. Words with times are those of the occurrence that is kept.
 *
 * @returns new segments, and whether anything was cut
 */
export function removeLoops<S extends { text: string; words?: Word[] }>(
  segments: readonly S[],
): { segments: S[]; isCut: boolean } {
  const words: { text: string; key: string; segment: number }[] = [];
  let isCut = false;
  for (const [segment, { text }] of segments.entries()) {
    for (const word of text.split(/\s+/u)) {
      if (word === "") continue;
      const short = cutLetterLoop(word);
      if (short !== word) isCut = true;
      words.push({ text: short, key: comparable(short), segment });
    }
  }
  const keys = words.map(({ key }) => key);
  const kept: typeof words = [];
  for (let at = 0; at < words.length; ) {
    const loop = loopAt(keys, at);
    const take = loop?.phraseWords ?? 1;
    kept.push(...words.slice(at, at + take));
    at += loop?.loopWords ?? 1;
    if (loop) isCut = true;
  }
  if (!isCut) return { segments: [...segments], isCut };
  const texts = segments.map((): string[] => []);
  for (const { text, segment } of kept) texts[segment]?.push(text);
  const shortened = segments.map((segment, index) => {
    const text = (texts[index] ?? []).join(" ");
    return withWords({ ...segment, text }, segment.words && carryWords(segment.words, text, "first"));
  });
  return { segments: shortened.filter(({ text }) => text !== ""), isCut };
}

/**
 * Reports whether text repeats itself, or did where the recognizer has ended it. Callers recognize it again with other
 * settings, or cut it and add the warning `repetition_removed`.
 */
export function hasLoop(segments: readonly { text: string; isCut?: boolean }[]): boolean {
  return segments.some(({ isCut }) => isCut) || removeLoops(segments).isCut;
}

function comparable(word: string): string {
  return word.toLowerCase().replace(/[^\p{L}\p{M}\p{N}]/gu, "") || word;
}

/** Finds the loop that begins at a word: the shortest phrase that repeats often enough. */
function loopAt(keys: readonly string[], at: number): { phraseWords: number; loopWords: number } | undefined {
  const longest = Math.min(MAX_PHRASE_WORDS, Math.floor((keys.length - at) / MIN_REPEATS));
  for (let phraseWords = 1; phraseWords <= longest; phraseWords++) {
    let end = at + phraseWords;
    while (end < keys.length && keys[end] === keys[end - phraseWords]) end++;
    const repeats = Math.floor((end - at) / phraseWords);
    if (repeats >= MIN_REPEATS && repeats * phraseWords >= MIN_LOOP_WORDS) {
      // The end of the window cuts a loop off. Its unfinished last repetition belongs to it.
      const loopWords = end === keys.length ? end - at : repeats * phraseWords;
      return { phraseWords, loopWords };
    }
  }
  return undefined;
}

const LETTER_LOOP = /((?:.){1,8}?)\1{2,}/gu;

function cutLetterLoop(word: string): string {
  if (word.length < MIN_LOOP_LETTERS) return word;
  return word.replace(LETTER_LOOP, (loop, unit: string) =>
    [...loop].length >= MIN_LOOP_LETTERS && !/^\p{N}+$/u.test(unit) ? unit : loop,
  );
}

/** The parts of a segment from which the guards judge it. */
export type SegmentInfo = {
  text: string;
  /** Mean token probability, 0 to 1. */
  confidence: number;
  /** The model's own estimate for the window, 0 to 1. */
  noSpeechProbability?: number | undefined;
  /** Speech that the detector found within the segment, milliseconds. */
  speechMs: number;
};

/** Whisper's reference treats a window as silent above this probability, when its words are improbable too. */
const NO_SPEECH = 0.6;
/** e to the power of −1, Whisper's bound for the mean log probability. */
const IMPROBABLE = 0.37;
/** Twice the speed of fast speech. */
const MAX_LETTERS_PER_SECOND = 30;
const MIN_LETTERS_TO_JUDGE = 20;

/**
 * Phrases that subtitles end with. Whisper has learned them from subtitles and writes them over silence and music
 * (whisper.cpp issues 1724 and 2755; "Careless Whisper", Koenecke et al. 2024). Lower case, without punctuation.
 */
const SUBTITLE_PHRASES = new Set([
  "thank you",
  "thanks for watching",
  "thank you for watching",
  "thank you very much for watching",
  "please subscribe",
  "please subscribe to my channel",
  "like and subscribe",
  "subtitles by the amaraorg community",
  "see you next time",
  "bye bye",
  "धन्यवाद",
  "देखने के लिए धन्यवाद",
  "நன்றி",
  "ধন্যবাদ",
  "ధన్యవాదాలు",
  "ಧನ್ಯವಾದಗಳು",
  "നന്ദി",
  "आभार",
]);
const SURE = 0.6;

/**
 * Reports whether the model itself does not take the audio of a segment for speech: its probability of no speech is high,
 * and its confidence is low. Whisper's reference leaves such windows out (`no_speech_threshold` with
 * `logprob_threshold`). Callers drop the segment and add the warning `suspected_hallucination`.
 */
export function isNoSpeech(segment: Pick<SegmentInfo, "confidence" | "noSpeechProbability">): boolean {
  return (segment.noSpeechProbability ?? 0) > NO_SPEECH && segment.confidence < IMPROBABLE;
}

/**
 * Reports whether a segment is likely invented: it has more letters than fit its speech, or it is a closing phrase of
 * subtitles with low confidence. The text may still be right, because there was speech. Callers keep it and add the
 * warning `suspected_hallucination`.
 */
export function isSuspectedHallucination(segment: SegmentInfo): boolean {
  if (segment.text.trim() === "") return false;
  const letters = lettersOf(segment.text);
  if (
    letters >= MIN_LETTERS_TO_JUDGE &&
    (letters * 1000) / Math.max(segment.speechMs, 1) > MAX_LETTERS_PER_SECOND
  ) {
    return true;
  }
  const phrase = segment.text
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\s]/gu, "")
    .replace(/\s+/gu, " ")
    .trim();
  const isDoubtful = segment.confidence < SURE || (segment.noSpeechProbability ?? 0) > NO_SPEECH;
  return SUBTITLE_PHRASES.has(phrase) && isDoubtful;
}

/** Counts the letters and digits of a text, without marks such as signs of vowels. */
export function lettersOf(text: string): number {
  return text.match(/[\p{L}\p{N}]/gu)?.length ?? 0;
}

export type Coverage = {
  speechMs: number;
  coveredMs: number;
  /** Speech without a segment that is longer than a pause. An edge at a segment counts as cut. */
  uncovered: ChunkRegion[];
};

const LEAST_UNCOVERED_MS = 1_000;

/**
 * Measures how much of the detected speech has segments, and finds the speech without one, such as dropped sentences.
 *
 * @param regions regions of one chunk, in order
 * @param segments segments of the same chunk on the recording's clock, in any order
 * @param leastBetweenMs shorter speech without a segment is ignored between two segments of a region; elsewhere a second's hesitation is
 */
export function speechCoverage(
  regions: readonly ChunkRegion[],
  segments: readonly SpanMs[],
  leastBetweenMs = LEAST_UNCOVERED_MS,
): Coverage {
  const sorted = segments.toSorted((a, b) => a.startMs - b.startMs);
  const coverage: Coverage = { speechMs: 0, coveredMs: 0, uncovered: [] };
  for (const region of regions) {
    const startMs = (region.startSample * 1000) / SAMPLE_RATE_HZ;
    const endMs = (region.endSample * 1000) / SAMPLE_RATE_HZ;
    coverage.speechMs += endMs - startMs;
    let atMs = startMs;
    const skipTo = (nextMs: number) => {
      const isBetween = atMs > startMs && nextMs < endMs;
      if (nextMs - atMs < (isBetween ? leastBetweenMs : LEAST_UNCOVERED_MS)) return;
      coverage.uncovered.push({
        startSample: Math.round((atMs * SAMPLE_RATE_HZ) / 1000),
        endSample: Math.round((nextMs * SAMPLE_RATE_HZ) / 1000),
        ...(atMs > startMs || region.isCutAtStart ? { isCutAtStart: true } : {}),
        ...(nextMs < endMs || region.isCutAtEnd ? { isCutAtEnd: true } : {}),
      });
    };
    for (const segment of sorted) {
      if (segment.endMs <= atMs || segment.startMs >= endMs) continue;
      if (segment.startMs > atMs) skipTo(segment.startMs);
      const fromMs = Math.max(atMs, segment.startMs);
      atMs = Math.min(segment.endMs, endMs);
      coverage.coveredMs += atMs - fromMs;
    }
    skipTo(endMs);
  }
  return coverage;
}
