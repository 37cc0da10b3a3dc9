import { readdirSync, readlinkSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../domain/errors.ts";
import { isFolderLocked, lockFolder } from "../lib/folder-lock.ts";
import { isLockHeld, type ProcessLock, takeProcessLock } from "../store/process-lock.ts";

/** Returns the path of the lock of a data directory. */
export function lockPathOf(dataDir: string): string {
  return join(dataDir, "serve.lock");
}

/** Reports whether a server runs on a data directory, also one that cannot write its status file. */
export function hasServer(dataDir: string): boolean {
  return isLockHeld(lockPathOf(dataDir)) || isFolderLocked(dataDir);
}

/**
 * Reports whether a process is the server of a data directory: whether it has the lock's file open. Only Linux can say it.
 */
export function isServer(pid: number, dataDir: string): boolean {
  const folder = `/proc/${pid}/fd`;
  try {
    const lock = realpathSync(lockPathOf(dataDir));
    return readdirSync(folder).some((name) => linkOf(join(folder, name)) === lock);
  } catch {
    return false;
  }
}

function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    // The process has closed it meanwhile.
    return undefined;
  }
}

/**
 * Takes the lock of a data directory. Its holder is the only server there, and may upgrade the database. The directory
 * itself is locked beside the file: who deletes the file does not let another server in.
 *
 * @throws AppError `conflict` when another process holds it
 */
export function lockDataDir(dataDir: string): ProcessLock {
  const taken = new AppError("conflict", {
    message: `Another server is using the data directory ${dataDir}.`,
  });
  const folder = lockFolder(dataDir);
  if (folder.state === "taken by another") throw taken;
  const releaseFolder = folder.state === "held" ? folder.release : () => {};
  try {
    const file = takeProcessLock(lockPathOf(dataDir));
    if (!file) throw taken;
    let isReleased = false;
    return {
      release() {
        // A second release could close a file that has got the same number since.
        if (isReleased) return;
        isReleased = true;
        file.release();
        releaseFolder();
      },
    };
  } catch (error) {
    releaseFolder();
    throw error;
  }
}
