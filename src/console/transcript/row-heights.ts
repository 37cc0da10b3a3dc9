import { directionOf } from "../words/format.ts";
import type { Row } from "./rows.ts";

/** Lengths of the rows in styles.css, in `rem` of the page and in pixels. */
const LINE_REM = 1.6;
const RIGHT_TO_LEFT_LINE_REM = 2.1;
const WHO_REM = 1.5;
const LEAST_LINE_PX = 26;
const PADDING_PX = 6;
const NEW_SPEAKER_PX = 5;
const MISSING_LINES = 3;
/** The widest text: 76 digits. */
const WIDEST_LINE_REM = 43;
const USUAL_WIDTH_PX = 800;
/** Time, mark of the doubt, and space. */
const BESIDE_TEXT_PX = 120;
const SAMPLE_LETTERS = 400;

/** Computes heights of rows before they are in the page. */
export type RowHeights = (row: Row, hasWho: boolean) => number;

/**
 * Makes the heights of a transcript's rows. Those of one line are exact, so that a list that is scrolled has nothing to
 * correct; the number of lines of longer texts is estimated from the width of a sample.
 *
 * @param width of the list, pixels; 0 before it is in the page
 */
export function rowHeights(
  width: number,
  rows: readonly Row[],
  textOf: (index: number) => string,
): RowHeights {
  const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
  const longest = Math.min(WIDEST_LINE_REM * rem, (width || USUAL_WIDTH_PX) - BESIDE_TEXT_PX);
  const letter = letterWidth(rows, rem);
  return (row, hasWho) => {
    const who = hasWho ? WHO_REM * rem + NEW_SPEAKER_PX : 0;
    if (row.kind !== "segment") return MISSING_LINES * 1.5 * rem + 12 + PADDING_PX;
    const text = textOf(row.segment.index);
    const lines = Math.max(1, Math.ceil((text.length * letter) / longest));
    const line = directionOf(row.segment.language, text) === "rtl" ? RIGHT_TO_LEFT_LINE_REM : LINE_REM;
    return Math.round(Math.max(LEAST_LINE_PX, lines * line * rem) + who + PADDING_PX);
  };
}

/** Mean width of a letter of the first segments, pixels. */
function letterWidth(rows: readonly Row[], rem: number): number {
  let sample = "";
  for (const row of rows) {
    if (sample.length > SAMPLE_LETTERS) break;
    if (row.kind === "segment") sample += `${row.segment.text} `;
  }
  const context = document.createElement("canvas").getContext("2d");
  if (!context || sample === "") return rem / 2;
  context.font = `${rem}px "Shruti Sans"`;
  return context.measureText(sample).width / sample.length;
}
