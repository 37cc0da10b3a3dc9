import { dirname, join, relative } from "node:path";
import { pipeline } from "node:stream/promises";
import { parse } from "csv-parse";
import type { FolderSettings } from "../../config/folder-fields.ts";
import { csvFault, delimiterOf, fileColumnOf, valuesOfLine } from "../../domain/file-metadata.ts";
import { nextTurn } from "../../lib/in-slices.ts";
import { decodeText, TextEncodingError } from "../../lib/text-encoding.ts";
import { isMissing } from "./places.ts";
import { factsOf, openSource, SourceChanged } from "./source.ts";
import { FileFailure, Waiting } from "./step.ts";

/**
 * One CSV for all recordings of a folder (`metadata_csv`): below a line of names a line for each recording, which a column names.
 * It is read whole, once for each of its changes. What is wrong with the file itself keeps its recordings waiting, and what is
 * wrong with a line is the failure of its recording. No sentence has a recording's name, which may say who called.
 */

export const MAX_CSV_BYTES = 8 * 1024 * 1024;
const MAX_CSV_LINES = 100_000;
/** Characters that are read without a pause; a few milliseconds. */
const PIECE_CHARACTERS = 64 * 1024;
/** Files that are kept in memory: folders of recordings of one day or one line are looked at in turn. */
const MOST_KNOWN = 4;

/** The lines of a file by the recording that they name. */
type Lines = {
  names: string[];
  /** Where the names of recordings are. */
  column: number;
  /** A number: the recording has so many lines. */
  byFile: Map<string, readonly string[] | number>;
  /** The recording of the last line, where no line break follows: more of that line may come. */
  open?: string;
  /** Why only some of the lines could be read, as a sentence without its end. */
  problem?: string;
};

type Known = { bytes: number; changedUs: number; sinceMs: number; lines: Promise<Lines> };
const known = new Map<string, Known>();

/** What is known of a recording: the values of its line, or that its line may still be written; undefined: there is none. */
export type CsvLine = { values: [name: string, value: string][] } | "unfinished" | undefined;

type Settings = Pick<FolderSettings, "metadata_csv" | "complete" | "rest_seconds">;

/**
 * Finds the line of a recording, in the file of its own folder, else in that of the watched folder.
 *
 * @param folder absolute path of the watched folder
 * @param name path of the recording below it
 * @throws Waiting where such a file cannot be read; FileFailure where its line cannot; the system's error
 */
export async function findLine(folder: string, name: string, settings: Settings): Promise<CsvLine> {
  const { metadata_csv } = settings;
  if (metadata_csv === "") return undefined;
  for (const below of new Set([dirname(name), "."])) {
    const csv = join(below, metadata_csv);
    const file = await linesOf(folder, csv);
    const found = file && lineIn(file, relative(below, name), settings);
    if (found !== undefined) return found;
    if (file?.lines.problem !== undefined) throw new Waiting(`${csv}: ${file.lines.problem}`);
  }
  return undefined;
}

type Read = { lines: Lines; sinceMs: number };

function lineIn({ lines, sinceMs }: Read, file: string, { complete, rest_seconds }: Settings): CsvLine {
  const line = lines.byFile.get(file);
  if (line === undefined) return undefined;
  const restedMs = performance.now() - sinceMs;
  if (lines.open === file && complete !== "marker" && restedMs < rest_seconds * 1000) return "unfinished";
  if (typeof line === "number")
    throw new FileFailure(`The CSV of its folder has ${line} lines with its name; it needs one.`);
  const [has, needed] = [line.length, lines.names.length];
  if (has !== needed)
    throw new FileFailure(`Its line in the CSV of its folder has ${has} values; there are ${needed} names.`);
  return { values: valuesOfLine(lines.names, lines.column, line) };
}

/** Returns what a file says, as it is now; undefined: there is no such file. @throws Waiting; the system's error */
async function linesOf(folder: string, name: string): Promise<Read | undefined> {
  const path = join(folder, name);
  const facts = await factsOf(path).catch((error: unknown) => {
    if (isMissing(error)) return "missing" as const;
    throw error;
  });
  if (facts === "missing") return undefined;
  if (!facts) throw new Waiting(`${name} is not a regular file; links are not followed`);
  if (facts.bytes > MAX_CSV_BYTES) throw new Waiting(`${name} has more than ${MAX_CSV_BYTES} bytes`);
  const { bytes, changedUs } = facts;
  const before = known.get(path);
  known.delete(path);
  const isSame = before?.bytes === bytes && before.changedUs === changedUs;
  const now = isSame
    ? before
    : { bytes, changedUs, sinceMs: performance.now(), lines: readLines({ folder, name, bytes, changedUs }) };
  known.set(path, now);
  for (const each of known.keys()) if (known.size > MOST_KNOWN) known.delete(each);
  try {
    return { lines: await now.lines, sinceMs: now.sinceMs };
  } catch (error) {
    known.delete(path);
    if (error instanceof SourceChanged) throw new Waiting(`${name} is being written`);
    if (error instanceof TextEncodingError) throw new Waiting(`${name} cannot be read: ${error.message}`);
    throw error;
  }
}

async function readLines(file: Parameters<typeof openSource>[0]): Promise<Lines> {
  const source = await openSource(file);
  try {
    const bytes = await new Response(source.stream()).bytes();
    source.requireSame();
    return await parseLines(decodeText(bytes));
  } finally {
    await source.close();
  }
}

async function parseLines(text: string): Promise<Lines> {
  const lines: Lines = { names: [], column: -1, byFile: new Map() };
  let count = 0;
  let last: string | undefined;
  const take = (line: string[]) => {
    count += 1;
    if (count === 1) {
      lines.names = line;
      lines.column = fileColumnOf(line);
      if (lines.column < 0) throw new Error("none of its columns is called file");
      return;
    }
    if (count > MAX_CSV_LINES) throw new Error(`it has more than ${MAX_CSV_LINES} lines`);
    last = asPath(line[lines.column] ?? "");
    const before = lines.byFile.get(last);
    const times = typeof before === "number" ? before : before === undefined ? 0 : 1;
    lines.byFile.set(last, times === 0 ? line : times + 1);
  };
  const parser = parse({
    ...{ bom: true, delimiter: delimiterOf(text), skip_empty_lines: true, trim: true },
    relax_column_count: true,
    on_record(line: string[]) {
      take(line);
      return null;
    },
  });
  parser.resume();
  try {
    await pipeline(pieces(text), parser);
  } catch (error) {
    lines.problem = `only ${count} of its lines could be read: ${csvFault(error)}`;
  }
  if (last !== undefined && !/[\r\n]$/.test(text)) lines.open = last;
  return lines;
}

async function* pieces(text: string): AsyncGenerator<string> {
  for (let at = 0; at < text.length; at += PIECE_CHARACTERS) {
    if (at > 0) await nextTurn();
    yield text.slice(at, at + PIECE_CHARACTERS);
  }
}

/** Programs of Windows write `2026\a.wav`. */
const asPath = (text: string): string => text.replaceAll("\\", "/").replace(/^\.\//, "");
