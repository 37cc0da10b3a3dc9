import { basename, dirname, extname, join } from "node:path";
import type { FolderSettings } from "../../config/folder-fields.ts";
import {
  type FileMetadataRule,
  fileMetadataRule,
  MAX_SIDECAR_CHARACTERS,
  metadataOf,
} from "../../domain/file-metadata.ts";
import type { Metadata } from "../../domain/metadata.ts";
import { decodeText, TextEncodingError } from "../../lib/text-encoding.ts";
import type { WatchedFileRow } from "../../store/watched-files.ts";
import { type CsvLine, findLine } from "./metadata-csv.ts";
import { isMissing, isThere, moveFile, removeDurably } from "./places.ts";
import { factsOf, openSource, type Source, SourceChanged } from "./source.ts";
import { FileFailure, Waiting } from "./step.ts";

/**
 * Metadata of the files of a watched folder: from their names, and from a sidecar, a small file beside each, or else from a line
 * of one CSV for many. No sentence has a file's name, because the log has them all: a name may say who called.
 */

const rules = new WeakMap<FolderSettings, ReturnType<typeof fileMetadataRule>>();

/** Returns how a watched folder's files give metadata; a problem is the rest of a sentence, which begins with a setting. */
export function metadataRuleOf(settings: FolderSettings): { rule: FileMetadataRule } | { problem: string } {
  const known = rules.get(settings);
  if (known) return known;
  const { metadata_pattern, metadata_expression, sidecar, metadata_fields } = settings;
  const checked = fileMetadataRule({
    ...(metadata_pattern === "" ? {} : { pattern: metadata_pattern }),
    ...(metadata_expression === "" ? {} : { expression: metadata_expression }),
    ...(sidecar === "none" ? {} : { sidecar }),
    ...(metadata_fields.length === 0 ? {} : { fields: Object.fromEntries(metadata_fields.map(fieldOf)) }),
  });
  rules.set(settings, checked);
  return checked;
}

/** Splits `agent=AgentId` into the name of metadata and the key beside the recording. */
export function fieldOf(text: string): [name: string, key: string] {
  const at = text.indexOf("=");
  return [text.slice(0, at), text.slice(at + 1)];
}

/** Reports whether files beside the recordings of a watched folder have metadata. */
export const hasBeside = ({ sidecar, metadata_csv }: FolderSettings): boolean =>
  sidecar !== "none" || metadata_csv !== "";

/** Reports whether metadata of a watched folder's files are asked for. */
export const givesMetadata = (settings: FolderSettings): boolean =>
  settings.metadata_pattern !== "" || settings.metadata_expression !== "" || hasBeside(settings);

/**
 * Lists the names that the sidecar of a recording can have, best first: `a.wav.json`, which belongs to no other recording, then
 * `a.json`.
 *
 * @param name path of the recording, whole or below the folder
 */
export function sidecarNames(
  name: string,
  { sidecar, metadata_csv }: Pick<FolderSettings, "sidecar" | "metadata_csv">,
): string[] {
  if (sidecar === "none") return [];
  const stem = basename(name, extname(name));
  const names = [`${name}.${sidecar}`, join(dirname(name), `${stem}.${sidecar}`)];
  // The one for all recordings of the folder does not belong to one of them.
  return names.filter((each) => basename(each) !== metadata_csv);
}

/** Finds the sidecar of a recording. @returns its name, in the form of the recording's; undefined: none is there */
export async function findSidecar(
  folder: string,
  name: string,
  settings: Pick<FolderSettings, "sidecar" | "metadata_csv">,
): Promise<string | undefined> {
  for (const each of sidecarNames(name, settings)) if (await isThere(join(folder, each))) return each;
  return undefined;
}

/** What a watched folder has for a recording beside it: its sidecar, or what `findLine` returns. */
export type FoundBeside = { sidecar: string } | CsvLine;

/**
 * Finds what is beside a recording. Its own sidecar goes before a line of a file for many.
 *
 * @param folder absolute path of the watched folder
 * @param name path of the recording below it
 * @throws as `findLine`
 */
