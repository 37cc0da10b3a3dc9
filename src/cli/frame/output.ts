import { printable } from "../../lib/printable.ts";

/** A cell of a table. Numbers are aligned to the right. */
export type Cell = string | number | null | undefined;

/** A column that is cut keeps at least this many characters. */
const LEAST_CUT_WIDTH = 10;
const GAP = "  ";
/** Identifiers are copied into other commands, so they are never cut. */
const IDENTIFIER = /^[a-z]+_[0-9A-Z]{26}$/;

type Shown = { text: string; isNumber: boolean };

/**
 * Renders rows under headings, in columns as wide as their content. Control characters could control the terminal, so
 * they become question marks.
 *
 * @param columns width to fit: long texts are cut, and if that is not enough, each row becomes a block of lines;
 *   undefined: any width
 */
export function renderTable(
  headings: readonly string[],
  rows: readonly (readonly Cell[])[],
  columns?: number,
): string {
  const shown = rows.map((row) =>
    row.map((cell) => ({ text: shownCell(cell), isNumber: typeof cell === "number" })),
  );
  const widths = headings.map((heading, column) =>
    Math.max(Bun.stringWidth(heading), ...shown.map((row) => Bun.stringWidth(row[column]?.text ?? ""))),
  );
  const excess = columns === undefined ? 0 : widthOf(widths) - columns;
  if (excess > 0) cutWidths(headings, shown, widths, excess);
  if (columns !== undefined && widthOf(widths) > columns && rows.length > 0)
    return renderBlocks(headings, rows);
  const heads = headings.map((text, column) => ({ text, isNumber: shown[0]?.[column]?.isNumber ?? false }));
  return `${[heads, ...shown].map((row) => renderRow(row, widths)).join("\n")}\n`;
}

const widthOf = (widths: readonly number[]) =>
  widths.reduce((sum, width) => sum + width, 0) + GAP.length * (widths.length - 1);

/** Takes the excess from the widest columns of texts first. */
function cutWidths(headings: readonly string[], rows: Shown[][], widths: number[], excess: number): void {
  const isCuttable = (column: number) =>
    rows.every((row) => !row[column]?.isNumber && !IDENTIFIER.test(row[column]?.text ?? ""));
  const least = headings.map((heading) => Math.max(LEAST_CUT_WIDTH, Bun.stringWidth(heading)));
  const cuttable = headings.map((_, column) => column).filter(isCuttable);
  for (let rest = excess; rest > 0; rest--) {
    const widest = cuttable
      .filter((column) => (widths[column] ?? 0) > (least[column] ?? 0))
      .sort((a, b) => (widths[b] ?? 0) - (widths[a] ?? 0))[0];
    if (widest === undefined) return;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
}

function renderRow(row: readonly Shown[], widths: readonly number[]): string {
  return row
    .map(({ text, isNumber }, column) => {
      const width = widths[column] ?? 0;
      const cut = cutText(text, width);
      const padding = " ".repeat(Math.max(0, width - Bun.stringWidth(cut)));
      return isNumber ? padding + cut : cut + padding;
    })
    .join(GAP)
    .trimEnd();
}

/** Cuts between characters as people see them: a letter of an Indian script keeps its marks. */
function cutText(text: string, width: number): string {
  if (Bun.stringWidth(text) <= width) return text;
  let cut = "";
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    if (Bun.stringWidth(cut + segment) > width - 1) break;
    cut += segment;
  }
  return `${cut}…`;
}

/** Renders each row as lines of heading and value, with an empty line between rows. */
function renderBlocks(headings: readonly string[], rows: readonly (readonly Cell[])[]): string {
  return rows
    .map((row) => renderFields(headings.map((heading, column) => [heading, row[column]] as const)))
    .join("\n");
}

/** Renders names and values of one thing, one per line. */
export function renderFields(fields: readonly (readonly [name: string, value: Cell])[]): string {
  const width = Math.max(...fields.map(([name]) => name.length));
  return fields.map(([name, value]) => `${name.padEnd(width)}  ${shownCell(value)}\n`).join("");
}

function shownCell(cell: Cell): string {
  return printable(String(cell ?? "–"));
}

/** Says how many of something there are, such as `1 recording` and `2 recordings`. */
export function counted(count: number, one: string, several = `${one}s`): string {
  return `${count} ${count === 1 ? one : several}`;
}

/** Writes a text as one word of a command for a shell (POSIX), such as a path with a space. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

const rupeeFormat = new Intl.NumberFormat("en-IN");

/** Renders paise exactly as rupees with Indian grouping, such as `₹1,23,456.78`. */
export function rupees(paise: number): string {
  const whole = BigInt(Math.abs(paise));
  const fraction = String(whole % 100n).padStart(2, "0");
  return `${paise < 0 ? "-" : ""}₹${rupeeFormat.format(whole / 100n)}.${fraction}`;
}

/** Renders a size with its unit, such as `1.5 GB`. */
export function sizeText(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  const value = bytes / 1000 ** power;
  return `${power === 0 ? value : value.toFixed(1)} ${units[power]}`;
}

/** Begins a sentence about keys, such as `1 key is` or `2 keys are`. */
export const keysAre = (count: number): string => counted(count, "key is", "keys are");
