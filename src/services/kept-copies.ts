import { rmSync } from "node:fs";
import { rm } from "node:fs/promises";
import { basename } from "node:path";
import type { Config } from "../config/schema.ts";
import { type Ages, isOver } from "../domain/clock-trust.ts";
import type { Clock } from "../lib/clock.ts";
import { isId } from "../lib/ids.ts";
import type { Log } from "../lib/log.ts";
import { DAY_MS } from "../lib/time.ts";
import { audioFilePath } from "../store/audio-files.ts";
import { removeAbandonedCopies } from "../store/backup.ts";
import { deleteContentIn, holdsOrganization, uploadsIn } from "../store/copied-content.ts";
import { type Database, transaction } from "../store/database.ts";
import { type KeptCopy, listRestoreCopies, listUpgradeCopies } from "../store/kept-copies.ts";
import { rowsOnce } from "../store/once.ts";
import { findSetting, putSetting, SETTING_NAMES } from "../store/settings.ts";

/** Older databases beside the database: deletions reach them as well, and their time ends. */

type Deps = { database: Database; clock: Clock; log: Log };

const BATCH = 200;

/** Lists all of them. */
export function keptCopiesOf(databaseFile: string): KeptCopy[] {
  return [...listRestoreCopies(databaseFile), ...listUpgradeCopies(databaseFile)];
}

/** How many copies were removed, because their time was over. */
export type RemovedCopies = { restoreCopiesRemoved: number; upgradeCopiesRemoved: number };

/**
 * Removes the copies whose time is over (`[retention]`), and what a killed restore has left. Only the server calls it.
 *
 * @param ages what is old now; undefined while the clock is in doubt
 */
export function removeOldCopies(
  { database, log, config }: Deps & { config: Config },
  ages: Ages | undefined,
): RemovedCopies {
  const abandoned = removeAbandonedCopies(database.path, true);
  if (abandoned > 0) log.info({ files: abandoned }, "what a killed restore has left is removed");
  const removeOlder = (copies: KeptCopy[], days: number) => {
    if (days === 0 || !ages) return 0;
    const old = copies.filter(({ atMs }) => isOver(atMs, atMs + days * DAY_MS + 1, ages));
    for (const { path } of old) {
      rmSync(path, { force: true });
      log.info({ file: path }, "an older database is removed: its time is over");
    }
    return old.length;
  };
  const { restore_copies_days, upgrade_copies_days } = config.retention;
  return {
    restoreCopiesRemoved: removeOlder(listRestoreCopies(database.path), restore_copies_days),
    upgradeCopiesRemoved: removeOlder(listUpgradeCopies(database.path), upgrade_copies_days),
  };
}

/** How far the receipts were followed in each copy, by its name: the number of the last row, or `FAILED`. */
type Followed = Record<string, number>;
const FAILED = -1;

/**
 * Deletes in the kept copies what was deleted in the database since they were made. Each call continues where the one
 * before has ended, so that most calls find nothing to do.
 */
export async function followDeletions({ database, clock, log }: Deps): Promise<void> {
  const copies = keptCopiesOf(database.path);
  if (copies.length === 0) return;
  const followed = { ...(findSetting(database.store, SETTING_NAMES.followedCopies) as Followed | undefined) };
  for (const { path } of copies) {
    const before = followed[basename(path)] ?? 0;
    followed[basename(path)] = await followIn(database, path, Math.max(0, before)).catch((error) => {
      const fields = { err: error, file: path };
      // It is tried again each minute.
      if (before !== FAILED)
        log.warn(fields, "an older database cannot be changed; deletions do not reach it");
      return FAILED;
    });
    if (followed[basename(path)] === before) continue;
    const names = new Set(copies.map((copy) => basename(copy.path)));
    const value = Object.fromEntries(Object.entries(followed).filter(([name]) => names.has(name)));
    transaction(database.store, (tx) => putSetting(tx, SETTING_NAMES.followedCopies, value, clock.now()));
  }
}

async function followIn({ sqlite }: Database, path: string, begin: number): Promise<number> {
  let last = begin;
  for (;;) {
    const rows = rowsOnce<{ row: number; object: string }>(
      sqlite,
      "SELECT rowid AS row, object FROM receipts WHERE rowid > ? ORDER BY rowid LIMIT ?",
      ...[last, BATCH],
    );
    const ids = rows.map(({ object }) => object).filter((object) => isId("transcription", object));
    if (ids.length > 0) deleteContentIn(path, ids);
    last = rows.at(-1)?.row ?? last;
    if (rows.length < BATCH) return last;
    await Bun.sleep(0);
  }
}

/** Copies that a purge has removed, and those that it could not. */
export type PurgedCopies = { removed: string[]; kept: { path: string; reason: string }[] };

/**
 * Removes the older databases that hold an organization's content, with its recordings that only they know, and what a
 * killed restore has left. A copy that cannot be read is removed, too.
 */
export async function removeCopiesWith(
  databaseFile: string,
  dataDir: string,
  organizationId: string,
): Promise<PurgedCopies> {
  const outcome: PurgedCopies = { removed: [], kept: [] };
  removeAbandonedCopies(databaseFile);
  for (const { path } of keptCopiesOf(databaseFile)) {
    try {
      if (await isFree(path, dataDir, organizationId)) continue;
      await rm(path, { force: true });
      outcome.removed.push(path);
    } catch (error) {
      outcome.kept.push({ path, reason: (error as Error).message });
    }
  }
  return outcome;
}

/** Reports whether a copy holds nothing of an organization. Otherwise, its recordings are removed. */
async function isFree(path: string, dataDir: string, organizationId: string): Promise<boolean> {
  try {
    if (!holdsOrganization(path, organizationId)) return true;
    for (const ids of uploadsIn(path, organizationId)) {
      for (const id of ids) if (isId("upload", id)) await rm(audioFilePath(dataDir, id), { force: true });
    }
  } catch (error) {
    if (!String((error as { code?: unknown }).code).startsWith("SQLITE_")) throw error;
  }
  return false;
}
