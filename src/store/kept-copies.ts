import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fromFileStamp } from "../lib/time.ts";

/** Older databases that a data directory keeps beside the database, so that a restore or an upgrade can be undone. */
export type KeptCopy = {
  path: string;
  /** When it was made, epoch milliseconds. */
  atMs: number;
};

const RESTORE = /^\.before-(.+)$/;
const UPGRADE = /^\.version-\d{4}\.(.+)$/;

/** Lists the databases that restores have replaced. A database in memory has none. */
export function listRestoreCopies(databaseFile: string): KeptCopy[] {
  return list(databaseFile, RESTORE);
}

/** Lists the copies from before upgrades. A database in memory has none. */
export function listUpgradeCopies(databaseFile: string): KeptCopy[] {
  return list(databaseFile, UPGRADE);
}

/** Reports whether a name is that of a copy from before an upgrade. */
export function isUpgradeCopy(databaseFile: string, name: string): boolean {
  return atMsOf(databaseFile, name, UPGRADE) !== undefined;
}

function list(databaseFile: string, pattern: RegExp): KeptCopy[] {
  if (databaseFile === ":memory:") return [];
  const folder = dirname(databaseFile);
  return readdirSync(folder).flatMap((name) => {
    const atMs = atMsOf(databaseFile, name, pattern);
    return atMs === undefined ? [] : [{ path: join(folder, name), atMs }];
  });
}

/** Reads the time in a copy's name; undefined for other names. */
function atMsOf(databaseFile: string, name: string, pattern: RegExp): number | undefined {
  const base = basename(databaseFile);
  const stamp = name.startsWith(base) ? pattern.exec(name.slice(base.length))?.[1] : undefined;
  const atMs = Date.parse(fromFileStamp(stamp ?? "") ?? "");
  return Number.isFinite(atMs) ? atMs : undefined;
}
