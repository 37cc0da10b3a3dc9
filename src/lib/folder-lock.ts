import { dlopen, FFIType } from "bun:ffi";
import { closeSync, openSync, readFileSync, statSync } from "node:fs";

/** `flock` of libc, which Bun does not offer. */
const SYMBOLS = { flock: { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 } } as const;
/** Exclusive, and without waiting (flock(2)). */
const LOCK_EX = 2;
const LOCK_NB = 4;
const ATTEMPTS = 3;

/** What became of an attempt to lock a folder. */
export type FolderLock =
  | { state: "held"; release(): void }
  | { state: "taken by another" }
  /** The folder cannot be read, or the file system or the system has no such locks. */
  | { state: "not possible" };

/**
 * Locks a folder itself, so that nothing in it needs to exist for the lock. The system releases the lock when the process
 * ends; child processes do not inherit it.
 */
export function lockFolder(path: string): FolderLock {
  const descriptor = openFolder(path);
  if (descriptor === undefined) return { state: "not possible" };
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    if (flock(descriptor)) return { state: "held", release: () => closeSync(descriptor) };
    // The result does not say why. The holder may have ended in between, so that another attempt is due.
    if (!isFolderLocked(path)) continue;
    closeSync(descriptor);
    return { state: "taken by another" };
  }
  closeSync(descriptor);
  return { state: "not possible" };
}

function openFolder(path: string): number | undefined {
  try {
    return openSync(path, "r");
  } catch {
    return undefined;
  }
}

function flock(descriptor: number): boolean {
  try {
    const { symbols, close } = dlopen("libc.so.6", SYMBOLS);
    const isHeld = symbols.flock(descriptor, LOCK_EX | LOCK_NB) === 0;
    close();
    return isHeld;
  } catch {
    return false;
  }
}

/** Reports whether a process has such a lock on a folder. The list has a line for each lock: `1: FLOCK ADVISORY WRITE PID DEVICE:INODE …`. */
export function isFolderLocked(path: string): boolean {
  try {
    const { ino } = statSync(path);
    const lock = new RegExp(`^\\d+: FLOCK .*:${ino} `, "m");
    return lock.test(readFileSync("/proc/locks", "utf8"));
  } catch {
    return false;
  }
}
