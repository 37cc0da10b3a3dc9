import { type FileHandle, mkdir, open, opendir, rename, rm, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pathOfId } from "../lib/ids.ts";

/** Where recordings lie: one file an upload, under its identifier, from its first byte to its removal. */
export function audioDirectory(dataDir: string): string {
  return join(dataDir, "uploads");
}

/** The file of one upload. @throws Error for a text that is no upload's identifier */
export function audioFilePath(dataDir: string, uploadId: string): string {
  return pathOfId(audioDirectory(dataDir), "upload", uploadId);
}

/** Makes the directory of recordings where there is none. */
export async function ensureAudioDirectory(dataDir: string): Promise<void> {
  await mkdir(audioDirectory(dataDir), { recursive: true, mode: 0o700 });
}

/** Bytes in a file, or undefined when there is none. */
export async function fileBytes(path: string): Promise<number | undefined> {
  try {
    const found = await stat(path);
    return found.isFile() ? found.size : undefined;
  } catch (error) {
    if (hasCode(error, "ENOENT")) return undefined;
    throw error;
  }
}

/** Brings a file's bytes and its name in the directory to the disk. */
export async function syncFile(path: string): Promise<void> {
  const file = await open(path, "r+");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
  await syncDirectory(dirname(path));
}

/** Brings the names in a directory to the disk. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** Moves a finished file into place on the same disk: its bytes first, then the name, each brought to the disk. */
export async function moveIntoPlace(from: string, to: string): Promise<void> {
  await syncFile(from);
  await rename(from, to);
  await syncDirectory(dirname(to));
}

/** Removes a file; one that is not there is no error. */
export async function removeFile(path: string): Promise<void> {
  await rm(path, { force: true });
}

/** Opens a file to write into: emptied first, or as it stands. It is made when it is missing. */
export async function openForWriting(path: string, how: "empty" | "keep"): Promise<FileHandle> {
  if (how === "empty") return open(path, "w", 0o600);
  await (await open(path, "a", 0o600)).close();
  return open(path, "r+");
}

/** Names and times of change of the plain files in a directory, one by one. */
export async function* listFiles(directory: string): AsyncGenerator<{ name: string; changedAtMs: number }> {
  for await (const entry of await opendir(directory)) {
    if (!entry.isFile()) continue;
    try {
      yield { name: entry.name, changedAtMs: (await stat(join(directory, entry.name))).mtimeMs };
    } catch (error) {
      if (!hasCode(error, "ENOENT")) throw error;
    }
  }
}

/** Bytes that an ordinary user may still write on the disk of a path. */
export async function freeDiskBytes(path: string): Promise<number> {
  const { bavail, bsize } = await statfs(path);
  return bavail * bsize;
}

/** Whether an error came from the operating system with one of these codes, as `ENOSPC`. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}
