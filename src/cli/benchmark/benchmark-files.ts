import { existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { basename, extname, join, sep } from "node:path";
import { readRegularBytes } from "../../lib/regular-file.ts";
import { decodeText, TextEncodingError } from "../../lib/text-encoding.ts";
import type { ReferenceWord } from "../../pipeline/word-starts.ts";
import { CommandError } from "../frame/context.ts";
import { readCtm } from "./word-times.ts";

/** A recording and its reference transcript. */
export type BenchmarkFile = {
  name: string;
  path: string;
  transcript: string;
  /** When each word is said, where a file says so. */
  words?: ReferenceWord[];
};

/** Recordings that were found, and for each other file why it is left out. */
export type BenchmarkSet = { files: BenchmarkFile[]; leftOut: string[] };

export const TRANSCRIPTS_NAME = "transcripts.tsv";
const CTM = ".ctm";
const MAX_TRANSCRIPT_BYTES = 64 * 1024 * 1024;

/**
 * Finds the recordings of a directory and their transcripts: those that its `transcripts.tsv` names, else files with a
 * text file of the same name, such as `call.wav` and `call.txt`.
 *
 * The first line of `transcripts.tsv` names columns; `file` and `transcript` are required. The texts of several lines of
 * one file are joined: in the order of `channel` when channels are transcribed separately, then in the order of `start`.
 * If there is a column `language`, files in another language are left out. The times of words are read from a CTM file
 * beside the recording, such as `call.ctm`.
 *
 * @throws CommandError when nothing is found, or the table cannot be read
 */
export function findBenchmarkFiles(directory: string, language: string, isByChannel: boolean): BenchmarkSet {
  if (!statSync(directory, { throwIfNoEntry: false })?.isDirectory()) {
    throw new CommandError("not_found", `there is no directory ${directory}`);
  }
  const table = join(directory, TRANSCRIPTS_NAME);
  const found = existsSync(table)
    ? fromTable(directory, readText(directory, table), language, isByChannel)
    : fromTextFiles(directory);
  if (found.files.length === 0) {
    const why = found.leftOut.length === 0 ? "" : ` (${found.leftOut.length} left out: ${found.leftOut[0]})`;
    throw new CommandError(
      "not_found",
      `${directory} holds no recording with a transcript: name.txt beside it, or a line in ${TRANSCRIPTS_NAME}${why}`,
    );
  }
  return { ...found, files: found.files.map((file) => ({ ...file, ...wordsOf(directory, file) })) };
}

function wordsOf(directory: string, { path }: BenchmarkFile): Pick<BenchmarkFile, "words"> {
  const times = `${path.slice(0, path.length - extname(path).length)}${CTM}`;
  return existsSync(times) ? { words: readCtm(readText(directory, times), times) } : {};
}

function fromTextFiles(directory: string): BenchmarkSet {
  const set: BenchmarkSet = { files: [], leftOut: [] };
  const names: string[] = [];
  for (const name of readdirSync(directory).sort()) {
    if (name.startsWith(".")) continue;
    const kind = kindOfEntry(join(directory, name));
    if (kind === "file") names.push(name);
    else if (kind === "broken link") set.leftOut.push(`${name}: it is a link that leads nowhere`);
  }
  const textOf = new Map(names.filter(isText).map((name) => [withoutExtension(name).toLowerCase(), name]));
  for (const name of names) {
    if (isText(name) || extname(name).toLowerCase() === CTM) continue;
    const exact = `${withoutExtension(name)}.txt`;
    const text = names.includes(exact) ? exact : textOf.get(withoutExtension(name).toLowerCase());
    if (text === undefined) {
      set.leftOut.push(`${name}: there is no ${exact}`);
      continue;
    }
    const transcript = readText(directory, join(directory, text));
    set.files.push({ name, path: join(directory, name), transcript });
  }
  return set;
}

const isText = (name: string) => extname(name).toLowerCase() === ".txt";
const withoutExtension = (name: string) => basename(name, extname(name));

function kindOfEntry(path: string): "file" | "broken link" | "other" {
  try {
    return statSync(path).isFile() ? "file" : "other";
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ELOOP") return "broken link";
    throw error;
  }
}

type Line = { transcript: string; language: string | undefined; channel: number; start: number };

function fromTable(directory: string, text: string, language: string, isByChannel: boolean): BenchmarkSet {
  const [head = "", ...rows] = text.split(/\r\n?|\n/);
  const columns = head.split("\t").map((column) => column.trim().toLowerCase());
  const columnOf = (name: string) => columns.indexOf(name);
  for (const name of ["file", "transcript"]) {
    if (columnOf(name) === -1) {
      throw new CommandError("failed", `${TRANSCRIPTS_NAME} has no column ${name} in its first line`);
    }
  }
  const linesOf = new Map<string, Line[]>();
  for (const row of rows) {
    if (row.trim() === "") continue;
    const cells = row.split("\t");
    const cell = (name: string) => cells[columnOf(name)]?.trim() ?? "";
    const lines = linesOf.get(cell("file")) ?? [];
    lines.push({
      transcript: cell("transcript"),
      language: columnOf("language") === -1 ? undefined : cell("language"),
      channel: Number(cell("channel")) || 0,
      start: Number(cell("start")) || 0,
    });
    linesOf.set(cell("file"), lines);
  }
  const set: BenchmarkSet = { files: [], leftOut: [] };
  for (const [name, lines] of linesOf) {
    const other = lines.find((line) => line.language !== undefined && line.language !== language);
    if (other) {
      set.leftOut.push(`${name}: its language is ${other.language}`);
      continue;
    }
    lines.sort((a, b) => (isByChannel ? a.channel - b.channel : 0) || a.start - b.start);
    const transcript = lines.map((line) => line.transcript).join(" ");
    set.files.push({ name, path: join(directory, name), transcript });
  }
  return set;
}

/**
 * Reads a text in any encoding of `decodeText`. The report shows transcripts, so a link that leads out of the folder is
 * refused: the report would show another file of the user.
 *
 * @throws CommandError with the path, when it cannot be read
 */
function readText(directory: string, path: string): string {
  if (!realpathSync(path).startsWith(join(realpathSync(directory), sep)))
    throw new CommandError("failed", `${path} is a link that leads out of the folder; copy the text into it`);
  try {
    return decodeText(readRegularBytes(path, MAX_TRANSCRIPT_BYTES));
  } catch (error) {
    // Read as if it were UTF-8, its words would all count as errors of the model.
    if (error instanceof TextEncodingError) throw new CommandError("failed", `${path}: ${error.message}`);
    throw error;
  }
}
