import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { giveToOwner } from "./give-to-owner.ts";
import { sha256Hex } from "./sha256.ts";

/** Files that survive a power cut, and whose names never show half of their bytes. */

/** Brings the bytes of a file, or the names in a folder, to the disk. @throws the system's error */
export async function syncPath(path: string): Promise<void> {
  const file = await open(path, "r");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Does the same as `syncPath`, and the calling thread waits for the disk. */
export function syncPathNow(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Moves a finished file to its place on the same disk: first its bytes come to the disk, then its new name. */
export async function moveDurably(from: string, to: string): Promise<void> {
  await syncPath(from);
  await rename(from, to);
  await syncPath(dirname(to));
}

const UNFINISHED = /^\.[0-9a-f]{12}\.unfinished$/;

/** Makes up a path in a folder for a file that is being written. */
export function unfinishedPath(folder: string): string {
  return join(folder, `.${randomBytes(6).toString("hex")}.unfinished`);
}

/**
 * Removes what a killed process has left of a file, and returns the path that the file has until it is whole. The path is the
 * same each time. This is for folders of customers, which the server does not search. A file has one writer at a time.
 */
export async function sameUnfinishedPath(path: string): Promise<string> {
  const unfinished = join(dirname(path), `.${sha256Hex(path).slice(0, 12)}.unfinished`);
  await rm(unfinished, { force: true });
  return unfinished;
}

/** Reports whether a file's name is one of `unfinishedPath`: no finished file has such a name. */
export function isUnfinishedName(name: string): boolean {
  return UNFINISHED.test(name);
}

/**
 * Creates a file with exactly this mode, whatever the umask, for the owner of its folder.
 *
 * @throws the system's error when something is there already
 */
export async function createFile(path: string, mode: number): Promise<FileHandle> {
  const file = await open(path, "wx", mode);
  await file.chmod(mode);
  giveToOwner(path);
  return file;
}

/**
 * Writes a file whole or not at all, and replaces one of the same name. File and name are on the disk afterwards.
 *
 * @param content pieces, where the whole should not be in memory
 * @param unfinished where the file is until it is whole, in the same folder
 * @throws the system's error, and what the pieces throw; the folder is then as it was
 */
export async function writeDurably(
  path: string,
  content: string | Uint8Array | AsyncIterable<Uint8Array>,
  mode: number,
  unfinished: string = unfinishedPath(dirname(path)),
): Promise<void> {
  try {
    const file = await createFile(unfinished, mode);
    try {
      await file.writeFile(content);
    } finally {
      await file.close();
    }
    await moveDurably(unfinished, path);
  } finally {
    await rm(unfinished, { force: true });
  }
}

/**
 * Writes a new file, and removes it again when it cannot be written whole. The calling thread waits for the disk.
 *
 * @throws the system's error, also when something is there already
 */
export function writeNewFileNow(path: string, content: string, mode: number): void {
  const file = openSync(path, "wx", mode);
  try {
    writeAllNow(file, content);
  } catch (error) {
    rmSync(path, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
}

/** Writes at the place of the descriptor, and brings the file to the disk. */
function writeAllNow(file: number, content: string): void {
  const bytes = Buffer.from(content);
  for (let written = 0; written < bytes.length; ) written += writeSync(file, bytes, written);
  fsyncSync(file);
}

/** Does the same as `writeDurably`, and the calling thread waits for the disk. */
export function writeDurablyNow(path: string, content: string, mode: number): void {
  const unfinished = unfinishedPath(dirname(path));
  try {
    writeNewFileNow(unfinished, content, mode);
    giveToOwner(unfinished);
    renameSync(unfinished, path);
    syncPathNow(dirname(path));
  } finally {
    rmSync(unfinished, { force: true });
  }
}

const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW } = constants;
const APPENDING = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW;
const PRIVATE = 0o600;

/** Renders lines of a file. They begin on a new line, because a crash may have cut the last one. */
const textOf = (lines: readonly string[]) => `\n${lines.map((line) => `${line}\n`).join("")}`;

/**
 * Adds lines at the end of a file, which only its owner may read, and brings them to the disk. The first call makes the
 * file. A link is not followed.
 *
 * @throws the system's error
 */
export async function appendLines(path: string, lines: readonly string[]): Promise<void> {
  if (lines.length === 0) return;
  const isNew = !existsSync(path);
  const file = await open(path, APPENDING, PRIVATE);
  try {
    if (isNew) giveToOwner(path);
    await file.appendFile(textOf(lines));
    await file.sync();
  } finally {
    await file.close();
  }
  if (isNew) await syncPath(dirname(path));
}

/** Does the same as `appendLines`, and the calling thread waits for the disk. */
export function appendLinesNow(path: string, lines: readonly string[]): void {
  if (lines.length === 0) return;
  const isNew = !existsSync(path);
  const file = openSync(path, APPENDING, PRIVATE);
  try {
    if (isNew) giveToOwner(path);
    writeAllNow(file, textOf(lines));
  } finally {
    closeSync(file);
  }
  if (isNew) syncPathNow(dirname(path));
}
