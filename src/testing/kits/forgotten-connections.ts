import { existsSync } from "node:fs";
import { AppError } from "../../domain/errors.ts";
import { requireUnused } from "../../store/backup.ts";

/**
 * Waits until this process has no connection to a database. SQLite keeps a closed one open until its last statement is
 * garbage-collected. A restore needs the database for itself, and a command of its own process has no such statements.
 */
export async function closeForgotten(path: string): Promise<void> {
  // The collector keeps what the stack seems to name, so one collection may not be enough.
  for (let tries = 0; tries < 100; tries++) {
    await Bun.sleep(1);
    Bun.gc(true);
    if (isUnused(path)) return;
  }
}

/** Nothing, and a file that SQLite cannot read, have no connections. */
function isUnused(path: string): boolean {
  if (!existsSync(path)) return true;
  try {
    requireUnused(path);
    return true;
  } catch (error) {
    return !(error instanceof AppError);
  }
}
