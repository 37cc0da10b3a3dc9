/** A cell of a table. Numbers are aligned to the right. */
export type Cell = string | number | null | undefined;

/**
 * Renders rows under headings, in columns as wide as their content. Control characters could control the terminal, so
 * they become question marks.
 */
export function renderTable(headings: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const texts = rows.map((row) =>
    row.map((cell) => ({ text: printable(cell), right: typeof cell === "number" })),
  );
  const widths = headings.map((heading, column) =>
    Math.max(Bun.stringWidth(heading), ...texts.map((row) => Bun.stringWidth(row[column]?.text ?? ""))),
  );
  const line = (cells: { text: string; right: boolean }[]) =>
    cells
      .map(({ text, right }, column) => {
        const padding = " ".repeat(Math.max(0, (widths[column] ?? 0) - Bun.stringWidth(text)));
        return right ? padding + text : text + padding;
      })
      .join("  ")
      .trimEnd();
  const heads = headings.map((text, column) => ({ text, right: texts[0]?.[column]?.right ?? false }));
  return `${[heads, ...texts].map(line).join("\n")}\n`;
}

/** Renders names and values of one thing, one per line. */
export function renderFields(fields: readonly (readonly [name: string, value: Cell])[]): string {
  const width = Math.max(...fields.map(([name]) => name.length));
  return fields.map(([name, value]) => `${name.padEnd(width)}  ${printable(value)}\n`).join("");
}

function printable(cell: Cell): string {
  return String(cell ?? "–").replaceAll(/\p{Cc}/gu, "?");
}

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

const rupeeFormat = new Intl.NumberFormat("en-IN");

/** Renders paise exactly as rupees with Indian grouping, such as `₹1,23,456.78`. */
export function rupees(paise: number): string {
  const whole = BigInt(Math.abs(paise));
  const fraction = String(whole % 100n).padStart(2, "0");
  return `${paise < 0 ? "-" : ""}₹${rupeeFormat.format(whole / 100n)}.${fraction}`;
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
