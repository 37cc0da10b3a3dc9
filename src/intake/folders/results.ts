import { lstat } from "node:fs/promises";
import { basename, dirname, extname, join, resolve } from "node:path";
import type { FolderSettings } from "../../config/folder-fields.ts";
import type { TranscriptionResult } from "../../domain/result.ts";
import { sameUnfinishedPath, writeDurably } from "../../lib/durable-files.ts";
import { bytesOfPieces } from "../../lib/text-pieces.ts";
import { type Format, type ResultInfo, resultPieces } from "../../pipeline/render.ts";
import type { Store } from "../../store/database.ts";
import { listResultOwners, type WatchedFileRow } from "../../store/watched-files.ts";
import { isMissing, isThere, makeFolderOf } from "./places.ts";

/** Names that are tried for the results of one file. */
const MOST_NAMES = 100;
/** Rights of results whose recording is gone. */
const USUAL_MODE = 0o640;

/** Returns the folder of the results of a watched folder. */
export const resultsFolder = ({ path, results }: FolderSettings): string => resolve(results || path);

/** Lists the names that the results of a file can have, best first: `call`, then `call.wav`, then `call.wav-2`. */
export function resultNames(name: string): string[] {
  const base = basename(name);
  const stem = basename(base, extname(base));
  const further = Array.from({ length: MOST_NAMES }, (_, at) => `${base}-${at + 2}`);
  return [...new Set([stem, base, ...further])].map((each) => join(dirname(name), each));
}

/**
 * Chooses a name for the results of a file. Results of an earlier version of the same file are replaced; a file of any other
 * origin never is.
 *
 * @throws Error when all names are taken; the system's error
 */
export async function chooseResultName(
  store: Store,
  row: WatchedFileRow,
  settings: FolderSettings,
): Promise<string> {
  const names = resultNames(row.name);
  for (const name of names) {
    const owner = ownerOf(store, row, name);
    if (owner === "another") continue;
    if (owner === "this" || (await isFree(settings, name))) return name;
  }
  throw new Error(`all names for the results of ${row.name} are taken`);
}

/** Reports to whom a name of results belongs: to this file or an earlier version of it, to another one, or to none. */
export function ownerOf(store: Store, row: WatchedFileRow, name: string): "this" | "another" | "none" {
  const owners = listResultOwners(store, row.folder, [name]);
  if (owners.some((owner) => owner.name !== row.name)) return "another";
  return owners.length > 0 ? "this" : "none";
}

async function isFree(settings: FolderSettings, name: string): Promise<boolean> {
  for (const format of settings.formats)
    if (await isThere(join(resultsFolder(settings), `${name}.${format}`))) return false;
  return true;
}

/**
 * Writes the results of a file, each whole or not at all. They are on the disk afterwards. Who may read the recording may
 * read them.
 *
 * @param row its result name is set
 * @throws the system's error, such as that of a full disk: then it can be called again
 */
export async function writeResults(
  row: Pick<WatchedFileRow, "folder" | "name"> & { resultName: string },
  settings: FolderSettings,
  result: TranscriptionResult,
  info: ResultInfo,
): Promise<void> {
  const root = resultsFolder(settings);
  const mode = await modeOf(join(row.folder, row.name));
  for (const format of new Set(settings.formats)) {
    const path = join(root, `${row.resultName}.${format}`);
    await makeFolderOf(path, root);
    const bytes = await bytesOfPieces(await resultPieces(result, format as Format, info));
    await writeDurably(path, bytes, mode, await sameUnfinishedPath(path));
  }
}

async function modeOf(path: string): Promise<number> {
  try {
    return ((await lstat(path)).mode & 0o666) | 0o600;
  } catch (error) {
    if (isMissing(error)) return USUAL_MODE;
    throw error;
  }
}
