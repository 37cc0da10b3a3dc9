/** A full disk or a used-up quota, in the operating system's codes. */
const FULL_DISK_CODES = ["ENOSPC", "EDQUOT"];

/** The same in SQLite's codes. */
const FULL_DATABASE_CODES = [
  "SQLITE_FULL",
  // The index of the write-ahead log could not be made larger.
  "SQLITE_IOERR_SHMSIZE",
  // SQLite's code for each refused write but ENOSPC: a used-up quota, or a broken disk, which an admin must repair too.
  "SQLITE_IOERR_WRITE",
];

const FULL_CODES: ReadonlySet<unknown> = new Set([...FULL_DISK_CODES, ...FULL_DATABASE_CODES]);

/**
 * A write into a plain file that the disk refused. To the client of an upload, a file that may not grow (EFBIG) and a
 * broken disk (EIO) are the same as a full one: it sends the bytes again later. Other work does not wait for those.
 */
const REFUSED_WRITE_CODES: ReadonlySet<unknown> = new Set([...FULL_DISK_CODES, "EFBIG", "EIO"]);

/** What an admin does about a full disk, as the second half of a sentence. */
export const SPACE_ADVICE =
  "`shruti storage` shows what it is used for, `shruti storage prune` removes old recordings";

/** The system or SQLite refuses to write, or to open for writing, what belongs to the server: an admin must repair it. */
const REFUSED_ACCESS_CODES: ReadonlySet<unknown> = new Set([
  ...["EACCES", "EPERM", "EROFS"],
  ...["SQLITE_READONLY", "SQLITE_READONLY_DBMOVED", "SQLITE_READONLY_DIRECTORY"],
]);

/** Errors wrap each other a few times. The bound ends the search in a chain that leads back to itself. */
const MAX_CAUSES = 8;

/** The process or the machine has as many files and connections open as it may (`ulimit -n`). */
const FILE_LIMIT_CODES: ReadonlySet<unknown> = new Set(["EMFILE", "ENFILE"]);

/**
 * Reports whether work failed because the disk has no space. The request and the recording are not at fault, and the work
 * succeeds once an admin has made space.
 */
export function isDiskFull(error: unknown): boolean {
  // A DecodeError carries `disk_full` as its reason.
  return someCause(error, ({ code, reason }) => FULL_CODES.has(code) || reason === "disk_full");
}

/** Reports whether the disk refused to write an upload's bytes. Looks at the error itself, not at its causes. */
export function isRefusedWrite(error: unknown): boolean {
  return error instanceof Error && REFUSED_WRITE_CODES.has((error as Coded).code);
}

/** Reports whether work failed because a file or folder may not be used, such as one of another owner. */
export function isRefusedAccess(error: unknown): boolean {
  return someCause(error, ({ code }) => REFUSED_ACCESS_CODES.has(code));
}

/** Reports whether work failed because no further file can be opened. It succeeds once other requests have ended. */
export function isOutOfFiles(error: unknown): boolean {
  return someCause(error, ({ code }) => FILE_LIMIT_CODES.has(code));
}

/**
 * Reports whether work failed because another program holds a lock on the database. It succeeds once that program has
 * ended its transaction.
 */
export function isLocked(error: unknown): boolean {
  return someCause(error, ({ code }) => typeof code === "string" && code.startsWith("SQLITE_BUSY"));
}

/** Reports whether an admin, or another program, is what accepted work waits for: it must not fail because of this. */
export function isWaitedOut(error: unknown): boolean {
  return isDiskFull(error) || isLocked(error);
}

/** Names the lasting state of the machine that an error reports, for the log; undefined: it reports none. */
export function lastingState(error: unknown): string | undefined {
  if (isDiskFull(error)) return "the disk is full";
  if (isLocked(error)) return "the database is locked";
  if (isRefusedAccess(error)) return "a file or folder may not be used";
  return isOutOfFiles(error) ? "too many files are open" : undefined;
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
