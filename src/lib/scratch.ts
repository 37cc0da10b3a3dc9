import { lstatSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

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
      if (nowMs - found.mtimeMs < ABANDONED_AFTER_MS || isAlive(ownerOf(name))) continue;
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

function ownerOf(name: string): number | undefined {
  const pid = /^(\d+)-/.exec(name.slice(PREFIX.length))?.[1];
  return pid === undefined ? undefined : Number(pid);
}

/** A process of another user is not the one that made the folder. */
function isAlive(pid: number | undefined): boolean {
  if (pid === undefined) return false;
  try {
    // Signal 0 only checks that the process exists.
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
