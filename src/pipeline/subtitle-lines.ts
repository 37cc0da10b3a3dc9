import { eastAsianWidth } from "get-east-asian-width";

/** Lines of subtitles. A character is what readers take for one: "क्षि" is one. */

/** A text that no line break divides. */
export type Part = {
  text: string;
  /** In characters; those that take the place of two count as two. */
  width: number;
  /** White space stands before it, where it does not begin a line. */
  isSpaced: boolean;
  /** A word begins here, at this time of the recording. */
  startMs?: number;
};

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

function charactersOf(text: string): { text: string; width: number }[] {
  return Array.from(graphemes.segment(text), ({ segment }) => ({
    text: segment,
    width: eastAsianWidth(segment.codePointAt(0) ?? 0),
  }));
}

/** Words that a recording repeats are counted once: the segmenter takes microseconds for each, seconds for long recordings. */
const widthsOfWords = new Map<string, number>();
const MOST_WORDS = 20_000;

/** Counts characters as readers do. Those that are drawn twice as wide (UAX #11), such as Chinese ones, count as two. */
export function widthOf(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  const known = widthsOfWords.get(text);
  if (known !== undefined) return known;
  if (widthsOfWords.size >= MOST_WORDS) widthsOfWords.clear();
  const width = charactersOf(text).reduce((sum, character) => sum + character.width, 0);
  widthsOfWords.set(text, width);
  return width;
}

/** Makes parts of a word: one, or several where it is wider than a line. No character is divided. */
export function partsOfWord(word: string, isSpaced: boolean, maxWidth: number): Part[] {
  const width = widthOf(word);
  if (width <= maxWidth) return [{ text: word, width, isSpaced }];
  const parts: Part[] = [];
  for (const character of charactersOf(word)) {
    const last = parts.at(-1);
    if (last && last.width + character.width <= maxWidth) {
      last.text += character.text;
      last.width += character.width;
    } else parts.push({ ...character, isSpaced: isSpaced && last === undefined });
  }
  return parts;
}

/** The width of a line that ends with `part`, where it has `lineWidth` before. */
export const widthWith = (lineWidth: number, part: Part): number =>
  lineWidth === 0 ? part.width : lineWidth + (part.isSpaced ? 1 : 0) + part.width;

/** Breaks parts into lines, each as full as possible. */
export function fullLines(parts: readonly Part[], maxWidth: number): Part[][] {
  const lines: Part[][] = [];
  let width = 0;
  for (const part of parts) {
    const wider = widthWith(width, part);
    const line = lines.at(-1);
    if (line && wider <= maxWidth) {
      line.push(part);
      width = wider;
    } else {
      lines.push([part]);
      width = part.width;
    }
  }
  return lines;
}

/** A line may be so much wider than another, as a share of all lines, before a break after a comma is better. */
const CLAUSE_PULL = 0.2;
const CLAUSE_END = /[,;:،؛–—、，.?!।॥۔؟。！？][\])"”’]?$/u;

/** Breaks parts into as few lines as they need, of about the same width, and rather after a comma than elsewhere. */
export function balancedLines(parts: readonly Part[], maxWidth: number): Part[][] {
  const full = fullLines(parts, maxWidth);
  if (full.length < 2) return full;
  const ends = bestEnds(parts, full.length, maxWidth);
  return ends.map((end, line) => parts.slice(ends[line - 1] ?? 0, end));
}

/** Finds the numbers of parts before each line's end with which the widths differ least. */
function bestEnds(parts: readonly Part[], lines: number, maxWidth: number): number[] {
  const whole = parts.reduce((width, part) => widthWith(width, part), 0);
  const mean = whole / lines;
  const pull = (CLAUSE_PULL * mean) ** 2;
  // best[n]: the ends of the lines so far, for the first n parts.
  let best = new Map<number, { cost: number; ends: number[] }>([[0, { cost: 0, ends: [] }]]);
  for (let line = 1; line <= lines; line++) {
    const next: typeof best = new Map();
    for (const [from, { cost, ends }] of best) {
      let width = 0;
      for (let to = from + 1; to <= parts.length; to++) {
        const part = parts[to - 1] as Part;
        width = widthWith(width, part);
        if (width > maxWidth && to > from + 1) break;
        const isClause = to < parts.length && CLAUSE_END.test(part.text);
        const total = cost + (width - mean) ** 2 - (isClause ? pull : 0);
        if (total < (next.get(to)?.cost ?? Number.POSITIVE_INFINITY))
          next.set(to, { cost: total, ends: [...ends, to] });
      }
    }
    best = next;
  }
  return best.get(parts.length)?.ends ?? [parts.length];
}

/** Joins the parts of a line. */
export const textOfLine = (line: readonly Part[]): string =>
  line.map(({ text, isSpaced }, index) => (isSpaced && index > 0 ? ` ${text}` : text)).join("");
