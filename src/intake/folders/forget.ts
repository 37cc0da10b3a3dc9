import { opendir } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Ages } from "../../domain/clock-trust.ts";
import { type Database, gatedTransaction } from "../../store/database.ts";
import { deleteWatchedFile, listEndedFiles, type WatchedFileRow } from "../../store/watched-files.ts";
import { deviceOf, isMissing, isThere } from "./places.ts";
import { factsOf } from "./source.ts";

const BATCH = 200;

/**
 * Forgets files that have ended before some time and do not lie in their folder any more. One that lies there is
 * remembered, because it would be taken again; so is one that could come back because its disk is not mounted now, and a
 * failed one that lies in the folder of failures, which an admin can still put back.
 *
 * @param stopping ends the work after the file at hand
 * @returns how many were forgotten
 */
export async function forgetOldFiles(
  database: Database,
  endedBefore: Ages,
  stopping: AbortSignal,
): Promise<number> {
  const folders = new Map<string, FolderFacts>();
  let forgotten = 0;
  for (let after = 0; ; ) {
    const batch = listEndedFiles(database.store, endedBefore, after, BATCH);
    const gone: WatchedFileRow[] = [];
    for (const row of batch) {
      if (stopping.aborted) return forgotten;
      const folder = folders.get(row.folder) ?? (await factsOfFolder(row.folder));
      folders.set(row.folder, folder);
      if (await mayReturn(row)) continue;
      if (await lies(row)) folder.isProven = true;
      else if (row.movedTo === null && (await mayBeUnmounted(row))) continue;
      else if (row.movedTo !== null || row.device === folder.device) gone.push(row);
      else folder.doubtful.push({ number: row.number, state: row.state });
    }
    forgotten += await forget(database, gone);
    after = batch.at(-1)?.number ?? after;
    if (batch.length < BATCH) break;
  }
  for (const { isProven, doubtful } of folders.values()) {
    if (!isProven) continue;
    for (let at = 0; at < doubtful.length; at += BATCH)
      forgotten += await forget(database, doubtful.slice(at, at + BATCH));
  }
  return forgotten;
}

type Forgotten = Pick<WatchedFileRow, "number" | "state">;

type FolderFacts = {
  /** Which folder is there now; undefined: none can be read. */
  device: string | undefined;
  /** A file that was taken from it lies there: it is the same folder, although a restart may have given its disk another number. */
  isProven: boolean;
  /** Files that are not there, in a folder that may be another one than when they were taken. */
  doubtful: Forgotten[];
};

async function factsOfFolder(folder: string): Promise<FolderFacts> {
  const device = await deviceOf(folder).catch(() => undefined);
  return { device, isProven: false, doubtful: [] };
}

/** Reports whether a failed file lies where it was moved to. */
const mayReturn = async ({ state, movedTo }: WatchedFileRow): Promise<boolean> =>
  state === "failed" && movedTo !== null && movedTo !== "" && (await isThere(movedTo).catch(() => true));

/** Reports whether the file lies in its folder as it was taken. One that cannot be looked at counts as there. */
async function lies({ folder, name, bytes, changedUs }: WatchedFileRow): Promise<boolean> {
  try {
    const facts = await factsOf(join(folder, name));
    return facts?.bytes === bytes && facts.changedUs === changedUs;
  } catch (error) {
    return !isMissing(error);
  }
}

/** Reports whether a disk may be missing below the folder: the place where it is mounted is then there, and empty. */
async function mayBeUnmounted({ folder, name }: WatchedFileRow): Promise<boolean> {
  try {
    let at = dirname(join(folder, name));
    while (at !== folder && !(await isThere(at))) at = dirname(at);
    return at !== folder && (await isEmpty(at));
  } catch {
    return true;
  }
}

async function isEmpty(folder: string): Promise<boolean> {
  for await (const _ of await opendir(folder)) return false;
  return true;
}

/** Forgets files that are still in the state in which they were seen. */
const forget = (database: Database, rows: readonly Forgotten[]): Promise<number> | number =>
  rows.length === 0
    ? 0
    : gatedTransaction(database, (tx) => rows.filter((row) => deleteWatchedFile(tx, row)).length);
