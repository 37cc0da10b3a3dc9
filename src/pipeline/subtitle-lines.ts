import { eastAsianWidth } from "get-east-asian-width";

/** Lines of subtitles. A character is what readers take for one: "क्षि" is one. */

/** A text that no line break divides. */
export type LinePiece = {
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

/** Makes pieces of a word: one, or several where it is wider than a line. No character is divided. */
export function piecesOfWord(word: string, isSpaced: boolean, maxWidth: number): LinePiece[] {
  const width = widthOf(word);
  if (width <= maxWidth) return [{ text: word, width, isSpaced }];
  const pieces: LinePiece[] = [];
  for (const character of charactersOf(word)) {
    const last = pieces.at(-1);
    if (last && last.width + character.width <= maxWidth) {
      last.text += character.text;
      last.width += character.width;
    } else pieces.push({ ...character, isSpaced: isSpaced && last === undefined });
  }
  return pieces;
}

/** The width of a line that ends with `piece`, where it has `lineWidth` before. */
export const widthWith = (lineWidth: number, piece: LinePiece): number =>
  lineWidth === 0 ? piece.width : lineWidth + (piece.isSpaced ? 1 : 0) + piece.width;

/** Breaks pieces into lines, each as full as possible. */
export function fullLines(pieces: readonly LinePiece[], maxWidth: number): LinePiece[][] {
  const lines: LinePiece[][] = [];
  let width = 0;
  for (const piece of pieces) {
    const wider = widthWith(width, piece);
    const line = lines.at(-1);
    if (line && wider <= maxWidth) {
      line.push(piece);
      width = wider;
    } else {
      lines.push([piece]);
      width = piece.width;
    }
  }
  return lines;
}

/** A line may be so much wider than another, as a share of all lines, before a break after a comma is better. */
const CLAUSE_PULL = 0.2;
const CLAUSE_END = /[,;:،؛–—、，.?!।॥۔؟。！？][\])"”’]?$/u;

/** Breaks pieces into as few lines as they need, of about the same width, and rather after a comma than elsewhere. */
export function balancedLines(pieces: readonly LinePiece[], maxWidth: number): LinePiece[][] {
  const full = fullLines(pieces, maxWidth);
  if (full.length < 2) return full;
  const ends = bestEnds(pieces, full.length, maxWidth);
  return ends.map((end, line) => pieces.slice(ends[line - 1] ?? 0, end));
}

/** Finds the numbers of pieces before each line's end with which the widths differ least. */
function bestEnds(pieces: readonly LinePiece[], lines: number, maxWidth: number): number[] {
  const whole = pieces.reduce((width, piece) => widthWith(width, piece), 0);
  const mean = whole / lines;
  const pull = (CLAUSE_PULL * mean) ** 2;
  // best[n]: the ends of the lines so far, for the first n pieces.
  let best = new Map<number, { cost: number; ends: number[] }>([[0, { cost: 0, ends: [] }]]);
  for (let line = 1; line <= lines; line++) {
    const next: typeof best = new Map();
    for (const [from, { cost, ends }] of best) {
      let width = 0;
      for (let to = from + 1; to <= pieces.length; to++) {
        const piece = pieces[to - 1] as LinePiece;
        width = widthWith(width, piece);
        if (width > maxWidth && to > from + 1) break;
        const isClause = to < pieces.length && CLAUSE_END.test(piece.text);
        const total = cost + (width - mean) ** 2 - (isClause ? pull : 0);
        if (total < (next.get(to)?.cost ?? Number.POSITIVE_INFINITY))
          next.set(to, { cost: total, ends: [...ends, to] });
      }
    }
    best = next;
  }
  return best.get(pieces.length)?.ends ?? [pieces.length];
}

/** Joins the pieces of a line. */
export const textOfLine = (line: readonly LinePiece[]): string =>
  line.map(({ text, isSpaced }, index) => (isSpaced && index > 0 ? ` ${text}` : text)).join("");
