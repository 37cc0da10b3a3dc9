import type { Segment } from "../domain/result.ts";
import { slicesOf } from "../lib/in-slices.ts";
import { ITEMS_OF_PIECE } from "../lib/text-pieces.ts";

/** Subtitle practice (Netflix Timed Text Style Guide, general requirements): two lines of 42 characters. */
export const MAX_LINE_GRAPHEMES = 42;
export const MAX_LINES = 2;

/** Text that is on the screen at one time. */
export type Cue = { startMs: number; endMs: number; lines: string[]; speaker?: string };

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** Counts characters as readers do: "क्षि" is one. */
export function countGraphemes(text: string): number {
  let count = 0;
  for (const _ of graphemes.segment(text)) count++;
  return count;
}

/** Words that a recording repeats are counted once: the segmenter takes microseconds for each, seconds for long recordings. */
const lengthsOfWords = new Map<string, number>();
const MOST_WORDS = 20_000;

function lengthOfWord(word: string): number {
  if (/^[\x21-\x7e]*$/.test(word)) return word.length;
  const known = lengthsOfWords.get(word);
  if (known !== undefined) return known;
  if (lengthsOfWords.size >= MOST_WORDS) lengthsOfWords.clear();
  const length = countGraphemes(word);
  lengthsOfWords.set(word, length);
  return length;
}

/**
 * Makes cues of at most two lines of 42 characters. A longer segment becomes several cues, which share its time in
 * proportion to their characters. Lines break between words. A word that is longer than a line is cut.
 *
 * @param labelOf returns the label before the first line of a segment, which counts as part of the line
 */
export function toCues(segments: readonly Segment[], labelOf: (segment: Segment) => string): Cue[] {
  return segments.flatMap((segment) => {
    const lines = breakLines(labelOf(segment) + segment.text);
    const durationMs = segment.endMs - segment.startMs;
    const screens: Line[][] = [];
    for (let at = 0; at < lines.length; at += MAX_LINES) screens.push(lines.slice(at, at + MAX_LINES));
    // Each screen lasts at least 1 ms. A segment too short for that gets one screen.
    if (screens.length > durationMs) screens.splice(0, screens.length, lines);
    const lengths = screens.map((screen) => screen.reduce((sum, { length }) => sum + length, 0));
    const whole = lengths.reduce((sum, length) => sum + length, 0);
    let shown = 0;
    let startMs = segment.startMs;
    return screens.map((screen, index): Cue => {
      shown += lengths[index] ?? 0;
      const share = segment.startMs + Math.round((durationMs * shown) / whole);
      const latestMs = segment.endMs - (screens.length - 1 - index);
      const endMs = Math.min(Math.max(share, startMs + 1), latestMs);
      const cue = { startMs, endMs, lines: screen.map(({ text }) => text) };
      startMs = endMs;
      return segment.speaker === undefined ? cue : { ...cue, speaker: segment.speaker };
    });
  });
}

/**
 * Makes the cues of segments as `toCues` does, in pieces and in the order of their starts, which WebVTT demands: a long
 * segment of one channel has cues that begin after those of another channel.
 *
 * @param segments in the order of their starts
 */
export function* cuesInOrder(
  segments: readonly Segment[],
  labelOf: (segment: Segment) => string,
): Generator<Cue[]> {
  let waiting: Cue[] = [];
  let made = 0;
  for (const slice of slicesOf(segments, ITEMS_OF_PIECE)) {
    made += slice.length;
    const cues = [...waiting, ...toCues(slice, labelOf)].sort((a, b) => a.startMs - b.startMs);
    const nextMs = segments[made]?.startMs ?? Number.POSITIVE_INFINITY;
    waiting = cues.filter(({ startMs }) => startMs > nextMs);
    yield cues.filter(({ startMs }) => startMs <= nextMs);
  }
}

/** A line and the number of its characters. */
type Line = { text: string; length: number };

/** Breaks a text into lines of at most 42 characters, each as full as possible. */
function breakLines(text: string): Line[] {
  const lines: Line[] = [];
  let line: Line = { text: "", length: 0 };
  for (const word of text.split(/\s+/u)) {
    for (const part of cutWord(word)) {
      const added = lengthOfWord(part);
      if (line.text !== "" && line.length + 1 + added > MAX_LINE_GRAPHEMES) {
        lines.push(line);
        line = { text: "", length: 0 };
      }
      line =
        line.text === ""
          ? { text: part, length: added }
          : { text: `${line.text} ${part}`, length: line.length + 1 + added };
    }
  }
  if (line.text !== "") lines.push(line);
  return lines;
}

function cutWord(word: string): string[] {
  // A grapheme has at least one code unit, so short words need no counting.
  if (word.length <= MAX_LINE_GRAPHEMES) return word === "" ? [] : [word];
  const characters = Array.from(graphemes.segment(word), ({ segment }) => segment);
  const parts: string[] = [];
  for (let at = 0; at < characters.length; at += MAX_LINE_GRAPHEMES) {
    parts.push(characters.slice(at, at + MAX_LINE_GRAPHEMES).join(""));
  }
  return parts;
}
