/** A cell of CSV. */
type Cell = string | number | null | undefined;

/**
 * Renders one line of CSV (RFC 4180). A text that a spreadsheet would read as a formula gets an apostrophe in front
 * (OWASP, "CSV Injection"). Numbers stay as they are.
 */
export function csvLine(cells: readonly Cell[]): string {
  return `${cells.map(csvCell).join(",")}\r\n`;
}

function csvCell(cell: Cell): string {
  if (cell === null || cell === undefined) return "";
  if (typeof cell === "number") return String(cell);
  const text = /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Output is written in parts of about this many characters. */
const PORTION = 64 * 1024;

/** Joins lines to larger parts, which are written one after the other. */
export function* portions(lines: Iterable<string>): Generator<string> {
  let portion = "";
  for (const line of lines) {
    portion += line;
    if (portion.length < PORTION) continue;
    yield portion;
    portion = "";
  }
  if (portion !== "") yield portion;
}
