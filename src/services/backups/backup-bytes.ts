import { closeSync, constants, fstatSync, openSync, readSync, type Stats, writeSync } from "node:fs";
import { errorMessage } from "../../lib/error-message.ts";
import { asOwnerOf } from "../../lib/rights.ts";

/** Reading and writing of backups, block by block. It runs in a process of its own, never in a server's. */

const BLOCK_BYTES = 1024 * 1024;
/** A signal is noticed, and the terminal written to, after this many blocks. */
const BLOCKS_BETWEEN_PAUSES = 16;

/** A part of an open file. */
export type Region = { descriptor: number; offset: number; bytes: number };

/** A file cannot be read to its end. Errors of what is written with its bytes are others. */
export class UnreadableError extends Error {}
/** A file shrank while it was read. */
export class ShortFileError extends UnreadableError {}
/** A recording can be read, and is not what was verified. */
export class ChangedError extends UnreadableError {}

/**
 * Reads a region.
 *
 * @param use receives each block, which is valid during the call
 * @throws ShortFileError, UnreadableError, what `use` throws
 */
export async function readRegion(
  { descriptor, offset, bytes }: Region,
  use: (block: Uint8Array) => void,
): Promise<void> {
  const block = new Uint8Array(Math.max(1, Math.min(BLOCK_BYTES, bytes)));
  let blocks = 0;
  for (let done = 0; done < bytes; ) {
    const count = readBlock(descriptor, block, Math.min(block.length, bytes - done), offset + done);
    if (count === 0) throw new ShortFileError("the file ends early");
    use(block.subarray(0, count));
    done += count;
    blocks += 1;
    if (blocks % BLOCKS_BETWEEN_PAUSES === 0) await pause();
  }
}

function readBlock(descriptor: number, block: Uint8Array, bytes: number, at: number): number {
  try {
    return readSync(descriptor, block, 0, bytes, at);
  } catch (error) {
    throw new UnreadableError(errorMessage(error), { cause: error });
  }
}

/** Lets signals be handled. */
export function pause(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Reads a small region at once. */
export function readWhole({ descriptor, offset, bytes }: Region): Uint8Array {
  const whole = new Uint8Array(bytes);
  for (let done = 0; done < bytes; ) {
    const count = readSync(descriptor, whole, done, bytes - done, offset + done);
    if (count === 0) throw new ShortFileError("the file ends early");
    done += count;
  }
  return whole;
}

/** Hashes a region. @returns the SHA-256, lower-case hex. @throws ShortFileError, UnreadableError */
export async function hashRegion(region: Region): Promise<string> {
  const hasher = new Bun.CryptoHasher("sha256");
  await readRegion(region, (block) => void hasher.update(block));
  return hasher.digest("hex");
}

/** Hashes a region at once. @returns the SHA-256, lower-case hex */
export function hashNow({ descriptor, offset, bytes }: Region): string {
  const hasher = new Bun.CryptoHasher("sha256");
  for (let done = 0; done < bytes; done += BLOCK_BYTES) {
    const count = Math.min(BLOCK_BYTES, bytes - done);
    hasher.update(readWhole({ descriptor, offset: offset + done, bytes: count }));
  }
  return hasher.digest("hex");
}

/** Writes all bytes at the end of an open file. */
export function writeWhole(descriptor: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(descriptor, bytes, done, bytes.length - done);
}

/**
 * Opens a regular file and follows no link. A command of root has the rights of the user who decides what the path means.
 *
 * @returns undefined when there is none
 * @throws UnreadableError for a link, folder, pipe or device, and where the system refuses
 */
export function openPlainFile(path: string): { descriptor: number; facts: Stats } | undefined {
  let descriptor: number;
  try {
    const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
    descriptor = asOwnerOf(path, () => openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return undefined;
    if (code === "ELOOP") throw new UnreadableError(`${path} is a link, not a regular file`);
    throw new UnreadableError(errorMessage(error), { cause: error });
  }
  const facts = fstatSync(descriptor);
  if (facts.isFile()) return { descriptor, facts };
  closeSync(descriptor);
  throw new UnreadableError(`${path} is not a regular file`);
}

/**
 * Reads the lines of a region one by one.
 *
 * @param see receives each block before its lines come; it is valid during the call
 * @throws Error for a line of more than `maxBytes` bytes, or an unfinished one
 */
export function* linesOf(
  { descriptor, offset, bytes }: Region,
  maxBytes: number,
  see: (block: Uint8Array) => void = () => {},
): Generator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let rest = Buffer.alloc(0);
  const block = Buffer.alloc(64 * 1024);
  for (let done = 0; done < bytes; ) {
    const count = readSync(descriptor, block, 0, Math.min(block.length, bytes - done), offset + done);
    if (count === 0) throw new ShortFileError("the file ends early");
    done += count;
    see(block.subarray(0, count));
    rest = Buffer.concat([rest, block.subarray(0, count)]);
    let start = 0;
    for (;;) {
      const end = rest.indexOf(0x0a, start);
      if (end === -1) break;
      yield decoder.decode(rest.subarray(start, end));
      start = end + 1;
    }
    rest = rest.subarray(start);
    if (rest.length > maxBytes) throw new Error("a line is too long");
  }
  if (rest.length > 0) throw new Error("the last line is not complete");
}
