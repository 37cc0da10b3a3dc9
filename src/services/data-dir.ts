import { accessSync } from "node:fs";
import { resolve } from "node:path";
import type { Config } from "../config/schema.ts";
import { AppError } from "../domain/errors.ts";
import { databasePath } from "../store/database.ts";

/** Returns the data directory, absolute. A relative one begins at the working directory. */
export function dataDirOf(config: Config): string {
  return resolve(config.storage.data_dir);
}

/**
 * Returns the path of an existing database. Only `shruti init` creates one: a mistyped directory, or one whose disk is
 * not mounted, must not become an empty service.
 *
 * @throws AppError `not_found` when there is none; Error when this user may not read its directory
 */
export function requireDatabase(config: Config): string {
  const path = databasePath(dataDirOf(config));
  try {
    accessSync(path);
    return path;
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code !== "ENOENT" && code !== "ENOTDIR")
      throw new Error(`${path} cannot be reached by this user (${code}); run the command with sudo`, {
        cause,
      });
  }
  throw new AppError("not_found", {
    message: `There is no database ${path}; \`shruti init\` makes one, --config names another.`,
  });
}
