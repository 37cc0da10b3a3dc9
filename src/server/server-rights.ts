import { accessSync, constants, existsSync } from "node:fs";
import type { Config } from "../config/schema.ts";
import { CommandError } from "../domain/command-error.ts";
import { AppError } from "../domain/errors.ts";
import { whenSettled } from "../lib/settled.ts";
import { dataDirOf, requireDatabase } from "../services/data-dir.ts";
import { databasePath } from "../store/database.ts";
import { sandboxAdvice } from "./service-sandbox.ts";

/** What this process knows about the service manager that has started it. */
type Environment = Record<string, string | undefined>;

/** Folders that a unit with `ProtectHome=true` shows empty. */
const HOMES = /^\/(home|root|run\/user)(\/|$)/;

/**
 * Checks that there is a database and that this user may use it. The reasons are those of a server: it may run in the
 * sandbox of its unit, where a folder is hidden or read-only although the admin's shell can write it.
 *
 * @throws CommandError `rights`; AppError `not_found` when there is no database
 */
export function requireServerRights(config: Config, environment: Environment): void {
  const dataDir = dataDirOf(config);
  try {
    requireDatabase(config);
  } catch (error) {
    const isHidden = error instanceof AppError && HOMES.test(dataDir) && isService(environment);
    if (!isHidden) throw error;
    throw new CommandError("rights", `${dataDir} is not visible to the service: ${sandboxAdvice(dataDir)}`);
  }
  const path = databasePath(dataDir);
  const { R_OK, W_OK, X_OK } = constants;
  requireAccess(dataDir, R_OK | W_OK | X_OK, dataDir);
  requireAccess(path, R_OK | W_OK, dataDir);
  for (const file of [`${path}-wal`, `${path}-shm`]) {
    const require = () => {
      if (existsSync(file)) requireAccess(file, R_OK | W_OK, dataDir);
    };
    // A command of root makes and removes them at any moment, and each is root's for an instant.
    whenSettled(require, () => true);
  }
}

function requireAccess(path: string, mode: number, dataDir: string): void {
  try {
    accessSync(path, mode);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "EROFS") {
      throw new CommandError("rights", `${path} is read-only for this process: ${sandboxAdvice(dataDir)}`);
    }
    throw new CommandError(
      "rights",
      `user ${process.geteuid?.() ?? "unknown"} may not read and write ${path} (${code}): the data directory and all files in it must belong to the server's user`,
    );
  }
}

const isService = ({ NOTIFY_SOCKET, INVOCATION_ID }: Environment) =>
  NOTIFY_SOCKET !== undefined || INVOCATION_ID !== undefined;
