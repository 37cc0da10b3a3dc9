import type { PunctuationHashes, PunctuationModel } from "../domain/model.ts";
import type { Warning } from "../domain/result.ts";
import type { Engine } from "../engine/engine.ts";
import { EngineError, type PunctuateOutcome } from "../engine/protocol.ts";
import { inSlices } from "../lib/in-slices.ts";
import { type WordSpan, wordSpans } from "../lib/word-spans.ts";
import { SENTENCE_ENDS } from "../pipeline/sentence-ends.ts";
import type { LooseSegment } from "../pipeline/stitch.ts";
import { withWords } from "../pipeline/timed-words.ts";
import { applyMarks } from "../punctuation/apply-marks.ts";
import type { RecognitionTools } from "./context.ts";
import { withRetries } from "./retry.ts";

export type Punctuated = {
  segments: LooseSegment[];
  warnings: Warning[];
  /** Hashes of the model; left out where none found marks. */
  punctuation?: PunctuationHashes;
};

/** A word of a segment, and where it is. */
type PlacedWord = { text: string; segment: number };

/** Words that one speaker says in one language, one after the other. */
type Stretch = { language: string; words: PlacedWord[] };

/** Words of one request: small messages, and the work can be aborted soon. */
const WORDS_AT_ONCE = 2_000;
/** Words before and behind those of a request, which it reads without deciding about them. */
const CONTEXT_WORDS = 24;
/** Segments that are read, or written, without a pause. */
const SEGMENTS_AT_ONCE = 500;

/** A word that ends with a mark: the recognizer writes punctuation itself. */
const HAS_MARK = new RegExp(`[\\p{L}\\p{M}\\p{N}][,،${SENTENCE_ENDS}]["”’)]*(?:\\s|$)`, "u");

/** Returns the model that adds punctuation to texts of a family; undefined: there is none, or the family writes punctuation. */
export function punctuationFor(
  { punctuation, familyOf }: Pick<RecognitionTools, "punctuation" | "familyOf">,
  family: string,
): PunctuationModel | undefined {
  return familyOf(family).writesPunctuation ? undefined : punctuation?.();
}

/**
 * Adds punctuation to segments in order of time, with the wording applied and the speakers known, where a model for it is installed
 * and the recognizer has written none. Words stay as they are, with their times. A model that cannot be used does not end a
 * transcription: the text has no punctuation then, and the result a warning.
 *
 * @throws the signal's reason when it is aborted; EngineError `interrupted`
 */
export async function punctuate(
  tools: RecognitionTools,
  family: string,
  segments: LooseSegment[],
  signal: AbortSignal,
): Promise<Punctuated> {
  const model = punctuationFor(tools, family);
  if (!model || segments.some(({ text }) => HAS_MARK.test(text))) return { segments, warnings: [] };
  const spans = await inSlices(
    segments,
    (slice) => slice.map(({ text }) => wordSpans(text)),
    SEGMENTS_AT_ONCE,
  );
  const stretches = stretchesOf(segments, spans, model);
  if (stretches.length === 0) return { segments, warnings: [] };
  const marked: string[][] = segments.map(() => []);
  try {
    for (const stretch of stretches) {
      for (const { text, segment } of await markedWords(tools, model, stretch, signal))
        marked[segment]?.push(text);
    }
  } catch (error) {
    if (signal.aborted || !(error instanceof EngineError) || error.kind === "interrupted") throw error;
    // An admin has replaced or removed the model meanwhile, and its files with it.
    if (punctuationFor(tools, family)?.modelPath !== model.modelPath)
      return punctuate(tools, family, segments, signal);
    const failure = { kind: error.kind, reason: error.message, model: model.modelPath };
    tools.log.warn(failure, "the model of punctuation cannot be used; the text has none");
    return { segments, warnings: ["punctuation_missing"] };
  }
  const numbered = segments.map((segment, index) => ({
    segment,
    spans: spans[index] ?? [],
    words: marked[index] ?? [],
  }));
  const written = await inSlices(numbered, (slice) => slice.map(writeWords), SEGMENTS_AT_ONCE);
  return { segments: written, warnings: [], punctuation: model.expected };
}

