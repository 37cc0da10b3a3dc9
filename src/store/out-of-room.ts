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

/**
 * Whether something failed because the disk has no room: no fault of a request or a recording, and over as soon as
 * somebody makes room.
 */
export function isOutOfRoom(error: unknown): boolean {
  let current = error;
  for (let depth = 0; depth < MAX_CAUSES && current instanceof Error; depth += 1) {
    const { code, reason } = current as { code?: unknown; reason?: unknown };
    // A decoder that met the full disk says so in its own word.
    if (CODES.has(code) || reason === "no_room") return true;
    current = current.cause;
  }
  return false;
}
