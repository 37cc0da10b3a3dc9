import { lstatSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Folders for one command's decoded audio, in the system's temporary folder: `shruti-transcribe-<process>-…`. */
const PREFIX = "shruti-transcribe-";
/** What a killed command left behind is removed after this time; one that is stopped may go on. */
const ABANDONED_AFTER_MS = 24 * 3_600_000;

const open = new Set<string>();

/**
 * Makes an empty folder that only this user may read, and removes old ones that killed commands of the same user
 * left behind.
 *
 * @returns its absolute path
 */
export function makeScratch(): string {
  removeAbandoned(tmpdir(), Date.now());
  const directory = mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`));
  open.add(directory);
  return directory;
}

/** Removes a folder that `makeScratch` made, with everything in it. */
export function removeScratch(directory: string): void {
  rmSync(directory, { recursive: true, force: true, maxRetries: 3 });
  open.delete(directory);
}

/** Removes all that are still there: for a command that ends in the middle of its work. */
export function removeAllScratch(): void {
  for (const directory of open) {
    try {
      removeScratch(directory);
    } catch {
      // The next command tries again, a day later.
    }
  }
}

/** Removes what lies in `parent` with this module's prefix, belongs to this user, is old, and of no living process. */
export function removeAbandoned(parent: string, nowMs: number): void {
  for (const name of namesIn(parent)) {
    if (!name.startsWith(PREFIX)) continue;
    const path = join(parent, name);
    try {
      const found = lstatSync(path);
      if (!found.isDirectory() || found.uid !== process.geteuid?.()) continue;
      if (nowMs - found.mtimeMs < ABANDONED_AFTER_MS || isAlive(ownerOf(name))) continue;
      rmSync(path, { recursive: true, force: true });
    } catch {
      // Another command removes it at this moment.
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

function ownerOf(name: string): number | undefined {
  const pid = /^(\d+)-/.exec(name.slice(PREFIX.length))?.[1];
  return pid === undefined ? undefined : Number(pid);
}

/** A process of another user is not the one that made the folder. */
function isAlive(pid: number | undefined): boolean {
  if (pid === undefined) return false;
  try {
    // Signal 0 only asks.
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