export async function findBeside(
  folder: string,
  name: string,
  settings: FolderSettings,
): Promise<FoundBeside> {
  const sidecar = await findSidecar(folder, name, settings);
  return sidecar === undefined ? findLine(folder, name, settings) : { sidecar };
}

/**
 * Reads the metadata of a file.
 *
 * @throws FileFailure when name or sidecar are wrong; Waiting when the sidecar is not there or is being written; the system's error
 */
export async function readMetadata(row: WatchedFileRow, settings: FolderSettings): Promise<Metadata> {
  if (!givesMetadata(settings)) return {};
  const checked = metadataRuleOf(settings);
  if ("problem" in checked) throw new Waiting(`metadata_${checked.problem}`);
  const found = await findBeside(row.folder, row.name, settings);
  if (found === "unfinished") throw new Waiting("its line of metadata is being written");
  if (found === undefined && hasBeside(settings) && settings.sidecar_required) await requireRecording(row);
  const beside = found && ("values" in found ? found.values : await readSidecar(row.folder, found.sidecar));
  const read = metadataOf(basename(row.name), beside ?? null, checked.rule);
  if ("problem" in read) throw new FileFailure(`${inSentence(read.problem)}.`);
  return read.metadata;
}

/** Without its sidecar a file waits, unless it is gone itself: then both were removed after the recording was read. */
async function requireRecording({ folder, name }: WatchedFileRow): Promise<never> {
  if (await isThere(join(folder, name)))
    throw new Waiting("its sidecar, or its line of metadata, is not there");
  throw new FileFailure("It and its sidecar were removed before it was transcribed.");
}

const inSentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

async function readSidecar(folder: string, name: string): Promise<string> {
  let source: Source | undefined;
  try {
    const facts = await factsOf(join(folder, name));
    if (!facts) throw new FileFailure(`Its sidecar is not a regular file; links are not followed.`);
    if (facts.bytes > MAX_SIDECAR_CHARACTERS)
      throw new FileFailure(`Its sidecar has more than ${MAX_SIDECAR_CHARACTERS} bytes.`);
    source = await openSource({ folder, name, bytes: facts.bytes, changedUs: facts.changedUs });
    const bytes = await new Response(source.stream()).bytes();
    source.requireSame();
    return decodeText(bytes);
  } catch (error) {
    if (error instanceof TextEncodingError)
      throw new FileFailure(`Its sidecar cannot be read: ${error.message}.`);
    if (error instanceof SourceChanged || isMissing(error)) throw new Waiting(`its sidecar is being written`);
    throw error;
  } finally {
    await source?.close();
  }
}

/**
 * Moves the sidecar of a recording that was moved. It replaces nothing. After a crash, the same call completes the move. Where
 * the recording has not moved, or a new version of it is there, the sidecar stays.
 *
 * @param from path of the recording before its move
 * @param to path of the recording after its move; null: it was not moved
 * @throws Error when all names are taken; the system's error
 */
export async function moveSidecar(from: string, to: string | null, settings: FolderSettings): Promise<void> {
  if (settings.sidecar === "none" || !to || !(await isThere(to)) || (await isThere(from))) return;
  const sidecar = await findSidecar("", from, settings);
  // A link stays where it is: to another disk, what it leads to would be copied.
  if (sidecar === undefined || !(await factsOf(sidecar))) return;
  const isFull = sidecar.startsWith(`${from}.`);
  const names = sidecarNames(to, settings);
  for (const name of isFull ? names : names.toReversed()) if (await moveFile(sidecar, name)) return;
  throw new Error(`all names for the sidecar in ${dirname(to)} are taken`);
}

/** Removes the sidecar of a recording that was removed. Where a new version of the recording is there, it stays. */
export async function removeSidecar(recording: string, settings: FolderSettings): Promise<void> {
  if (settings.sidecar === "none" || (await isThere(recording))) return;
  const sidecar = await findSidecar("", recording, settings);
  if (sidecar !== undefined) await removeDurably(sidecar);
}
