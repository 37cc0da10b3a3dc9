import { createWriteStream, type Dirent, lstatSync, readdirSync, statSync } from "node:fs";
import { basename, extname, join, relative } from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Glob } from "bun";
import { isRecordingExtension } from "../../domain/recording-extensions.ts";
import { plainMessage } from "../../lib/system-error.ts";
import { CommandError } from "../frame/context.ts";

/** A recording that a command reads. */
export type Input = {
  path: string;
  /** Name for people: the path as given, or `-` for standard input. */
  name: string;
  /** Path of an output file below the output folder, without its extension. */
  target: string;
};

/** The argument for standard input. */
export const STANDARD_INPUT = "-";

/**
 * Finds the recordings that arguments name: files, folders with everything below them, patterns such as `calls/*.wav`
 * (for shells that do not expand them), and `-` for standard input. Each recording comes once, files of a folder by
 * name.
 *
 * @param spool file that receives standard input
 * @param note is called with lines for the user, about what is left out
 * @throws CommandError `not_found` for a folder or a pattern without recordings, `usage` for a second `-`
 */
export async function findInputs(
  args: readonly string[],
  spool: string,
  note: (line: string) => void,
): Promise<Input[]> {
  const inputs: Input[] = [];
  for (const arg of args) inputs.push(...(await inputsOf(arg, spool, note)));
  if (inputs.filter(({ name }) => name === STANDARD_INPUT).length > 1)
    throw new CommandError("usage", "standard input can be read once");
  return [...new Map(inputs.map((input) => [input.path, input])).values()];
}

async function inputsOf(arg: string, spool: string, note: (line: string) => void): Promise<Input[]> {
  if (arg === STANDARD_INPUT) return [{ path: spool, name: STANDARD_INPUT, target: "stdin" }];
  const kind = statSync(arg, { throwIfNoEntry: false });
  if (kind?.isDirectory()) return recordingsBelow(arg, note);
  if (kind === undefined && /[*?[{]/.test(arg)) return recordingsOfPattern(arg, note);
  // A missing file is reported when it is its turn, so that the others are transcribed.
  return [{ path: arg, name: arg, target: stem(basename(arg)) }];
}

/**
 * Finds the recordings below a folder, by their extensions. A note says what else is there: other files by their
 * extensions, hidden recordings and folders, which editors and copying programs keep for incomplete files, links to
 * folders, and folders that cannot be read.
 */
function recordingsBelow(folder: string, note: (line: string) => void): Input[] {
  const names: string[] = [];
  const others: string[] = [];
  const hidden: string[] = [];
  for (const name of filesBelow(folder, "", { note, hidden }))
    (isRecording(name) ? names : others).push(name);
  if (others.length > 0)
    note(`${folder}: left out as no recordings: ${kindsOf(others)}; a file can be named itself`);
  if (hidden.length > 0) note(`${folder}: left out as hidden: ${severalOf(hidden)}`);
  if (names.length === 0) throw new CommandError("not_found", `${folder} has no recordings`);
  return names
    .sort(byName)
    .map((name) => ({ path: join(folder, name), name: join(folder, name), target: stem(name) }));
}

type Reports = {
  note: (line: string) => void;
  /** Receives the hidden recordings and folders, which are left out. */
  hidden: string[];
};

/**
 * Iterates over the files below a folder, by their paths from there. Links to folders are left out, with a note: they can
 * lead out of the folder, or in circles. So are folders below it that cannot be read.
 */
function* filesBelow(folder: string, below: string, reports: Reports): Generator<string> {
  for (const entry of entriesOf(folder, below, reports)) {
    const name = join(below, entry.name);
    if (entry.name.startsWith(".")) {
      if (entry.isDirectory() || isRecording(name)) reports.hidden.push(name);
    } else if (entry.isDirectory()) yield* filesBelow(folder, name, reports);
    else if (!entry.isSymbolicLink() || !isLinkToFolder(join(folder, name), reports.note)) yield name;
  }
}

function entriesOf(folder: string, below: string, { note }: Reports): Dirent[] {
  try {
    return readdirSync(join(folder, below), { withFileTypes: true });
  } catch (error) {
    if (below === "") throw error;
    note(`${join(folder, below)} is left out, because it cannot be read: ${plainMessage(error)}`);
    return [];
  }
}

/** Reports whether a link leads to a folder or in circles, so that it is left out, and notes it. */
function isLinkToFolder(path: string, note: (line: string) => void): boolean {
  if (!leadsToFolder(path)) return false;
  note(`${path} is a link to a folder, or in circles, and is left out; what it leads to can be named itself`);
  return true;
}

/** Counts files by their extensions, the most frequent first: `12 .txt, 1 .pdf, 1 without extension (notes)`. */
function kindsOf(names: readonly string[]): string {
  const byKind = Map.groupBy(names, (name) => extname(name).toLowerCase());
  const kinds = [...byKind].sort(([a, ofA], [b, ofB]) => ofB.length - ofA.length || byName(a, b));
  const texts = kinds.map(([extension, of]) =>
    extension === "" ? `${of.length} without extension (${severalOf(of)})` : `${of.length} ${extension}`,
  );
  return listOf(texts, "more extensions");
}

const severalOf = (names: readonly string[]) => listOf(names.toSorted(byName), "more");

/** Joins the first of many texts. */
function listOf(texts: readonly string[], more: string): string {
  const left = texts.length - MOST_IN_NOTE;
  return texts.slice(0, MOST_IN_NOTE).join(", ") + (left > 0 ? ` and ${left} ${more}` : "");
}
const MOST_IN_NOTE = 10;

/** Reports whether a link leads to a folder, or to nothing because it leads in circles. */
function leadsToFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ELOOP";
  }
}

