import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";

/** Older databases that a data directory keeps beside the database, so that a restore or an upgrade can be undone. */
export type KeptCopy = {
  path: string;
  /** When it was made, epoch milliseconds. */
  atMs: number;
};

/** Lists the databases that restores have replaced. A database in memory has none. */
export function listRestoreCopies(databaseFile: string): KeptCopy[] {
  return list(databaseFile, /^\.before-(.+)$/);
}

/** Lists the copies from before upgrades. A database in memory has none. */
export function listUpgradeCopies(databaseFile: string): KeptCopy[] {
  return list(databaseFile, /^\.version-\d{4}\.(.+)$/);
}

/** Reports whether a name is that of a copy from before an upgrade. */
export function isUpgradeCopy(databaseFile: string, name: string): boolean {
  const base = basename(databaseFile);
  return (
    name.startsWith(base) &&
    atMsOf(/^\.version-\d{4}\.(.+)$/.exec(name.slice(base.length))?.[1]) !== undefined
  );
}

function list(databaseFile: string, pattern: RegExp): KeptCopy[] {
  if (databaseFile === ":memory:") return [];
  const [folder, base] = [dirname(databaseFile), basename(databaseFile)];
  return readdirSync(folder).flatMap((name) => {
    const stamp = name.startsWith(base) ? pattern.exec(name.slice(base.length))?.[1] : undefined;
    const atMs = atMsOf(stamp);
    return atMs === undefined ? [] : [{ path: join(folder, name), atMs }];
  });
}

/** Reads a time such as `2026-11-26T14-03-07-123Z`; undefined for any other text. */
function atMsOf(stamp: string | undefined): number | undefined {
  const [, day, ...time] = /^(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)-(\d{3})Z$/.exec(stamp ?? "") ?? [];
  const atMs = Date.parse(`${day}T${time.slice(0, 3).join(":")}.${time[3]}Z`);
  return Number.isFinite(atMs) ? atMs : undefined;
}
