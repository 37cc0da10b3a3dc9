import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import type { FileSource } from "./upload.ts";

/** For programs that have files: Node, Bun and Deno. */

export type OpenedFile = FileSource & {
  /** Reads the whole file. Returns its SHA-256 in lower-case hex. */
  sha256(): Promise<string>;
  close(): Promise<void>;
};

/** Opens a file for `upload` and `transcribe`. Only the part that is being sent is in memory. */
export async function openFile(path: string): Promise<OpenedFile> {
  const file = await open(path);
  const { size } = await file.stat();
  return {
    size,
    async slice(start, end) {
      const bytes = new Uint8Array(end - start);
      let filled = 0;
      while (filled < bytes.length) {
        const { bytesRead } = await file.read(bytes, filled, bytes.length - filled, start + filled);
        if (bytesRead === 0) throw new Error(`${path} has become shorter`);
        filled += bytesRead;
      }
      // Not a `Blob`: Node frees those late, and memory would grow with the file.
      return bytes.buffer;
    },
    async sha256() {
      const hash = createHash("sha256");
      const bytes = new Uint8Array(1024 * 1024);
      for (let at = 0; ; ) {
        const { bytesRead } = await file.read(bytes, 0, bytes.length, at);
        if (bytesRead === 0) return hash.digest("hex");
        hash.update(bytes.subarray(0, bytesRead));
        at += bytesRead;
      }
    },
    close: () => file.close(),
  };
}
