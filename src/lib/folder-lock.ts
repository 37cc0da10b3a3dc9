import { FFIType, type Pointer, read } from "bun:ffi";
import { closeSync, openSync, readFileSync, statSync } from "node:fs";
import { withLibc } from "./libc.ts";

/** `flock`, and where libc puts the reason of a failure. */
const SYMBOLS = {
  flock: { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 },
  __errno_location: { args: [], returns: FFIType.ptr },
} as const;
/** Exclusive, and without waiting (flock(2)). */
const LOCK_EX = 2;
const LOCK_NB = 4;
/** Another process has the lock. */
const EWOULDBLOCK = 11;

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
  const failure = flock(descriptor);
  if (failure === 0) return { state: "held", release: () => closeSync(descriptor) };
  closeSync(descriptor);
  return { state: failure === EWOULDBLOCK ? "taken by another" : "not possible" };
}

function openFolder(path: string): number | undefined {
  try {
    return openSync(path, "r");
  } catch {
    return undefined;
  }
}

/** Locks a descriptor. Returns 0, or the reason of the failure; undefined where libc cannot be asked. */
function flock(descriptor: number): number | undefined {
  return withLibc(SYMBOLS, (symbols) => {
    const reason = symbols.__errno_location() as Pointer;
    // Nothing comes between the two calls: any call of libc may change the reason.
    return symbols.flock(descriptor, LOCK_EX | LOCK_NB) === 0 ? 0 : read.i32(reason);
  });
}

/**
 * Reports whether a process has such a lock on a folder, and takes none. The system's list has a line for each lock of
 * processes that it shows to this one: `1: FLOCK ADVISORY WRITE PID DEVICE:INODE …`.
 */
export function isFolderLocked(path: string): boolean {
  try {
    const { ino } = statSync(path);
    const lock = new RegExp(`^\\d+: FLOCK .*:${ino} `, "m");
    return lock.test(readFileSync("/proc/locks", "utf8"));
  } catch {
    return false;
  }
}
