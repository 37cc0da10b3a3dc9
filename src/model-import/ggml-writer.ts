import { createHash } from "node:crypto";
import { closeSync, fsyncSync, ftruncateSync, writeSync } from "node:fs";

/** Writes the bytes of a file in order and hashes them. */
export type ByteSink = {
  write(bytes: Uint8Array): void;
  bytes(): number;
  /** Brings the file to the disk and closes it. @returns its SHA-256, lower-case hex */
  finish(): string;
};

/** @param descriptor of an empty file, which `finish` closes; undefined: bytes are only counted and hashed */
export function openSink(descriptor: number | undefined): ByteSink {
  const hash = createHash("sha256");
  let total = 0;
  return {
    write(bytes) {
      hash.update(bytes);
      total += bytes.length;
      if (descriptor === undefined) return;
      for (let done = 0; done < bytes.length; )
        done += writeSync(descriptor, bytes, done, bytes.length - done);
    },
    bytes: () => total,
    finish() {
      if (descriptor !== undefined) {
        ftruncateSync(descriptor, total);
        fsyncSync(descriptor);
        closeSync(descriptor);
      }
      return hash.digest("hex");
    },
  };
}

/** Makes the bytes of 32-bit whole numbers, as ggml's files have them. */
export function int32(...values: readonly number[]): Uint8Array {
  return new Uint8Array(Int32Array.from(values).buffer);
}
