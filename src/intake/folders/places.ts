import { constants } from "node:fs";
import { copyFile, link, lstat, mkdir, realpath, rm, stat, unlink, utimes } from "node:fs/promises";
import { dirname, join } from "node:path";
import { moveDurably, sameUnfinishedPath, syncPath } from "../../lib/durable-files.ts";

/** Files and folders outside the data directory, which others change at the same time. */

/** Returns the code of an error of the system, such as `ENOENT`; an empty text for any other error. */
export function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" ? code : "";
}

/** Reports whether an error says that a file is not there. */
export const isMissing = (error: unknown): boolean => ["ENOENT", "ENOTDIR"].includes(codeOf(error));

/** Says which folder is at a path: another one means that something else is mounted there. @throws the system's error */
export async function deviceOf(folder: string): Promise<string> {
  const facts = await stat(folder, { bigint: true });
  if (!facts.isDirectory()) throw new Error(`${folder} is not a folder`);
  return `${facts.dev}:${facts.ino}`;
}

/**
 * Makes sure of the folder of a file below a root, and that no link leads elsewhere.
 *
 * @param path of the file, below `root`
 * @throws Error when a link leads out of the root; the system's error, also when the root is not there
 */
export async function makeFolderOf(path: string, root: string): Promise<void> {
  const real = await realpath(root);
  const folder = dirname(path);
  if (folder !== root) await mkdir(folder, { recursive: true });
  const wanted = join(real, folder.slice(root.length));
  if ((await realpath(folder)) !== wanted && folder !== root)
    throw new Error(`${folder} leads elsewhere; links are not followed here`);
}

/** Reports whether something has a name, also a link that leads nowhere. @throws the system's error */
export async function isThere(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/** Codes of file systems that have no hard links. */
const NO_LINKS = ["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK"];

/**
 * Moves a file, and replaces nothing. After a crash, the same call completes the move. Both names are on the disk afterwards.
 *
 * @returns false when another file has the name
 * @throws the system's error
 */
export async function moveFile(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
  } catch (error) {
    const code = codeOf(error);
    if (code === "EEXIST") {
      if (!(await isSameFile(from, to))) return false;
    } else if (code === "EXDEV") return moveByCopy(from, to);
    else if (NO_LINKS.includes(code)) {
      if (await isThere(to)) return false;
      await moveDurably(from, to);
      return true;
    } else throw error;
  }
  await unlink(from);
  await syncPath(dirname(to));
  await syncPath(dirname(from));
  return true;
}

async function isSameFile(left: string, right: string): Promise<boolean> {
  const [one, other] = await Promise.all([lstat(left, { bigint: true }), lstat(right, { bigint: true })]);
  return one.dev === other.dev && one.ino === other.ino;
}

/** Moves a file to another file system. A crash leaves it under one of the names, or whole under both. */
async function moveByCopy(from: string, to: string): Promise<boolean> {
  const before = await lstat(from);
  const there = await lstat(to).catch(() => undefined);
  // What an interrupted move has copied has the same size and time of change.
  if (there && (there.size !== before.size || there.mtimeMs !== before.mtimeMs)) return false;
  if (!there) {
    const unfinished = await sameUnfinishedPath(to);
    try {
      await copyFile(from, unfinished, constants.COPYFILE_EXCL);
      await utimes(unfinished, before.atime, before.mtime);
      await moveDurably(unfinished, to);
    } finally {
      await rm(unfinished, { force: true });
    }
  }
  await unlink(from);
  await syncPath(dirname(from));
  return true;
}

/** Removes a file if it is there, and brings that to the disk. */
export async function removeDurably(path: string): Promise<void> {
  await rm(path, { force: true });
  await syncPath(dirname(path)).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
}