/** Finds the files that match a pattern. Hidden ones are left out, as by a shell, and so are folders, with a note. */
async function recordingsOfPattern(pattern: string, note: (line: string) => void): Promise<Input[]> {
  const paths: string[] = [];
  const folders: string[] = [];
  for await (const path of new Glob(pattern).scan({ onlyFiles: false })) {
    const kind = lstatSync(path, { throwIfNoEntry: false });
    if (kind?.isDirectory()) folders.push(path);
    else if (!kind?.isSymbolicLink() || !isLinkToFolder(path, note)) paths.push(path);
  }
  // The pattern has been through them.
  if (folders.length > 0 && !pattern.includes("**"))
    note(`${pattern}: left out as folders: ${severalOf(folders)}; a folder can be named itself`);
  if (paths.length === 0) throw new CommandError("not_found", `no file matches ${pattern}`);
  return paths.sort(byName).map((path) => ({ path, name: relative("", path), target: stem(basename(path)) }));
}

const isRecording = (name: string) => isRecordingExtension(extname(name).slice(1));

const order = new Intl.Collator("en", { numeric: true });
const byName = (a: string, b: string) => order.compare(a, b);
const stem = (name: string) => name.slice(0, name.length - extname(name).length);

/**
 * Writes standard input to a file, because recordings are read more than once and from any position.
 *
 * @throws CommandError `usage` when it has more bytes than `maxBytes`, or none
 */
export async function spoolStandardInput(path: string, maxBytes: number): Promise<void> {
  let bytes = 0;
  const count = new Transform({
    transform(part: Uint8Array, _, next) {
      bytes += part.length;
      if (bytes <= maxBytes) return next(null, part);
      next(
        new CommandError("usage", `standard input has more than ${maxBytes} bytes (limits.max_upload_bytes)`),
      );
    },
  });
  await pipeline(process.stdin, count, createWriteStream(path, { mode: 0o600 }));
  if (bytes === 0) throw new CommandError("usage", "standard input is empty");
}
