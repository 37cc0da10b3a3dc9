import { accessSync, constants, realpathSync, statSync } from "node:fs";
import { isAbsolute } from "node:path";

/** A setting names a program that cannot be run here. The message begins with the setting. */
export class ProgramFileError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ProgramFileError";
  }
}

/**
 * Resolves the path of a program that a setting names. Its file must be readable, because its hash is part of what
 * machines of a fleet compare.
 *
 * @returns the path without links, by which the kernel names its processes
 * @throws ProgramFileError for a relative path, and for anything but a file that this user may read and run
 */
export function requireProgram(setting: string, path: string): string {
  if (!isAbsolute(path)) throw new ProgramFileError(`${setting}: ${path} is not an absolute path`);
  try {
    accessSync(path, constants.R_OK | constants.X_OK);
    const program = realpathSync(path);
    if (statSync(program).isFile()) return program;
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new ProgramFileError(`${setting}: ${path} cannot be run (${code})`, { cause });
  }
  throw new ProgramFileError(`${setting}: ${path} is not a program`);
}
