import { lstatSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { writeDurably } from "./durable-files.ts";

/** Files that a command writes for its user. The folder may have come from another person, with links in it. */

/**
 * Creates the folders between `root` and `path`.
 *
 * @throws Error for a link or a file among them, which might lead elsewhere; the system's error
 */
export function makeFoldersBelow(root: string, path: string): void {
  let folder = resolve(root);
  mkdirSync(folder, { recursive: true });
  for (const name of relative(folder, resolve(path)).split(sep)) {
    if (name === "") continue;
    folder = join(folder, name);
    const facts = lstatSync(folder, { throwIfNoEntry: false });
    if (facts === undefined) mkdirSync(folder);
    else if (!facts.isDirectory()) throw new Error(`${folder} is not a folder; links are not followed here`);
  }
}

/**
 * Writes a file that replaces one of the same name, or a link, and not what the link leads to. A device or a pipe, such as
 * /dev/stdout, is written to.
 */
export async function writeOutput(path: string, content: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  const isOfSystem = path.startsWith("/dev/") || path.startsWith("/proc/");
  const target = found?.isSymbolicLink() && isOfSystem ? statSync(path) : found;
  if (target && !target.isFile() && !target.isSymbolicLink()) return writeFileSync(path, content);
  mkdirSync(dirname(resolve(path)), { recursive: true });
  await writeDurably(resolve(path), content, 0o666 & ~process.umask());
}
