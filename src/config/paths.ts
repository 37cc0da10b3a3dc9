import { existsSync } from "node:fs";
import { dirname, isAbsolute, resolve } from "node:path";

/** A relative path of the config, resolved. */
export type ResolvedPath = {
  path: string;
  /** What the admin should know about the choice. */
  warning?: string;
};

/**
 * Resolves a path of the config file. A relative one belongs to the file's folder, so it does not depend on the folder
 * in which a command runs. Versions up to 0.1.0 read it from the working directory. Where only that one exists, it is
 * used, with a warning: otherwise a server would start with an empty data directory after an upgrade.
 *
 * @param setting name for the warning, such as `storage.data_dir`
 * @param value not empty
 */
export function resolveConfigPath(
  setting: string,
  value: string,
  configFile: string,
  workingDirectory = process.cwd(),
): ResolvedPath {
  if (isAbsolute(value)) return { path: value };
  const path = resolve(dirname(resolve(configFile)), value);
  const former = resolve(workingDirectory, value);
  if (former === path || existsSync(path) || !existsSync(former)) return { path };
  return {
    path: former,
    warning: `${setting} = ${JSON.stringify(value)} means ${path}, because relative paths belong to the folder of ${configFile}. Nothing is there, so ${former} is used, as by earlier versions. Write the absolute path.`,
  };
}
