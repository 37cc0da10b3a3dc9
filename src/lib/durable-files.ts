import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, openSync, rmSync, writeSync } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { giveToOwner } from "./give-to-owner.ts";

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
 * @throws the system's error; the folder is then as it was
 */
export async function writeDurably(path: string, content: string | Uint8Array, mode: number): Promise<void> {
  const unfinished = unfinishedPath(dirname(path));
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
    const bytes = Buffer.from(content);
    for (let written = 0; written < bytes.length; ) written += writeSync(file, bytes, written);
    fsyncSync(file);
  } catch (error) {
    rmSync(path, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
}
