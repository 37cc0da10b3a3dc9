import { statSync } from "node:fs";
import { dirname } from "node:path";
import { AppError } from "../domain/errors.ts";

/**
 * Checks that the folder of a new file is there.
 *
 * @param path absolute path of the new file
 * @throws AppError `not_found`; `invalid_request` where a file has the folder's name
 */
export function requireFolderOf(path: string): void {
  const folder = dirname(path);
  let isFolder: boolean | undefined;
  try {
    isFolder = statSync(folder, { throwIfNoEntry: false })?.isDirectory();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOTDIR") throw error;
    isFolder = false;
  }
  if (isFolder === undefined) throw new AppError("not_found", { message: `There is no folder ${folder}.` });
  if (!isFolder) throw new AppError("invalid_request", { message: `${folder} is not a folder.` });
}
