import { accessSync, constants } from "node:fs";
import { dirname } from "node:path";
import { whenSettled } from "../lib/settled.ts";

const NOT_ALLOWED = /^SQLITE_(CANTOPEN|READONLY|PERM|AUTH)/;

/** Reports whether a code of SQLite says that this user may not use the file. */
export const isNotAllowed = (code: unknown): boolean => typeof code === "string" && NOT_ALLOWED.test(code);

/** Adds the path, and what to do about it, to errors of SQLite. Their code stays. */
export function withPath<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    const code = (cause as { code?: unknown }).code;
    if (typeof code !== "string" || !code.startsWith("SQLITE_")) throw cause;
    const advice = process.geteuid?.() === 0 ? "" : ": run the command with sudo";
    const hint = isNotAllowed(code)
      ? `; the user who runs this must be able to read and write it${advice}`
      : "";
    const error = new Error(`${path}: ${(cause as Error).message}${hint}`, { cause });
    throw Object.assign(error, { code });
  }
}

/**
 * Does the same as `withPath` for the first use of a file. A command of root makes the files of the write-ahead log at
 * any moment, and SQLite gives them to the owner of the database only an instant later.
 */
export function withSettledPath<T>(path: string, work: () => T): T {
  return withPath(path, () => whenSettled(work, (error) => cannotOpen(error) && isAllowed(path)));
}

const cannotOpen = (error: unknown) =>
  String((error as { code?: unknown } | null)?.code).startsWith("SQLITE_CANTOPEN");

/** Reports whether this user may use the database and its folder; then another file was in the way. */
function isAllowed(path: string): boolean {
  const { R_OK, W_OK, X_OK } = constants;
  try {
    accessSync(path, R_OK | W_OK);
    accessSync(dirname(path), R_OK | W_OK | X_OK);
    return true;
  } catch {
    return false;
  }
}
