import { createWriteStream, readdirSync, statSync } from "node:fs";
import { basename, extname, join, relative } from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Glob } from "bun";
import { CommandError } from "./context.ts";

/** A recording that a command reads. */
export type Input = {
  path: string;
  /** Name for people: the path as given, or `-` for standard input. */
  name: string;
  /** Path of an output file below the output folder, without its extension. */
  target: string;
};

/** Extensions of files that are taken from a folder. A file that is named itself may have any. */
const EXTENSIONS = [
  ...[
    "wav",
    "mp3",
    "m4a",
    "aac",
    "flac",
    "ogg",
    "oga",
    "opus",
    "wma",
    "amr",
    "aif",
    "aiff",
    "caf",
    "au",
    "gsm",
  ],
  ...["mp4", "m4v", "mov", "mkv", "webm", "avi", "3gp", "3gpp", "mpg", "mpeg", "ts", "mts", "wmv", "flv"],
];

/** The argument for standard input. */
export const STANDARD_INPUT = "-";

/**
 * Finds the recordings that arguments name: files, folders with everything below them, patterns such as `calls/*.wav`
 * (for shells that do not expand them), and `-` for standard input. Each recording comes once, files of a folder by
 * name.
 *
 * @param spool file that receives standard input
 * @param note is called with a line for the user, about links that are left out
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
    throw new CommandError("usage", "Standard input can be read once.");
  return [...new Map(inputs.map((input) => [input.path, input])).values()];
}

async function inputsOf(arg: string, spool: string, note: (line: string) => void): Promise<Input[]> {
  if (arg === STANDARD_INPUT) return [{ path: spool, name: STANDARD_INPUT, target: "stdin" }];
  const kind = statSync(arg, { throwIfNoEntry: false });
  if (kind?.isDirectory()) return recordingsBelow(arg, note);
  if (kind === undefined && /[*?[{]/.test(arg)) return recordingsOfPattern(arg);
  // A missing file is reported when it is its turn, so that the others are transcribed.
  return [{ path: arg, name: arg, target: stem(basename(arg)) }];
}

function recordingsBelow(folder: string, note: (line: string) => void): Input[] {
  const names = [...filesBelow(folder, "", note)].filter(isRecording).sort(byName);
  if (names.length === 0) throw new CommandError("not_found", `${folder} has no recordings.`);
  return names.map((name) => ({ path: join(folder, name), name: join(folder, name), target: stem(name) }));
}

/**
 * Iterates over the files below a folder, by their paths from there. Links to folders are left out, with a note: they can
 * lead out of the folder, or in circles. So are hidden folders.
 */
function* filesBelow(folder: string, below: string, note: (line: string) => void): Generator<string> {
  for (const entry of readdirSync(join(folder, below), { withFileTypes: true })) {
    const name = join(below, entry.name);
    if (entry.name.startsWith(".")) continue;
    if (entry.isDirectory()) yield* filesBelow(folder, name, note);
    else if (!entry.isSymbolicLink()) yield name;
    else if (leadsToFolder(join(folder, name))) {
      note(
        `${join(folder, name)} is a link to a folder, or in circles, and is left out; what it leads to can be named itself`,
      );
    } else yield name;
  }
}

/** Reports whether a link leads to a folder, or to nothing because it leads in circles. */
function leadsToFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ELOOP";
  }
}

async function recordingsOfPattern(pattern: string): Promise<Input[]> {
  const paths = (await Array.fromAsync(new Glob(pattern).scan({ onlyFiles: true }))).sort(byName);
  if (paths.length === 0) throw new CommandError("not_found", `No file matches ${pattern}.`);
  return paths.map((path) => ({ path, name: relative("", path), target: stem(basename(path)) }));
}

/** Hidden files and folders are left out: editors and copying programs keep incomplete files there. */
const isRecording = (name: string) =>
  EXTENSIONS.includes(extname(name).slice(1).toLowerCase()) &&
  !name.split("/").some((part) => part.startsWith("."));

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
        new CommandError(
          "usage",
          `Standard input has more than ${maxBytes} bytes (limits.max_upload_bytes).`,
        ),
      );
    },
  });
  await pipeline(process.stdin, count, createWriteStream(path, { mode: 0o600 }));
  if (bytes === 0) throw new CommandError("usage", "Standard input is empty.");
}
