/** One row of the table "Modules" of src/README.md. */
export type ImportRow = {
  /** A folder of src, or a file in it. */
  place: string;
  /** Folders (`lib`) and single files (`store/process-lock`, without its ending) that the place may import. */
  mayImport: readonly string[];
};

/**
 * Reads the import table of src/README.md. Its rows look like `| folder/ | what | lib, engine (executor, workers/pool) |`.
 * The last column has names with commas between them, each alone for a whole folder or with some of its files in brackets; `–` means nothing.
 *
 * @returns the rows from top to bottom; rows with "anything" are left out
 * @throws Error where the table is missing or a row has another form
 */
export function readImportTable(readme: string): ImportRow[] {
  const [, table] = readme.split("| Folder | What | May import |\n|---|---|---|\n");
  if (table === undefined) throw new Error("src/README.md has no import table");
  const lines = table.split("\n");
  return lines
    .slice(0, lines.indexOf(""))
    .map(readRow)
    .filter(({ mayImport }) => mayImport[0] !== "anything");
}

function readRow(line: string): ImportRow {
  const [, places = "", , allowed = "", rest] = line.split(/(?:^|\s)\|(?:\s|$)/);
  const [, place] = /^`([\w.-]+?)\/?`/.exec(places) ?? [];
  if (place === undefined || allowed === "" || rest !== "") throw new Error(`not a row: ${line}`);
  return { place, mayImport: allowed === "–" ? [] : readNames(allowed, line) };
}

function readNames(allowed: string, line: string): string[] {
  return allowed.split(/, (?![^(]*\))/).flatMap((each) => {
    const [, folder, files] = /^([\w-]+)(?: \(([^()]+)\))?$/.exec(each) ?? [];
    if (folder === undefined) throw new Error(`not a list of places: ${each} in ${line}`);
    return files === undefined ? [folder] : files.split(", ").map((file) => `${folder}/${file}`);
  });
}
