import { existsSync, lstatSync } from "node:fs";
import { isReadable, kindOf } from "../lib/regular-file.ts";

const IN_WORKING_DIRECTORY = "./shruti.toml";
const OF_THE_SYSTEM = "/etc/shruti/shruti.toml";

/** The config file that was found, and how. */
export type FoundConfig = {
  /** undefined: there is none. */
  path: string | undefined;
  /**
   * No option and no variable names the file: it is in the folder in which the command runs. A customer's folder of
   * recordings may have such a file, too.
   */
  isFromWorkingDirectory: boolean;
  /** Sentences about files of the usual places that are not used. */
  leftOut: string[];
};

/**
 * Finds the config file when no option names one (docs/decisions/commands.md). `./shruti.toml` counts only when it is a
 * regular file that belongs to this user and that no other user can write.
 *
 * @param skipsUnreadable leaves files out that this user may not read
 */
export function findConfigFile(
  environment: Record<string, string | undefined>,
  { skipsUnreadable = false } = {},
): FoundConfig {
  const leftOut: string[] = [];
  const named = environment.SHRUTI_CONFIG;
  if (named) return { path: named, isFromWorkingDirectory: false, leftOut };
  for (const path of [IN_WORKING_DIRECTORY, OF_THE_SYSTEM]) {
    if (!existsSync(path)) continue;
    const isFromWorkingDirectory = path === IN_WORKING_DIRECTORY;
    const reason =
      skipsUnreadable && !isReadable(path)
        ? "cannot be read by this user, so it is not used."
        : isFromWorkingDirectory
          ? reasonForDistrust(path)
          : undefined;
    if (reason === undefined) return { path, isFromWorkingDirectory, leftOut };
    leftOut.push(`${path} ${reason}`);
  }
  return { path: undefined, isFromWorkingDirectory: false, leftOut };
}

/** Says why a file of the working directory is not trusted to be this user's; undefined: it is. */
function reasonForDistrust(path: string): string | undefined {
  const { geteuid, getegid } = process;
  if (!geteuid || !getegid) return undefined;
  const facts = lstatSync(path);
  const others = 0o002;
  const group = 0o020;
  const reason = !facts.isFile()
    ? `is ${kindOf(facts)}, not a regular file`
    : facts.uid !== geteuid()
      ? `belongs to user ${facts.uid}`
      : (facts.mode & others) !== 0 || ((facts.mode & group) !== 0 && facts.gid !== getegid())
        ? "can be written by other users"
        : undefined;
  return reason && `${reason}, so it is not used; --config ${path} would use it.`;
}
