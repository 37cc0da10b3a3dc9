import { readdir } from "node:fs/promises";
import { basename, dirname, extname, join, resolve } from "node:path";
import type { FolderSettings } from "../../config/folder-fields.ts";
import { sameUnfinishedPath, writeDurably } from "../../lib/durable-files.ts";
import { recordAct } from "../../store/audit-log.ts";
import { gatedTransaction, type Store } from "../../store/database.ts";
import { deleteWatchedFile, moveWatchedFile, type WatchedFileRow } from "../../store/watched-files.ts";
import { deviceOf, isMissing, isThere, makeFolderOf, moveFile, removeDurably } from "./places.ts";
import { moveSidecar, removeSidecar } from "./sidecar.ts";
import { factsOf } from "./source.ts";
import { Abandoned, type StepDeps, Waiting } from "./step.ts";

/** What becomes of a file once its results are written, or once it has failed. */

/** Names that are tried where a file is moved to. */
const MOST_NAMES = 1000;
/** Rights of a text with a reason. */
const REASON_MODE = 0o640;

/** Brings a file whose results are written to where it belongs. Returns the row in its last state. */
export async function finishFile(
  deps: StepDeps,
  row: WatchedFileRow,
  settings: FolderSettings,
): Promise<WatchedFileRow> {
  if (settings.after === "keep") return deps.move(row, "done");
  if (settings.after === "move") {
    const moved = await moveAway(deps, row, resolve(settings.move_to));
    await moveSidecar(join(row.folder, row.name), moved.movedTo, settings);
    await removeMarker(settings, row);
    return deps.move(moved, "done");
  }
  const isThere = await isStillThere(row);
  // With the intention noted, a file that is gone was removed by this server, before a crash.
  const isOurs = isThere || row.movedTo !== null;
  const intended = row.movedTo === null && isThere ? await deps.move(row, "written", { movedTo: "" }) : row;
  if (isThere) await removeDurably(join(row.folder, row.name));
  if (isOurs) await removeSidecar(join(row.folder, row.name), settings);
  await removeMarker(settings, row);
  return gatedTransaction(deps.database, (tx) => {
    const done = moveWatchedFile(tx, intended, "done", deps.clock.now());
    if (!done) throw new Abandoned();
    if (isOurs) recordDeletion(tx, done, deps.clock.now());
    return done;
  });
}

/** The name of the file is not in the audit log, which is never changed: it may say who called. */
function recordDeletion(tx: Store, row: WatchedFileRow, nowMs: number): void {
  const { number, organizationId, transcriptionId, sha256, bytes } = row;
  const after = { transcription_id: transcriptionId, sha256, bytes };
  const act = { action: "watched_file.delete", object: `watched file ${number}`, organizationId } as const;
  recordAct(tx, { ...act, after }, nowMs);
}

/**
 * Reports whether the file is there, and still the one that was read.
 *
 * @throws Waiting where something else, or nothing, is mounted at the folder: the file may be there later
 */
async function isStillThere(row: WatchedFileRow): Promise<boolean> {
  try {
    const facts = await factsOf(join(row.folder, row.name));
    return facts?.bytes === row.bytes && facts.changedUs === row.changedUs;
  } catch (error) {
    if (!isMissing(error)) throw error;
    await requireMounted(row);
    return false;
  }
}

/** @throws Waiting where the folder is another one than before, and empty */
export async function requireMounted({
  folder,
  device,
}: Pick<WatchedFileRow, "folder" | "device">): Promise<void> {
  if ((await deviceOf(folder)) === device || (await readdir(folder)).length > 0) return;
  throw new Waiting(`${folder} is empty and another folder than before: is its disk mounted?`);
}

/**
 * Moves a file into a folder, under its path there, where it replaces nothing. Where the file is gone or was changed
 * meanwhile, nothing is moved.
 */
async function moveAway(deps: StepDeps, row: WatchedFileRow, to: string): Promise<WatchedFileRow> {
  const from = join(row.folder, row.name);
  let moved = row;
  for (const name of namesFor(row.name)) {
    const target = join(to, name);
    const isChosen = moved.movedTo === target;
    if (moved.movedTo !== null && !isChosen) continue;
    if (!(await isStillThere(row))) return moved;
    await makeFolderOf(target, to);
    if (!isChosen && (await isThere(target))) continue;
    if (!isChosen) moved = await deps.move(moved, moved.state, { movedTo: target });
    if (await moveFile(from, target)) return moved;
    // Another program has taken the name at this moment.
    moved = await deps.move(moved, moved.state, { movedTo: null });
  }
  throw new Error(`all names for ${row.name} in ${to} are taken`);
}

function* namesFor(name: string): Generator<string> {
  yield name;
  const extension = extname(name);
  const stem = basename(name, extension);
  for (let at = 2; at < MOST_NAMES; at++) yield join(dirname(name), `${stem}-${at}${extension}`);
}

async function removeMarker(settings: FolderSettings, { folder, name }: WatchedFileRow): Promise<void> {
  if (settings.complete === "marker") await removeDurably(`${join(folder, name)}.done`);
}

/** Returns where the reason of a failed file is written; undefined: only the database has it. */
function reasonPath(settings: FolderSettings, { name }: WatchedFileRow): string | undefined {
  return settings.failures === "" ? undefined : join(resolve(settings.failures), `${name}.reason.txt`);
}

/** Writes why a file has failed, and moves the file there, too, unless it stays where it is. */
export async function failFile(
  deps: StepDeps,
  row: WatchedFileRow,
  settings: FolderSettings,
): Promise<WatchedFileRow> {
  const path = reasonPath(settings, row);
  if (path === undefined) return deps.move(row, "failed");
  const to = resolve(settings.failures);
  await makeFolderOf(path, to);
  await writeDurably(path, `${row.reason ?? ""}\n`, REASON_MODE, await sameUnfinishedPath(path));
  if (settings.after === "keep") return deps.move(row, "failed");
  const moved = await moveAway(deps, row, to);
  await moveSidecar(join(row.folder, row.name), moved.movedTo, settings);
  await removeMarker(settings, row);
  return deps.move(moved, "failed");
}

/** Puts a failed file back where it was, and forgets it, so that it is taken again. */
export async function putBack(
  deps: StepDeps,
  row: WatchedFileRow,
  settings: FolderSettings,
): Promise<undefined> {
  const path = join(row.folder, row.name);
  if (row.movedTo && (await isThere(row.movedTo))) {
    await makeFolderOf(path, row.folder);
    // A newer file of the name is taken anyway, and the failed one stays where it is.
    const isBack = await moveFile(row.movedTo, path);
    if (isBack) await moveSidecar(row.movedTo, path, settings);
  }
  const reason = reasonPath(settings, row);
  if (reason !== undefined) await removeDurably(reason);
  if (settings.complete === "marker" && (await isThere(path)))
    await writeDurably(`${path}.done`, "", REASON_MODE);
  await gatedTransaction(deps.database, (tx) => deleteWatchedFile(tx, row));
  return undefined;
}
