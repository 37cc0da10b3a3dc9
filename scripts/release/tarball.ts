import { chmodSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { create } from "tar";

/**
 * Packs a folder. Equal contents give equal bytes: sorted names, one time, no owner, modes for everybody,
 * no time of compression.
 *
 * @param folder becomes the one folder in the archive, under its own name
 * @param time of all files
 */
export async function packFolder(folder: string, archive: string, time: Date): Promise<void> {
  for (const path of [folder, ...filesBelow(folder).map((name) => join(folder, name))]) {
    chmodSync(path, (statSync(path).mode & 0o100) === 0 ? 0o644 : 0o755);
  }
  const paths = [basename(folder), ...filesBelow(folder).map((path) => join(basename(folder), path))];
  const options = { portable: true, noDirRecurse: true, mtime: time, gzip: { level: 6, portable: true } };
  await create({ ...options, file: archive, cwd: dirname(folder) }, paths);
}

/** Returns the relative paths of all files and folders below a folder, folders before what is in them. */
export function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).sort();
}
