import type { FileHandle } from "node:fs/promises";

/** The system may read or write less than it was asked for. These functions go on until all is done. */

/**
 * Fills `target` from a position of a file on.
 *
 * @returns the number of bytes read: fewer than `target` holds only at the end of the file
 */
export async function readFully(file: FileHandle, target: Uint8Array, position: number): Promise<number> {
  let filled = 0;
  while (filled < target.length) {
    const { bytesRead } = await file.read(target, filled, target.length - filled, position + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return filled;
}

/** Writes all bytes at a position of a file. */
export async function writeFully(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let written = 0; written < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, written, bytes.length - written, position + written);
    written += bytesWritten;
  }
}
