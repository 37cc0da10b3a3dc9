/** A cell of a table; numbers are set flush right. */
export type Cell = string | number | null | undefined;

/**
 * Rows under their headings, in columns as wide as they need to be. Control characters, which could steer a
 * terminal, are shown as a question mark.
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

/** Names and values of one thing, one below the other. */
export function renderFields(fields: readonly (readonly [name: string, value: Cell])[]): string {
  const width = Math.max(...fields.map(([name]) => name.length));
  return fields.map(([name, value]) => `${name.padEnd(width)}  ${printable(value)}\n`).join("");
}

function printable(cell: Cell): string {
  return String(cell ?? "–").replaceAll(/\p{Cc}/gu, "?");
}

/**
 * One line of CSV (RFC 4180). A text that a spreadsheet would take for a formula gets an apostrophe in front
 * (OWASP, "CSV Injection"); numbers are written as they are.
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

/** Paise as rupees with Indian grouping, exact: `₹1,23,456.78`. */
export function rupees(paise: number): string {
  const whole = BigInt(Math.abs(paise));
  const fraction = String(whole % 100n).padStart(2, "0");
  return `${paise < 0 ? "-" : ""}₹${rupeeFormat.format(whole / 100n)}.${fraction}`;
}
