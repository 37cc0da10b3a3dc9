import type { Word } from "../domain/result.ts";
import type { LooseSegment } from "../pipeline/stitch.ts";
import { carryWords, fitWords, withWords } from "../pipeline/timed-words.ts";
import { wordSpans } from "../pipeline/word-spans.ts";
import { applyScript } from "../transliteration/apply-script.ts";
import { applyWritten } from "../written/apply.ts";

/** The form of the text that a request asks for. Null, as rows have it, or left out: as it was said, in the language's script. */
export type WrittenForm = { numerals?: "written" | null; script?: string | null };

/** Reports whether text stays as it was said. */
export function isSpokenForm({ numerals, script }: WrittenForm): boolean {
  return !numerals && !script;
}

/**
 * Writes the text of segments in the form that was asked for: first numbers in figures, then the script. Words follow with their
 * times. Text that cannot be written in the script without loss stays in its own.
 *
 * @param segments with the wording applied
 */
export function writeSegments(segments: readonly LooseSegment[], form: WrittenForm): LooseSegment[] {
  return isSpokenForm(form) ? [...segments] : segments.map((segment) => writeSegment(segment, form));
}

function writeSegment(segment: LooseSegment, { numerals, script }: WrittenForm): LooseSegment {
  const inFigures = numerals === "written" ? withFigures(segment) : segment;
  return script ? inScript(inFigures, segment.text, script) : inFigures;
}

function withFigures(segment: LooseSegment): LooseSegment {
  const { text, changes } = applyWritten(segment.text, { language: segment.language });
  if (changes.length === 0) return segment;
  const words = segment.words && carryWords(segment.words, text);
  return withWords({ ...segment, text, written: changes }, fitWords(words, segment));
}

function inScript(segment: LooseSegment, spoken: string, script: string): LooseSegment {
  const { language, written = [] } = segment;
  const outcome = applyScript(segment.text, { language, script }, written);
  if ("refusal" in outcome || outcome.text === segment.text) return segment;
  const { text, spans } = outcome;
  const words = segment.words && wordsInScript(segment.words, text);
  const moved = spans.length === 0 ? {} : { written: spans };
  return withWords({ ...segment, text, ...moved, nativeText: spoken }, fitWords(words, segment));
}

/** Another script leaves the white space between words as it is. */
function wordsInScript(words: readonly Word[], text: string): Word[] | undefined {
  const spans = wordSpans(text);
  if (spans.length !== words.length) return carryWords(words, text);
  return words.map((word, index) => ({ ...word, text: spans[index]?.text ?? word.text }));
}
