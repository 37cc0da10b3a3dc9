import type { FileHandle } from "node:fs/promises";
import { giveBack } from "../lib/give-back.ts";

/** Bytes of one upload that may wait in memory for the disk. */
export const WRITE_AHEAD_BYTES = 2 * 1024 * 1024;
/** A write begins with `GATHER_BYTES`, or with fewer once they have waited for `GATHER_MS`. */
const GATHER_BYTES = 512 * 1024;
const GATHER_MS = 5;
/** The file is brought to the disk after each so many bytes, while the next bytes arrive. */
export const SYNC_BYTES = 64 * 1024 * 1024;
/** Buffers in one gathered write; the kernel takes 1024 at most (POSIX `IOV_MAX`). */
const MAX_GATHERED = 256;

export type AudioWriter = {
  /**
   * Takes ownership of a chunk, and frees its memory once it is written. Resolves when the next chunk may come.
   * Undefined: the next may come at once.
   */
  write(chunk: Uint8Array): Promise<void> | undefined;
  /** Resolves when all chunks are in the file and no write or sync is under way. Rejects with the first error of the disk. */
  flush(): Promise<void>;
  /** Returns the bytes that are in the file. */
  written(): number;
};

/**
 * Writes a stream of chunks into a file, in order, from a position on. It gathers chunks that come fast into large
 * writes, and writes slow ones within milliseconds. Receiving, writing and syncing run at the same time, and the event
 * loop never waits for the disk. The caller syncs the last `SYNC_BYTES` at most.
 */
export function openAudioWriter(file: FileHandle, position: number): AudioWriter {
  let waiting: Uint8Array[] = [];
  let waitingBytes = 0;
  let writtenBytes = 0;
  let running: Promise<void> | undefined;
  let syncing: Promise<void> | undefined;
  let lateStart: ReturnType<typeof setTimeout> | undefined;
  let space: PromiseWithResolvers<void> | undefined;
  let failure: { error: unknown } | undefined;

  async function drain(): Promise<void> {
    try {
      while (waiting.length > 0) {
        const batch = waiting.splice(0, MAX_GATHERED);
        const bytes = batch.reduce((sum, chunk) => sum + chunk.length, 0);
        await writeAll(file, batch, position + writtenBytes);
        for (const chunk of batch) giveBack(chunk);
        writtenBytes += bytes;
        waitingBytes -= bytes;
        syncAfter(position + writtenBytes - bytes, position + writtenBytes);
        if (waitingBytes < WRITE_AHEAD_BYTES) resumeWriter();
      }
    } catch (error) {
      failure = { error };
      waiting = [];
    } finally {
      running = undefined;
      resumeWriter();
    }
  }

  /** Syncs once at a time. When the disk is slower than the sender, the next sync covers more bytes. */
  function syncAfter(from: number, to: number): void {
    if (syncing || Math.floor(from / SYNC_BYTES) === Math.floor(to / SYNC_BYTES)) return;
    syncing = file
      .datasync()
      // The system reports a failed write only once, so the error must be kept.
      .catch((error: unknown) => {
        failure ??= { error };
      })
      .finally(() => {
        syncing = undefined;
      });
  }

  function start(): void {
    clearTimeout(lateStart);
    lateStart = undefined;
    if (waiting.length > 0) running ??= drain();
  }

  function resumeWriter(): void {
    space?.resolve();
    space = undefined;
  }

  return {
    write(chunk) {
      if (failure) return Promise.reject(failure.error);
      if (chunk.length === 0) return undefined;
      waiting.push(chunk);
      waitingBytes += chunk.length;
      if (waitingBytes >= GATHER_BYTES) start();
      else lateStart ??= setTimeout(start, GATHER_MS);
      if (waitingBytes < WRITE_AHEAD_BYTES) return undefined;
      space ??= Promise.withResolvers();
      return space.promise;
    },
    async flush() {
      start();
      await running;
      await syncing;
      if (failure) throw failure.error;
    },
    written: () => writtenBytes,
  };
}

/** Writes chunks with one gathered write, and repeats it for the bytes that the kernel has left. */
async function writeAll(file: FileHandle, chunks: Uint8Array[], position: number): Promise<void> {
  let rest = chunks;
  let at = position;
  while (rest.length > 0) {
    const { bytesWritten } = await file.writev(rest, at);
    if (bytesWritten === 0) throw Object.assign(new Error("the disk took no bytes"), { code: "ENOSPC" });
    at += bytesWritten;
    rest = dropBytes(rest, bytesWritten);
  }
}

function dropBytes(chunks: Uint8Array[], bytes: number): Uint8Array[] {
  let left = bytes;
  for (const [index, chunk] of chunks.entries()) {
    if (left < chunk.length) return [chunk.subarray(left), ...chunks.slice(index + 1)];
    left -= chunk.length;
  }
  return [];
}
