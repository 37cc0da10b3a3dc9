import { join } from "node:path";

/**
 * The file that this process was started from. On Linux the path stays right when an update replaces or removes the file, so that
 * a child process is of the same version as its parent.
 */
export const OWN_EXECUTABLE = process.platform === "linux" ? "/proc/self/exe" : process.execPath;

/** Returns the command line that starts this program again, also where it runs from source. */
export function ownCommand(...words: readonly string[]): string[] {
  return Bun.isStandaloneExecutable
    ? [OWN_EXECUTABLE, ...words]
    : [process.execPath, join(import.meta.dir, "../main.ts"), ...words];
}
