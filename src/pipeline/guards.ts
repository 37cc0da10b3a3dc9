import { deflateSync } from "node:zlib";
import { type ChunkRegion, SAMPLE_RATE_HZ } from "../domain/chunk.ts";

/** Whisper's own bound: text that deflates better than this repeats itself (Radford et al. 2022, section 4.5). */
export const MAX_COMPRESSION_RATIO = 2.4;
/** Of the runs of four words, the share that occurs more than once, above which compressible text is a loop. */
const MAX_REPEATED_RUNS = 0.5;
const RUN_WORDS = 4;

/**
 * How much a text shrinks under deflate: bytes before divided by bytes after.
 *
 * Whisper's reference takes UTF-8 bytes. That measures the script, not the words: plain Hindi prose comes to 2.3,
 * for three bytes a letter of which two hardly change. Here a letter counts one byte, the low eight bits of its code
 * point, which tells the letters of one script apart; the same prose comes to 1.3, English to 1.5.
 *
 * @returns 0 for an empty text
 */
export function compressionRatio(text: string): number {
  const bytes = Uint8Array.from(text, (letter) => (letter.codePointAt(0) ?? 0) & 0xff);
  return bytes.length === 0 ? 0 : bytes.length / deflateSync(bytes).length;
}

/**
 * Whether a chunk's text looks like a decoder that has lost its way, and deserves another try: it compresses beyond
 * Whisper's bound and most of its four-word runs repeat. The second condition spares digit strings, which are made of
 * ten words, compress like loops (sixty random digits: 2.7), and hardly ever repeat a run.
 */
export function isRepetitive(text: string): boolean {
  if (compressionRatio(text) <= MAX_COMPRESSION_RATIO) return false;
  const words = text.split(/\s+/u).filter((word) => word !== "");
  // Few words that compress so well are loops of letters, not of words.
  if (words.length < 2 * RUN_WORDS) return true;
  const counts = new Map<string, number>();
  for (let at = 0; at + RUN_WORDS <= words.length; at++) {
    const run = words.slice(at, at + RUN_WORDS).join(" ");
    counts.set(run, (counts.get(run) ?? 0) + 1);
  }
  let repeated = 0;
  for (const count of counts.values()) if (count > 1) repeated += count;
  return repeated / (words.length - RUN_WORDS + 1) > MAX_REPEATED_RUNS;
}

/** Longest phrase that is looked for, words. */
const MAX_PHRASE_WORDS = 24;
/** People say "no no no no", and dictate "zero zero zero zero": only this many words in a row are a loop. */
const MIN_LOOP_WORDS = 12;
/** A long sentence said twice is emphasis, three times over is a loop; a short phrase needs more. */
const MIN_REPEATS = 3;
/** Graphemes of one word that repeat a unit of up to eight, before it is a loop and not a drawn-out "aaaah". */
const MIN_LOOP_LETTERS = 24;

/**
 * Cuts loops of the decoder to one occurrence: a phrase of 1 to 24 words that stands at least three times in a row
 * and fills at least twelve words, or a unit of letters that fills 24 letters of a word. Phrases may run across the
 * segments of a chunk; a segment that is left without words is removed.
 *
 * @returns new segments, and whether anything was cut
 */
export function removeLoops<S extends { text: string }>(
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
  return {
    segments: segments
      .map((segment, index) => ({ ...segment, text: (texts[index] ?? []).join(" ") }))
      .filter(({ text }) => text !== ""),
    isCut,
  };
}

function comparable(word: string): string {
  return word.toLowerCase().replace(/[^\p{L}\p{M}\p{N}]/gu, "") || word;
}

