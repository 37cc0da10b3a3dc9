import {
  accessSync,
  closeSync,
  constants,
  fstatSync,
  openSync,
  readSync,
  type Stats,
  statSync,
} from "node:fs";
import { asUser, decisionOn } from "./rights.ts";

/** A path does not name a regular file, or the file is too large for its purpose. */
export class RegularFileError extends Error {
  /** The reason without the path, for messages that name the file themselves. */
  readonly code: string;

  constructor(path: string, reason: string) {
    super(`${path}: ${reason}`);
    this.name = "RegularFileError";
    this.code = reason;
  }
}

/**
 * Returns size and times of a regular file. Nothing else may be opened: a named pipe without a writer would block, and
 * to open a device may have effects.
 *
 * @throws RegularFileError for a folder, pipe, socket or device; the system's error when the path cannot be read
 */
export function statRegularFile(path: string): Stats {
  const { user, path: decided } = decisionOn(path);
  const facts = asUser(user, () => statSync(decided));
  if (!facts.isFile()) throw new RegularFileError(path, `it is ${kindOf(facts)}, not a regular file`);
  return facts;
}

/**
 * Opens a regular file for reading. It never blocks, even when the file is replaced by a pipe at this moment. A command of
 * root has the rights of the user who decides what the path means.
 *
 * @returns the descriptor, which the caller closes
 * @throws RegularFileError, the system's error
 */
export function openRegularFile(path: string): number {
  statRegularFile(path);
  const { O_RDONLY, O_NONBLOCK, O_NOCTTY } = constants;
  const { user, path: decided, flags } = decisionOn(path);
  const descriptor = asUser(user, () => openSync(decided, O_RDONLY | O_NONBLOCK | O_NOCTTY | flags));
  const facts = fstatSync(descriptor);
  if (facts.isFile()) return descriptor;
  closeSync(descriptor);
  throw new RegularFileError(path, `it is ${kindOf(facts)}, not a regular file`);
}

/**
 * Reads the text of a regular file, UTF-8.
 *
 * @param maxBytes a larger file is refused before it is read
 * @throws RegularFileError, the system's error
 */
export function readRegularFile(path: string, maxBytes: number): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(readRegularBytes(path, maxBytes));
}

/** Reads the bytes of a regular file, as `readRegularFile` does its text. */
export function readRegularBytes(path: string, maxBytes: number): Uint8Array {
  const descriptor = openRegularFile(path);
  try {
    const { size } = fstatSync(descriptor);
    if (size > maxBytes) throw new RegularFileError(path, `it is larger than ${maxBytes} bytes`);
    const bytes = new Uint8Array(size);
    let filled = 0;
    while (filled < size) {
      const count = readSync(descriptor, bytes, filled, size - filled, filled);
      if (count === 0) break;
      filled += count;
    }
    return bytes.subarray(0, filled);
  } finally {
    closeSync(descriptor);
  }
}

/** Names the kind of anything but a regular file, with its article. */
export function kindOf(facts: Stats): string {
  if (facts.isSymbolicLink()) return "a link";
  if (facts.isDirectory()) return "a directory";
  if (facts.isFIFO()) return "a named pipe";
  if (facts.isSocket()) return "a socket";
  return "a device";
}

/** Reports whether this user may read a file. */
export function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}
