import { join } from "node:path";
import { AppError } from "../domain/errors.ts";
import { type ProcessLock, takeProcessLock } from "../store/process-lock.ts";

/** Returns the path of the lock of a data directory. */
export function lockPathOf(dataDir: string): string {
  return join(dataDir, "serve.lock");
}

/**
 * Takes the lock of a data directory. Its holder is the only server there, and may upgrade the database.
 *
 * @throws AppError `conflict` when another process holds it
 */
export function lockDataDir(dataDir: string): ProcessLock {
  const lock = takeProcessLock(lockPathOf(dataDir));
  if (lock) return lock;
  throw new AppError("conflict", { message: `Another server is using the data directory ${dataDir}.` });
}