/** The loop that begins at a word: the shortest phrase that repeats often enough. */
function loopAt(keys: readonly string[], at: number): { phraseWords: number; loopWords: number } | undefined {
  const longest = Math.min(MAX_PHRASE_WORDS, Math.floor((keys.length - at) / MIN_REPEATS));
  for (let phraseWords = 1; phraseWords <= longest; phraseWords++) {
    let end = at + phraseWords;
    while (end < keys.length && keys[end] === keys[end - phraseWords]) end++;
    const repeats = Math.floor((end - at) / phraseWords);
    if (repeats >= MIN_REPEATS && repeats * phraseWords >= MIN_LOOP_WORDS) {
      // A loop is cut off by the window's end: its unfinished last turn belongs to it.
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

export type HallucinationFacts = {
  text: string;
  /** Mean token probability, 0 to 1. */
  confidence: number;
  /** The decoder's own estimate for the window, 0 to 1. */
  noSpeechProbability?: number | undefined;
  /** Speech that the detector found under the segment. */
  speechMs: number;
};

/** Whisper's reference calls a window silent above this, when its words are improbable too. */
const NO_SPEECH = 0.6;
/** e to the power of −1, Whisper's bound for the mean log probability. */
const IMPROBABLE = 0.37;
/** Nobody speaks faster: 30 letters a second is twice the speed of fast speech. */
const MAX_LETTERS_PER_SECOND = 30;
const MIN_LETTERS_TO_JUDGE = 20;

/**
 * What subtitles end with and Whisper therefore writes over silence and music (whisper.cpp issues 1724 and 2755;
 * "Careless Whisper", Koenecke et al. 2024). Lower case, without punctuation.
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
 * Whether the decoder itself takes the audio under a segment for something else than speech: it says so, and is unsure
 * of each word it wrote all the same. Whisper's reference leaves such windows out (`no_speech_threshold` with
 * `logprob_threshold`), and so do we: the segment is dropped, and the result is marked `suspected_hallucination`.
 */
export function isNoSpeech(facts: Pick<HallucinationFacts, "confidence" | "noSpeechProbability">): boolean {
  return (facts.noSpeechProbability ?? 0) > NO_SPEECH && facts.confidence < IMPROBABLE;
}

/**
 * Whether a segment is likely made up: more letters than anyone can say in the speech found there, or a subtitle's
 * closing phrase that the decoder was not sure of. There was speech, and it may be right: the text stays, and the
 * result is marked `suspected_hallucination`.
 */
export function isSuspectedHallucination(facts: HallucinationFacts): boolean {
  if (facts.text.trim() === "") return false;
  const letters = facts.text.match(/[\p{L}\p{N}]/gu)?.length ?? 0;
  if (
    letters >= MIN_LETTERS_TO_JUDGE &&
    (letters * 1000) / Math.max(facts.speechMs, 1) > MAX_LETTERS_PER_SECOND
  ) {
    return true;
  }
  const phrase = facts.text
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\s]/gu, "")
    .replace(/\s+/gu, " ")
    .trim();
  const isDoubtful = facts.confidence < SURE || (facts.noSpeechProbability ?? 0) > NO_SPEECH;
  return SUBTITLE_PHRASES.has(phrase) && isDoubtful;
}

export type SpanMs = { startMs: number; endMs: number };
export type Coverage = {
  speechMs: number;
  coveredMs: number;
  /** Stretches of speech at least `minUncoveredMs` long over which no segment lies; cut where a segment ends or begins. */
  uncovered: ChunkRegion[];
};

/**
 * How much of the speech that was found lies under segments. What does not was heard and not written: the usual
 * complaint about dropped sentences. A second's hesitation is none.
 *
 * @param regions of one chunk, in order
 * @param segments of the same chunk on the recording's clock, in any order
 */
export function speechCoverage(
  regions: readonly ChunkRegion[],
  segments: readonly SpanMs[],
  minUncoveredMs = 1_000,
): Coverage {
  const sorted = segments.toSorted((a, b) => a.startMs - b.startMs);
  const coverage: Coverage = { speechMs: 0, coveredMs: 0, uncovered: [] };
  for (const region of regions) {
    const startMs = (region.startSample * 1000) / SAMPLE_RATE_HZ;
    const endMs = (region.endSample * 1000) / SAMPLE_RATE_HZ;
    coverage.speechMs += endMs - startMs;
    let atMs = startMs;
    const skipTo = (nextMs: number) => {
      if (nextMs - atMs < minUncoveredMs) return;
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
