import { type FileHandle, mkdir, open, opendir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { syncPath } from "../lib/durable-files.ts";
import { pathOfId } from "../lib/ids.ts";

/** Returns the directory of recordings. Each upload has one file there, named by its identifier. */
export function audioDirectory(dataDir: string): string {
  return join(dataDir, "uploads");
}

/** Returns the path of an upload's file. @throws Error for a text that is not an upload's identifier */
export function audioFilePath(dataDir: string, uploadId: string): string {
  return pathOfId(audioDirectory(dataDir), "upload", uploadId);
}

/** Creates the directory of recordings if there is none. */
export async function ensureAudioDirectory(dataDir: string): Promise<void> {
  await mkdir(audioDirectory(dataDir), { recursive: true, mode: 0o700 });
}

/** Returns the size of a plain file, bytes; undefined when there is none. */
export async function fileBytes(path: string): Promise<number | undefined> {
  try {
    const found = await stat(path);
    return found.isFile() ? found.size : undefined;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Brings a file's bytes and its name in the directory to the disk. */
export async function syncFile(path: string): Promise<void> {
  await syncPath(path);
  await syncPath(dirname(path));
}

/** Removes a file. A file that does not exist is not an error. */
export async function removeFile(path: string): Promise<void> {
  await rm(path, { force: true });
}

/** Opens a file for writing, and creates it if there is none. `empty` removes its bytes, `keep` keeps them. */
export async function openForWriting(path: string, how: "empty" | "keep"): Promise<FileHandle> {
  if (how === "empty") return open(path, "w", 0o600);
  await (await open(path, "a", 0o600)).close();
  return open(path, "r+");
}

/** Lists the plain files of a directory one by one: name, and time of last change in epoch milliseconds. */
export async function* listFiles(directory: string): AsyncGenerator<{ name: string; changedAtMs: number }> {
  for await (const entry of await opendir(directory)) {
    if (!entry.isFile()) continue;
    try {
      yield { name: entry.name, changedAtMs: (await stat(join(directory, entry.name))).mtimeMs };
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).code === "ENOENT";
}
