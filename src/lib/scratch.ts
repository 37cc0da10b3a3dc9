import { lstatSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { isOwnRunning } from "./is-running.ts";

/**
 * Prefix of a command's folders in the system's temporary folder: `shruti-transcribe-<process>-…`. Decoded audio and copies of
 * databases are in them, which must not stay.
 */
const PREFIX = "shruti-transcribe-";
/** Folders of killed commands are removed after this time. A command that is only stopped may continue. */
const ABANDONED_AFTER_MS = 24 * 3_600_000;

const open = new Set<string>();

/**
 * Creates an empty folder that only this user may read. Removes old folders of killed commands of the same user.
 *
 * @returns its absolute path
 */
export function makeScratch(): string {
  // A relative $TMPDIR belongs to this process's folder, and its children start in another one.
  const parent = resolve(tmpdir());
  removeAbandoned(parent, Date.now());
  const directory = mkdtempSync(join(parent, `${PREFIX}${process.pid}-`));
  open.add(directory);
  return directory;
}

/** Removes a folder that `makeScratch` made, with everything in it. */
export function removeScratch(directory: string): void {
  rmSync(directory, { recursive: true, force: true, maxRetries: 3 });
  open.delete(directory);
}

/** Removes all folders of this process, for a command that is ended in the middle of its work. */
export function removeAllScratch(): void {
  for (const directory of open) {
    try {
      removeScratch(directory);
    } catch {
      // The next command tries again, a day later.
    }
  }
}

/** Removes folders of `parent` that have this module's prefix, belong to this user, are old, and whose process is gone. */
export function removeAbandoned(parent: string, nowMs: number): void {
  for (const name of namesIn(parent)) {
    if (!name.startsWith(PREFIX)) continue;
    const path = join(parent, name);
    try {
      const found = lstatSync(path);
      if (!found.isDirectory() || found.uid !== process.geteuid?.()) continue;
      // A process of another user is not the one that made the folder.
      if (nowMs - found.mtimeMs < ABANDONED_AFTER_MS || isOwnRunning(ownerOf(name))) continue;
      rmSync(path, { recursive: true, force: true });
    } catch {
      // Another command is removing it.
    }
  }
}

function namesIn(parent: string): string[] {
  try {
    return readdirSync(parent);
  } catch {
    return [];
  }
}

/** Returns the number of the process that made a folder; not a number where its name has none. */
function ownerOf(name: string): number {
  return Number(/^(\d+)-/.exec(name.slice(PREFIX.length))?.[1]);
}
