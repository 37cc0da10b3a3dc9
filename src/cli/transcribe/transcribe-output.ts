import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname, extname, join, resolve } from "node:path";
import { writeDurably } from "../../lib/durable-files.ts";
import { makeFoldersBelow } from "../../lib/output-files.ts";
import { printableJson } from "../../lib/printable.ts";
import { plainMessage } from "../../lib/system-error.ts";
import type { Format } from "../../pipeline/render.ts";
import { OUTPUT_FORMATS, type OutputFormat } from "../frame/choices.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import type { Input } from "./transcribe-inputs.ts";

const EXTENSIONS: Record<OutputFormat, string> = {
  ...{ text: "txt", json: "json", jsonl: "jsonl", srt: "srt", vtt: "vtt", ctm: "ctm" },
};

/** Where the transcripts go. */
export type Destination = {
  format: OutputFormat;
  /** Returns the file of a transcript; undefined: standard output. */
  fileOf(input: Input): string | undefined;
  /** The folder that the user has given; undefined: one file, or standard output. */
  folder?: string;
};

/**
 * Chooses format and files. `output` is a folder, or a file name with the extension of a format, such as `call.srt`,
 * which then chooses the format unless one is given.
 *
 * @throws CommandError `usage` when one file would get several transcripts, or standard output several subtitles, and when
 *   `output` is a file of another kind; `rights` when nothing can be written there
 */
export function chooseDestination(
  inputs: readonly Input[],
  given: { output?: string; format?: OutputFormat },
): Destination {
  const { output } = given;
  const ofFile = output === undefined || isFolder(output) ? undefined : formatOfFile(output);
  const format = given.format ?? ofFile ?? "text";
  if (output === undefined) {
    if (inputs.length > 1 && (format === "srt" || format === "vtt"))
      throw new CommandError(
        "usage",
        "give --output DIR: subtitles of several recordings need a file for each",
      );
    return { format, fileOf: () => undefined };
  }
  requireWritable(output, ofFile === undefined);
  if (ofFile !== undefined) {
    if (inputs.length > 1)
      throw new CommandError(
        "usage",
        `${output} is one file, and there are ${inputs.length} recordings; give a folder`,
      );
    return { format, fileOf: () => output };
  }
  const fileOf = ({ target }: Input) => join(output, `${target}.${EXTENSIONS[format]}`);
  requireOwnFiles(inputs, fileOf);
  return { format, fileOf, folder: output };
}

const isFolder = (path: string) => existsSync(path) && statSync(path).isDirectory();

/** Finds out before the work what would fail after it. Folders that are not there are made when they are needed. */
function requireWritable(output: string, isForFolder: boolean): void {
  let nearest = isForFolder ? resolve(output) : dirname(resolve(output));
  while (!existsSync(nearest)) nearest = dirname(nearest);
  if (!isFolder(nearest))
    throw new CommandError(
      "usage",
      nearest === resolve(output)
        ? `${output} is a file: give a folder, or a file name that ends as its format does, such as call.srt`
        : `${output} cannot be written: ${nearest} is a file, not a folder`,
    );
  try {
    accessSync(nearest, constants.W_OK);
  } catch (error) {
    throw new CommandError("rights", `${output} cannot be written: ${plainMessage(error)}`);
  }
}

function formatOfFile(path: string): OutputFormat | undefined {
  const extension = extname(path).slice(1);
  return OUTPUT_FORMATS.find((format) => EXTENSIONS[format] === extension);
}

function requireOwnFiles(inputs: readonly Input[], fileOf: (input: Input) => string): void {
  const taken = new Map<string, string>();
  for (const input of inputs) {
    const file = fileOf(input);
    const other = taken.get(file);
    if (other !== undefined)
      throw new CommandError("usage", `${other} and ${input.name} would both be written to ${file}`);
    taken.set(file, input.name);
  }
}

/** Reports whether a transcript is there already. A transcript is written whole, so its file is complete. */
export function hasTranscript({ fileOf }: Destination, input: Input): boolean {
  const file = fileOf(input);
  return file !== undefined && existsSync(file);
}

/** The transcript of a recording, rendered by the pipeline. */
export type Rendered = (format: Format) => string;

/**
 * Writes a transcript to its file, or prints it. On standard output several transcripts have their names: a heading for
 * text, a field `file` for JSON, which is then one line for each.
 */
export async function writeTranscript(
  context: CliContext,
  { format, fileOf, folder }: Destination,
  input: Input,
  isOneOfSeveral: boolean,
  render: Rendered,
): Promise<void> {
  const file = fileOf(input);
  const isLine = format === "json" && isOneOfSeveral && file === undefined;
  const content =
    format === "jsonl" || isLine
      ? jsonLine({ file: input.name, ...JSON.parse(render("json")) })
      : render(format === "text" ? "txt" : format);
  if (file === undefined) {
    const heading = isOneOfSeveral && format === "text" ? `==> ${input.name} <==\n` : "";
    // A file of words may have none.
    const isWhole = content.endsWith("\n") || format === "ctm";
    context.io.out(heading + (isWhole ? content : `${content}\n`));
    return;
  }
  makeFoldersBelow(folder ?? dirname(file), dirname(file));
  await writeDurably(file, content, 0o666 & ~process.umask());
  context.note(file);
}

/** Prints why a recording has no transcript, where each recording is a line. */
export function writeFailure(
  context: CliContext,
  { format, fileOf }: Destination,
  input: Input,
  isOneOfSeveral: boolean,
  reason: string,
): void {
  const isLine = format === "jsonl" || (format === "json" && isOneOfSeveral);
  if (isLine && fileOf(input) === undefined) context.io.out(jsonLine({ file: input.name, error: reason }));
}

const jsonLine = (value: object) => `${printableJson(value)}\n`;
