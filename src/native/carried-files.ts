import {
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { join, sep } from "node:path";
import { createFile, isUnfinishedName, syncPathNow, unfinishedPath } from "../lib/durable-files.ts";
import { makeFolder } from "../lib/give-to-owner.ts";
import { sha256Hex } from "../lib/sha256.ts";

/** One file that the executable carries. */
export type CarriedFile = {
  name: string;
  /** Path of the file compressed with zstd. */
  packed: string;
  /** Size and SHA-256 of the file itself. */
  bytes: number;
  sha256: string;
  executable: boolean;
};

/** A carried file does not have the contents that it had when the executable was built. */
export class DamagedFileError extends Error {}

/** An unfinished copy of this age was left by a process that was killed, and is removed. */
const ABANDONED_AFTER_MS = 60 * 60 * 1000;

/**
 * Copies files into a folder below `root`, unless that folder is complete already, and removes folders of other
 * versions that no process uses.
 *
 * @param root folder of all versions; it is created when it is missing
 * @param hash hex digest over all files; its first 12 digits name the folder
 * @param isTrusted false: another person may have prepared the folder, so all contents are checked
 * @returns the folder's path; it holds copies of `files`
 * @throws DamagedFileError, or the file system's error
 */
export async function copyCarriedFiles(
  root: string,
  hash: string,
  files: CarriedFile[],
  isTrusted: boolean,
): Promise<string> {
  const dir = join(root, hash.slice(0, 12));
  const isRight = isTrusted ? isComplete : isUnchanged;
  if (!isTrusted) requireRealFolder(root);
  if (!isRight(dir, files)) {
    makeFolder(root, 0o700);
    await placeCopy(root, dir, files, isRight);
    removeUnused(root, dir);
  }
  return dir;
}

type Check = (dir: string, files: CarriedFile[]) => boolean;

/** Reports whether a folder that this program has made has all files, by their sizes and modes. */
function isComplete(dir: string, files: CarriedFile[]): boolean {
  return files.every((file) => {
    const found = statSync(join(dir, file.name), { throwIfNoEntry: false });
    if (found === undefined || !found.isFile() || found.size !== file.bytes) return false;
    return !file.executable || (found.mode & 0o100) !== 0;
  });
}

/**
 * Reports whether a folder that any person may have made has exactly these files, with their contents: libraries are also
 * searched for in the folder.
 */
function isUnchanged(dir: string, files: CarriedFile[]): boolean {
  const facts = lstatSync(dir, { throwIfNoEntry: false });
  if (!facts?.isDirectory() || !isComplete(dir, files)) return false;
  const sums = new Map(files.map(({ name, sha256 }) => [name, sha256]));
  const found = readdirSync(dir, { withFileTypes: true });
  if (found.length !== sums.size) return false;
  return found.every(
    (entry) => entry.isFile() && sums.get(entry.name) === sha256Hex(readFileSync(join(dir, entry.name))),
  );
}

/** A link would lead the copies to another folder. */
function requireRealFolder(root: string): void {
  if (lstatSync(root, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return;
  throw new DamagedFileError(`${root} is a link, which is not followed`);
}

/** Fills a folder beside the final one and renames it, so that other processes never see an incomplete one. */
async function placeCopy(root: string, dir: string, files: CarriedFile[], isRight: Check): Promise<void> {
  const unfinished = unfinishedPath(root);
  makeFolder(unfinished, 0o700);
  try {
    for (const file of files) await copyOut(file, join(unfinished, file.name));
    syncPathNow(unfinished);
    moveIntoPlace(unfinished, dir, files, isRight);
    syncPathNow(root);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
}

/** Returns the contents of a carried file; undefined where they are not those of the build. */
export async function unpackCarried({ packed, sha256 }: CarriedFile): Promise<Uint8Array | undefined> {
  try {
    const bytes = Bun.zstdDecompressSync(new Uint8Array(await Bun.file(packed).arrayBuffer()));
    return sha256Hex(bytes) === sha256 ? bytes : undefined;
  } catch {
    return undefined;
  }
}

async function copyOut(file: CarriedFile, target: string): Promise<void> {
  const bytes = await unpackCarried(file);
  if (bytes === undefined) {
    throw new DamagedFileError(
      `the executable is damaged: ${file.name} has another SHA-256 than when it was built`,
    );
  }
  const copy = await createFile(target, file.executable ? 0o700 : 0o600);
  try {
    await copy.writeFile(bytes);
    await copy.sync();
  } finally {
    await copy.close();
  }
}

/** Renames a folder. When another process has finished the same copy meanwhile, that one is kept. */
function moveIntoPlace(unfinished: string, dir: string, files: CarriedFile[], isRight: Check): void {
  if (lstatSync(dir, { throwIfNoEntry: false }) && !isRight(dir, files)) {
    const damaged = `${unfinished}.damaged`;
    renameSync(dir, damaged);
    rmSync(damaged, { recursive: true, force: true });
  }
  try {
    renameSync(unfinished, dir);
  } catch (error) {
    if (!isRight(dir, files)) throw error;
  }
}

/** Removes the folders of other versions that no process has mapped, and old unfinished copies. */
function removeUnused(root: string, current: string): void {
  const mapped = mappedPaths();
  if (mapped === undefined) return;
  const realRoot = realpathSync(root);
  for (const name of readdirSync(root)) {
    const path = join(root, name);
    if (path === current) continue;
    const isVersion = /^[0-9a-f]{12}$/.test(name);
    if (isVersion && mapped.some((file) => file.startsWith(join(realRoot, name) + sep))) continue;
    if (!isVersion && !isAbandoned(name, path)) continue;
    try {
      rmSync(path, { recursive: true, force: true });
    } catch {
      // The folder is kept until the next extraction. Nothing depends on its removal.
    }
  }
}

function isAbandoned(name: string, path: string): boolean {
  if (!isUnfinishedName(name.replace(/\.damaged$/, ""))) return false;
  const found = statSync(path, { throwIfNoEntry: false });
  return found !== undefined && Date.now() - found.mtimeMs > ABANDONED_AFTER_MS;
}

/**
 * Returns the files that running processes execute or have mapped, as far as this user may see; undefined without
 * /proc.
 */
function mappedPaths(): string[] | undefined {
  const paths = new Set<string>();
  try {
    for (const pid of readdirSync("/proc")) {
      if (/^\d+$/.test(pid)) addMappedPaths(pid, paths);
    }
  } catch {
    return undefined;
  }
  return [...paths];
}

function addMappedPaths(pid: string, paths: Set<string>): void {
  try {
    paths.add(readlinkSync(`/proc/${pid}/exe`));
    for (const line of readFileSync(`/proc/${pid}/maps`, "utf8").split("\n")) {
      const start = line.indexOf("/");
      if (start !== -1) paths.add(line.slice(start));
    }
  } catch {
    // The process has ended, or belongs to another user.
  }
}
