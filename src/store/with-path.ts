const NOT_ALLOWED = /^SQLITE_(CANTOPEN|READONLY|PERM|AUTH)/;

/** Adds the path, and what to do about it, to errors of SQLite. Their code stays. */
export function withPath<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    const code = (cause as { code?: unknown }).code;
    if (typeof code !== "string" || !code.startsWith("SQLITE_")) throw cause;
    const hint = NOT_ALLOWED.test(code) ? "; the user who runs this must be able to read and write it" : "";
    const error = new Error(`${path}: ${(cause as Error).message}${hint}`, { cause });
    throw Object.assign(error, { code });
  }
}