/**
 * Adds punctuation to one text in a language that the model knows. Its words and white space stay; a text that has a mark already
 * stays as it is.
 *
 * @throws EngineError when the model cannot be used; the signal's reason when it is aborted
 */
export async function punctuateText(
  tools: MarkingTools,
  model: PunctuationModel,
  { text, language }: { text: string; language: string },
  signal: AbortSignal,
): Promise<string> {
  const spans = wordSpans(text);
  if (spans.length === 0 || HAS_MARK.test(text)) return text;
  const words = spans.map((span) => ({ text: span.text, segment: 0 }));
  const marked = await markedWords(tools, model, { language, words }, signal);
  return withWordsAt(
    text,
    spans,
    marked.map((word) => word.text),
  );
}

/** Divides the words where the speaker, the channel or the language changes. Languages that the model does not know are left out. */
function stretchesOf(
  segments: readonly LooseSegment[],
  spans: readonly WordSpan[][],
  { languages }: PunctuationModel,
): Stretch[] {
  const stretches: Stretch[] = [];
  const open = new Map<number, Stretch & { speaker: string | undefined }>();
  for (const [index, { language, channel = 0, speaker }] of segments.entries()) {
    if (!languages.includes(language)) continue;
    let stretch = open.get(channel);
    if (!stretch || stretch.language !== language || stretch.speaker !== speaker) {
      stretch = { language, speaker, words: [] };
      open.set(channel, stretch);
      stretches.push(stretch);
    }
    stretch.words.push(...(spans[index] ?? []).map(({ text }) => ({ text, segment: index })));
  }
  return stretches.filter(({ words }) => words.length > 0);
}

/** What asking for marks needs. */
export type MarkingTools = { engine: Pick<Engine, "punctuate"> } & Pick<
  RecognitionTools,
  "log" | "isWaitedOut"
>;

/** Asks the model for the marks of a stretch, some words at a time, and adds them. */
async function markedWords(
  tools: MarkingTools,
  model: PunctuationModel,
  { language, words }: Stretch,
  signal: AbortSignal,
): Promise<PlacedWord[]> {
  const marked: PlacedWord[] = [];
  for (let from = 0; from < words.length; from += WORDS_AT_ONCE) {
    const before = Math.min(from, CONTEXT_WORDS);
    const part = words.slice(from - before, from + WORDS_AT_ONCE + CONTEXT_WORDS);
    const job = { model, words: part.map(({ text }) => text) };
    const { marks } = await withRetries<PunctuateOutcome>(tools, signal, () =>
      tools.engine.punctuate(job, signal),
    );
    for (const [index, word] of words.slice(from, from + WORDS_AT_ONCE).entries()) {
      marked.push({ ...word, text: applyMarks(word.text, marks[before + index] ?? {}, language) });
    }
  }
  return marked;
}

/** Writes the words of a segment in place of those before. What is between them stays. */
function writeWords({
  segment,
  spans,
  words,
}: {
  segment: LooseSegment;
  spans: readonly WordSpan[];
  words: readonly string[];
}): LooseSegment {
  if (words.length !== spans.length) return segment;
  const text = withWordsAt(segment.text, spans, words);
  if (segment.words?.length !== spans.length) return { ...segment, text };
  const timed = segment.words.map((word, index) => ({ ...word, text: words[index] ?? word.text }));
  return withWords({ ...segment, text }, timed);
}

/** Returns a text with other words in the places of its own. */
function withWordsAt(before: string, spans: readonly WordSpan[], words: readonly string[]): string {
  let text = "";
  let end = 0;
  for (const [index, { from, to }] of spans.entries()) {
    text += before.slice(end, from) + words[index];
    end = to;
  }
  return text + before.slice(end);
}
