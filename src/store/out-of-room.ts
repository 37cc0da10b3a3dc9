/** A disk without room or a used-up quota, as SQLite and the operating system say it. */
const CODES: ReadonlySet<unknown> = new Set([
  "SQLITE_FULL",
  // The index of the write-ahead log could not be made larger.
  "SQLITE_IOERR_SHMSIZE",
  // Every refused write but ENOSPC: a quota that is used up, or a broken disk, which waits for somebody just the same.
  "SQLITE_IOERR_WRITE",
  "ENOSPC",
  "EDQUOT",
]);
/** Errors wrap each other a few times; a chain that ends in itself must not be followed for ever. */
const MAX_CAUSES = 8;

/** The process or the machine has as many files and connections open as it may (`ulimit -n`). */
const FILE_CODES: ReadonlySet<unknown> = new Set(["EMFILE", "ENFILE"]);

/**
 * Whether something failed because the disk has no room: no fault of a request or a recording, and over as soon as
 * somebody makes room.
 */
export function isOutOfRoom(error: unknown): boolean {
  // A decoder that met the full disk says so in its own word.
  return someCause(error, ({ code, reason }) => CODES.has(code) || reason === "no_room");
}

/** Whether something failed because no further file can be opened: over as soon as some requests have ended. */
export function isOutOfFiles(error: unknown): boolean {
  return someCause(error, ({ code }) => FILE_CODES.has(code));
}

type Coded = Error & { code?: unknown; reason?: unknown };

function someCause(error: unknown, isIt: (error: Coded) => boolean): boolean {
  let current = error;
  for (let depth = 0; depth < MAX_CAUSES && current instanceof Error; depth += 1) {
    if (isIt(current)) return true;
    current = current.cause;
  }
  return false;
}
