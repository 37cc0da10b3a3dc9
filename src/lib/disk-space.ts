import { statfsSync } from "node:fs";

/** Returns the bytes that this program may still write to the file system of a folder. */
export function freeBytesOf(directory: string): number {
  const { bavail, bsize } = statfsSync(directory);
  return bavail * bsize;
}

/** Returns the size of the file system of a folder, in bytes. */
export function totalBytesOf(directory: string): number {
  const { blocks, bsize } = statfsSync(directory);
  return blocks * bsize;
}
