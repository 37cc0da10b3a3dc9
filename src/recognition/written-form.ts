import type { Rewriting, Word } from "../domain/result.ts";
import { wordSpans } from "../lib/word-spans.ts";
import type { LooseSegment } from "../pipeline/stitch.ts";
import { carryWords, fitWords, regroupWords, withWords } from "../pipeline/timed-words.ts";
import type { AlignedGroup } from "../pipeline/word-alignment.ts";
import type { applyScript as ApplyScript } from "../transliteration/apply-script.ts";
import type { applyWritten as ApplyWritten } from "../written/apply.ts";
import { loadWritten } from "../written/load.ts";

/** The form of the text that a request asks for. Null, as rows have it, or left out: as it was said, in the language's script. */
export type WrittenForm = { numerals?: "written" | null; script?: string | null };

/** Reports whether text stays as it was said. */
function isSpokenForm({ numerals, script }: WrittenForm): boolean {
  return !numerals && !script;
}

/** Writes the text of segments with the wording applied. */
export type SegmentWriter = (segments: readonly LooseSegment[]) => LooseSegment[];

/** Leaves segments as they are. */
export const leaveSegments: SegmentWriter = (segments) => [...segments];

/**
 * Returns what writes the text of segments in the form that was asked for: first numbers in figures, then the script. Words follow
 * with their times. Text that cannot be written in the script without loss stays in its own. The rules and tables are loaded where they
 * are needed.
 */
export async function segmentWriter(form: WrittenForm): Promise<SegmentWriter> {
  if (isSpokenForm(form)) return leaveSegments;
  const { numerals, script } = form;
  const { applyWritten } = numerals === "written" ? await loadWritten() : { applyWritten: undefined };
  const { applyScript } = script
    ? await import("../transliteration/apply-script.ts")
    : { applyScript: undefined };
  return (segments) =>
    segments.map((segment) => {
      const inFigures = applyWritten ? withFigures(segment, applyWritten) : segment;
      if (!script || !applyScript) return inFigures;
      return inScript(inFigures, { spoken: segment.text, script, applyScript });
    });
}

function withFigures(segment: LooseSegment, applyWritten: typeof ApplyWritten): LooseSegment {
  const { text, changes } = applyWritten(segment.text, { language: segment.language });
  if (changes.length === 0) return segment;
  const words = segment.words && wordsInFigures(segment.words, segment.text, { text, changes });
  return withWords({ ...segment, text, written: changes }, fitWords(words, segment));
}

/** Gives figures the time of the words that they replace. */
function wordsInFigures(
  words: readonly Word[],
  spoken: string,
  { text, changes }: { text: string; changes: readonly Rewriting[] },
): Word[] | undefined {
  const before = wordSpans(spoken);
  const after = wordSpans(text);
  const groups: AlignedGroup[] = [];
  for (const [index, { from, to }] of after.entries()) {
    const start = placeInSpoken(from, changes, "start");
    const end = placeInSpoken(to, changes, "end");
    const beforeFrom = before.findIndex((word) => word.to > start);
    const beforeTo = before.findLastIndex((word) => word.from < end) + 1;
    const last = groups.at(-1);
    if (last && beforeFrom < last.beforeTo) {
      last.beforeTo = Math.max(last.beforeTo, beforeTo);
      last.afterTo = index + 1;
    } else {
      groups.push({ beforeFrom, beforeTo, afterFrom: index, afterTo: index + 1 });
    }
  }
  const isWhole =
    before.length === words.length &&
    groups[0]?.beforeFrom === 0 &&
    groups.every(({ beforeTo }, index) => beforeTo === (groups[index + 1]?.beforeFrom ?? words.length));
  const texts = after.map((word) => word.text);
  return isWhole ? regroupWords(words, texts, groups) : carryWords(words, text);
}

/** Returns where a place of the rewritten text was before. Within figures it is the start or the end of their words. */
function placeInSpoken(place: number, changes: readonly Rewriting[], side: "start" | "end"): number {
  let moved = 0;
  for (const { start, end, spoken } of changes) {
    if (place <= start) break;
    if (place < end) return side === "start" ? start + moved : start + moved + spoken.length;
    moved += spoken.length - (end - start);
  }
  return place + moved;
}

type Asked = { spoken: string; script: string; applyScript: typeof ApplyScript };

function inScript(segment: LooseSegment, { spoken, script, applyScript }: Asked): LooseSegment {
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
